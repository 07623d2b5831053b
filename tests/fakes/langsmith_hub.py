"""LangSmith's hub as a stateful server: prompts with commits and tags, folders of files.

Source: the calls and types of langsmith 0.15.1 and LangSmith's published API description of tags.
The official SDK writes to it and reads from it (tests/integration/test_langsmith_hub_sdk.py). What
the real server does with a stale parent is not documented, so the fake knows three rules.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from contracts.json_types import Json, canonical_json, sha256_hex
from tests.fakes.langsmith_hub_repos import (
    BEGIN,
    TENANT,
    HubCommit,
    HubRepo,
    merged,
    row_of,
    shown,
    uuid_of,
    without_model,
)

Body = dict[str, Json]
ParentRule = Literal["head", "any", "rebase"]
"""What a commit on a parent that is not the newest commit gets: 409, its parent, or the newest."""


class _Refusal(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with a request; the first that fits is used up.

    `lost`: done, and answered with 504. `dropped`: done, and the connection closes. `late`: done
    `seconds` after the caller may have given up. `status`: not done.
    """

    kind: Literal["lost", "dropped", "late", "status"]
    method: str = ""
    path: str = ""
    writes: bool = False
    """Only what is no GET."""
    status: int = 503
    body: Body = field(default_factory=lambda: {"detail": "mishap"})
    seconds: float = 0.0
    times: int = 1
    after: int = 0


@dataclass(slots=True, kw_only=True)
class FakeHub:
    """A workspace's hub."""

    key: str = "lsv2_pt_hub"
    workspace: str | None = None
    """Set: the key is an organization's, and this header is needed."""
    prefixes: tuple[str, ...] = ("", "/api/v1")
    parent_rule: ParentRule = "head"
    lag: int = 0
    """So many reads by a tag still show where it pointed to before."""
    has_tags: bool = True
    repos: dict[str, HubRepo] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, str, Body]] = field(default_factory=list)
    """Method, path below the prefix, and body of every request, in order."""
    during: Callable[[str, str, str], None] | None = None
    """Called with "before" or "after", method and path around every request."""
    _clock: int = 0

    @property
    def writes(self) -> list[tuple[str, str, Body]]:
        """What was asked to be written."""
        return [one for one in self.asked if one[0] not in ("GET", "HEAD")]

    def prompt(
        self, name: str, manifest: Json, *, tag: str | None = "production", by: str = "Ann"
    ) -> HubCommit:
        """Commit a prompt by hand, and point the tag to it."""
        return self._by_hand(name, "prompt", manifest=manifest, tag=tag, by=by)

    def folder(
        self, name: str, kind: str, files: Mapping[str, str | None], *, by: str = "Ann"
    ) -> HubCommit:
        """Commit files of a skill or an agent by hand; None removes one."""
        entries: dict[str, Json] = {
            path: None if text is None else {"type": "file", "content": text}
            for path, text in files.items()
        }
        return self._by_hand(name, kind, entries=entries, by=by)

    def point(self, name: str, tag: str, commit: HubCommit) -> None:
        """Move a tag by hand."""
        self._point(self.repos[name], tag, commit.id)

    def tagged(self, name: str, tag: str = "production") -> HubCommit:
        """Where a tag points to."""
        repo = self.repos[name]
        found = repo.by_id(repo.tags[tag])
        assert found is not None
        return found

    def state(self) -> Json:
        """Everything that agents and people can see, to compare."""
        return {
            name: [[c.hash for c in repo.commits], dict(sorted(repo.tags.items()))]
            for name, repo in sorted(self.repos.items())
        }

    def app(self) -> Starlette:
        """The server; hand it to `tests.fakes.serving.serve`."""
        routes: list[Route] = []
        for prefix in self.prefixes:
            hub = (
                f"{prefix}/platform/hub" if prefix.endswith("/v1") else f"{prefix}/v1/platform/hub"
            )
            repo, files = "/repos/{owner}/{repo}", f"{hub}/repos/{{owner}}/{{repo}}/directories"
            table: list[tuple[str, str, Callable[[Request, Body], Json]]] = [
                ("GET", "/info", self._info), ("GET", "/settings", self._settings),
                ("GET", "/repos", self._list), ("POST", "/repos", self._create),
                ("GET", "/repos/", self._list), ("POST", "/repos/", self._create),
                ("GET", repo, self._get), ("PATCH", repo, self._get),
                ("GET", f"{repo}/tags", self._tags), ("POST", f"{repo}/tags", self._add_tag),
                ("GET", f"{repo}/tags/{{tag}}", self._tag),
                ("PATCH", f"{repo}/tags/{{tag}}", self._move_tag),
                ("GET", "/commits/{owner}/{repo}", self._commits),
                ("GET", "/commits/{owner}/{repo}/", self._commits),
                ("POST", "/commits/{owner}/{repo}", self._commit_prompt),
                ("GET", "/commits/{owner}/{repo}/{commit}", self._commit),
            ]  # fmt: skip
            routes += [Route(f"{prefix}{p}", self._told(a, p), methods=[m]) for m, p, a in table]
            routes += [
                Route(files, self._told(self._directory, "directory"), methods=["GET"]),
                Route(
                    f"{files}/commits", self._told(self._commit_folder, "directory"),
                    methods=["POST"],
                ),
            ]  # fmt: skip
        return Starlette(routes=routes)

    def _told(
        self, answer: Callable[[Request, Body], Json], _path: str
    ) -> Callable[[Request], object]:
        async def endpoint(request: Request) -> Response:
            body: Body = json.loads(await request.body() or b"{}")
            method, path = request.method, request.url.path.removeprefix("/api/v1")
            self.asked.append((method, path, body))
            self._tell("before", method, path)
            fault = self._fault(method, path)
            if fault is not None and fault.kind == "status":
                return JSONResponse(fault.body, fault.status)
            if fault is not None and fault.kind == "late":
                await asyncio.sleep(fault.seconds)
            try:
                if not path.endswith("/info"):
                    self._admit(request)
                value = answer(request, body)
            except _Refusal as refusal:
                return JSONResponse({"detail": refusal.detail}, refusal.status)
            self._tell("after", method, path)
            if fault is not None and fault.kind == "lost":
                return JSONResponse({"detail": "upstream timed out"}, 504)
            if fault is not None and fault.kind == "dropped":
                return StreamingResponse(_cut(json.dumps(value).encode()))
            return JSONResponse(value)

        return endpoint

    def _tell(self, when: str, method: str, path: str) -> None:
        if self.during is not None:
            self.during(when, method, path)

    def _fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            fits = fault.method in ("", method) and fault.path in path and fault.times
            if not fits or (fault.writes and method == "GET"):
                continue
            if fault.after:
                fault.after -= 1
                continue
            fault.times -= 1
            return fault
        return None

    def _admit(self, request: Request) -> None:
        if request.headers.get("x-api-key") != self.key:
            raise _Refusal(401, "Invalid token")
        if self.workspace and request.headers.get("x-tenant-id") != self.workspace:
            raise _Refusal(403, "org_scoped_key_requires_workspace")

    def _info(self, _request: Request, _body: Body) -> Json:
        return {"version": "0.18.2", "instance_flags": {}}

    def _settings(self, _request: Request, _body: Body) -> Json:
        return {"id": TENANT, "display_name": "desk", "created_at": BEGIN.isoformat(),
                "tenant_handle": None}  # fmt: skip

    def _list(self, request: Request, _body: Body) -> Json:
        kind, (start, size) = request.query_params.get("repo_type"), _page(request)
        found = [r for r in self.repos.values() if kind in (None, r.kind)]
        page = [shown(repo) for repo in found[start : start + size]]
        return {"repos": list[Json](page), "total": len(found)}

    def _create(self, _request: Request, body: Body) -> Json:
        name = str(body["repo_handle"])
        if name in self.repos:
            raise _Refusal(409, "Repo already exists")
        self.repos[name] = HubRepo(
            handle=name, kind=str(body.get("repo_type") or "prompt"),
            public=body.get("is_public") is True,
        )  # fmt: skip
        return {"repo": shown(self.repos[name])}

    def _get(self, request: Request, _body: Body) -> Json:
        return {"repo": shown(self._repo(request))}

    def _repo(self, request: Request) -> HubRepo:
        repo = self.repos.get(request.path_params["repo"])
        if repo is None or (request.path_params["owner"] == "-" and repo.tenant != TENANT):
            raise _Refusal(404, "Repo not found")
        return repo

    def _commits(self, request: Request, _body: Body) -> Json:
        repo = self._repo(request)
        start, size = _page(request)
        if size > 100:
            raise _Refusal(422, "limit must be at most 100")
        newest = [row_of(repo, commit) for commit in reversed(repo.commits)]
        return {"commits": list[Json](newest[start : start + size]), "total": len(newest)}

    def _commit(self, request: Request, _body: Body) -> Json:
        repo, which = self._repo(request), request.path_params["commit"]
        commit = repo.find(which)
        if which in repo.tags and self.lag > 0:
            self.lag -= 1
            commit = repo.by_id(repo.was.get(which, "")) or commit
        if commit is None:
            raise _Refusal(404, "Commit not found")
        query = request.query_params
        model = query.get("include_model") == "true" or "model" in query.get("include", "")
        manifest = commit.manifest if model else without_model(commit.manifest)
        return {
            "commit_hash": commit.hash, "manifest": manifest, "examples": [],
            "description": commit.description, "is_draft": False, "model_config": None,
            "model_provider": None,
        }  # fmt: skip

    def _commit_prompt(self, request: Request, body: Body) -> Json:
        repo = self._repo(request)
        description = body.get("description")
        if isinstance(description, str) and len(description) > 1000:
            raise _Refusal(422, "description must be at most 1000 characters")
        head = repo.head
        if head is not None and canonical_json(head.manifest) == canonical_json(body["manifest"]):
            raise _Refusal(409, "Nothing to commit: prompt has not changed since latest commit")
        parent = self._parent(repo, body.get("parent_commit"))
        commit = self._add(
            repo, parent=parent, manifest=body["manifest"], files={}, by="key",
            description=description if isinstance(description, str) else None,
        )  # fmt: skip
        return {"commit": row_of(repo, commit)}

    def _parent(self, repo: HubRepo, given: Json) -> str | None:
        head = repo.head
        found = repo.find(given) if isinstance(given, str) else head
        if isinstance(given, str) and found is None:
            raise _Refusal(404, "Parent commit not found")
        if found is not head and self.parent_rule == "head":
            raise _Refusal(409, "Parent commit is not the latest commit")
        if self.parent_rule == "rebase":
            found = head
        return found.hash if found is not None else None

    def _tags(self, request: Request, _body: Body) -> Json:
        repo = self._repo(request)
        return [self._as_tag(repo, name) for name in sorted(repo.tags)]

    def _tag(self, request: Request, _body: Body) -> Json:
        repo, name = self._repo(request), request.path_params["tag"]
        if name not in repo.tags or not self.has_tags:
            raise _Refusal(404, "Tag not found")
        return self._as_tag(repo, name)

    def _add_tag(self, request: Request, body: Body) -> Json:
        repo, name = self._repo(request), str(body["tag_name"])
        if name in repo.tags:
            raise _Refusal(409, "Tag already exists")
        self._point(repo, name, str(body["commit_id"]))
        return self._as_tag(repo, name)

    def _move_tag(self, request: Request, body: Body) -> Json:
        repo, name = self._repo(request), request.path_params["tag"]
        if name not in repo.tags:
            raise _Refusal(404, "Tag not found")
        self._point(repo, name, str(body["commit_id"]))
        return self._as_tag(repo, name)

    def _point(self, repo: HubRepo, tag: str, commit_id: str) -> None:
        if repo.by_id(commit_id) is None:
            raise _Refusal(404, "Commit not found")
        if tag in repo.tags:
            repo.was[tag] = repo.tags[tag]
        repo.tags[tag] = commit_id

    def _as_tag(self, repo: HubRepo, name: str) -> Json:
        commit = repo.by_id(repo.tags[name])
        assert commit is not None
        return {"id": uuid_of(f"{repo.handle}:{name}"), "repo_id": uuid_of(repo.handle),
                "commit_id": commit.id, "commit_hash": commit.hash, "tag_name": name,
                "created_at": commit.at, "updated_at": commit.at}  # fmt: skip

    def _directory(self, request: Request, _body: Body) -> Json:
        repo, wanted = self._repo(request), request.query_params.get("repo_type")
        commit = repo.find(request.query_params.get("commit") or "latest")
        if wanted not in (None, repo.kind) or commit is None:
            raise _Refusal(404, "commit not found")
        return {"commit_hash": commit.hash, "commit_id": commit.id, "files": dict(commit.files)}

    def _commit_folder(self, request: Request, body: Body) -> Json:
        repo, files = self._repo(request), body.get("files")
        assert isinstance(files, dict)
        parent = self._parent(repo, body.get("parent_commit"))
        files_now = dict(repo.head.files) if repo.head is not None else {}
        commit = self._add(repo, parent=parent, manifest=None, files=merged(files_now, files),
                           description=None, by="key")  # fmt: skip
        return {"commit": {"id": commit.id, "commit_hash": commit.hash, "created_at": commit.at}}

    def _by_hand(
        self, name: str, kind: str, *, manifest: Json = None,
        entries: Mapping[str, Json] | None = None, tag: str | None = None, by: str,
    ) -> HubCommit:  # fmt: skip
        repo = self.repos.setdefault(name, HubRepo(handle=name, kind=kind))
        files = dict(repo.head.files) if repo.head is not None else {}
        commit = self._add(
            repo, parent=repo.head.hash if repo.head else None, manifest=manifest,
            files=merged(files, entries or {}), description=None, by=by,
        )  # fmt: skip
        if tag is not None:
            self._point(repo, tag, commit.id)
        return commit

    def _add(
        self, repo: HubRepo, *, parent: str | None, manifest: Json, files: Mapping[str, Json],
        description: str | None, by: str,
    ) -> HubCommit:  # fmt: skip
        self._clock += 1
        seed = f"{repo.handle}:{self._clock}"
        commit = HubCommit(
            id=uuid_of(seed), hash=sha256_hex(seed.encode()), parent=parent, manifest=manifest,
            files=files, description=description, by=by,
            at=(BEGIN + timedelta(minutes=self._clock)).isoformat(),
        )  # fmt: skip
        repo.commits.append(commit)
        return commit


def _page(request: Request) -> tuple[int, int]:
    query = request.query_params
    return int(query.get("offset", 0)), int(query.get("limit", 20))


async def _cut(data: bytes):  # type: ignore[no-untyped-def]  # noqa: ANN202  (an async generator)
    yield data[: len(data) // 2]
    raise ConnectionResetError("the answer breaks off")
