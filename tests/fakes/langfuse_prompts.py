"""A Langfuse server's prompts and skills, with the rules of the real one.

Labels move under a lock and are only ever added to a version of a prompt; numbers go up; `latest`
moves by itself; a name's type cannot change; parallel creates of one name collide. What a real 4.16
server answered is in the recordings that the tests compare this with.
"""

import asyncio
import base64
import json
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from contracts.json_types import Json
from tests.fakes.langfuse_faults import Faults
from tests.fakes.langfuse_refusals import Refusal, bad_request, invalid, missing
from tests.fakes.langfuse_skills import LangfuseSkills

PUBLIC, SECRET = "pk-lf-fake", "sk-lf-fake"
PROJECT = "proj1"
MISSING = "<!DOCTYPE html><html><head><title>404</title></head><body>Not found</body></html>"
Row = dict[str, Json]
_LABEL = re.compile(r"[a-z0-9_.-]{1,36}")
_TAG = re.compile(r"@@@langfusePrompt:name=([^|@]+)\|label=([^@]+)@@@")


@dataclass(slots=True)
class FakePrompts:
    """The prompts of one project."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    """Versions by name, oldest first."""
    stale_reads: int = 0
    """So many reads by label after each move still get what was; a cache that lags."""
    stale_versions: int = 0
    """So many reads by number after each move still show the labels that were."""
    window_s: float = 0.0
    """Between looking for the newest number and taking the next."""
    conflict: int = 400
    """The status of a create that collides; some builds answer 409."""
    _old: dict[tuple[str, str], tuple[int, Row]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _made: int = 0

    def put(
        self, name: str, prompt: Json, *, labels: Sequence[str] = (), config: Json = None,
        by: str = "kim", message: str | None = None, tags: Sequence[str] | None = None,
    ) -> int:  # fmt: skip
        """A new version, as a person makes it in the pages of the vendor; its number."""
        kind = "text" if isinstance(prompt, str) else "chat"
        with self._lock:
            versions = self.rows.setdefault(name, [])
            number = int(str(versions[-1]["version"])) + 1 if versions else 1
            return self._insert(
                name, number, prompt=prompt, type=kind, config=config if config else {},
                createdBy=by, commitMessage=message, labels=list(labels),
                tags=list(tags) if tags is not None else None,
            )  # fmt: skip

    def move(self, name: str, number: int, labels: Sequence[str]) -> Row:
        """Labels to a version, from whichever has them; those it has stay."""
        with self._lock:
            row = self.version(name, number)
            for label in labels:
                for other in self.rows[name]:
                    held = _texts(other["labels"])
                    if label in held and other is not row:
                        self._remember(other, label)
                        other["labels"] = [one for one in held if one != label]
                        other["updatedAt"] = self._now()
            row["labels"] = [*dict.fromkeys([*labels, *_texts(row["labels"])])]
            row["updatedAt"] = self._now()
            return row

    def version(self, name: str, number: int) -> Row:
        """One row."""
        return next(row for row in self.rows[name] if row["version"] == number)

    def labelled(self, name: str, label: str) -> Row | None:
        """The row with the label, without any cache."""
        rows = self.rows.get(name, [])
        return next((row for row in rows if label in _texts(row["labels"])), None)

    def messages(self, name: str) -> list[str]:
        """The commit messages of all versions, oldest first; empty for none."""
        return [str(row["commitMessage"] or "") for row in self.rows.get(name, [])]

    def _insert(self, name: str, number: int, **columns: Json) -> int:
        versions = self.rows.setdefault(name, [])
        newest = versions[-1] if versions else None
        labels = _texts(columns.pop("labels"))
        given = columns.pop("tags")
        tags = given if given is not None else (newest["tags"] if newest else [])
        now = self._now()
        row: Row = {
            "id": f"prm-{self._made}", "createdAt": now, "updatedAt": now, "projectId": PROJECT,
            "name": name, "version": number, "isActive": None, "tags": tags, "labels": [],
            **columns,
        }  # fmt: skip
        versions.append(row)
        for other in versions:
            other["tags"] = tags
        self.move(name, number, [*labels, "latest"])
        return number

    def _remember(self, row: Row, label: str) -> None:
        if self.stale_reads:
            self._old[str(row["name"]), f"label={label}"] = (self.stale_reads, dict(row))
        if self.stale_versions:
            key = (str(row["name"]), f"version={row['version']}")
            self._old[key] = (self.stale_versions, dict(row))

    def _cached(self, name: str, what: str) -> Row | None:
        left, row = self._old.get((name, what), (0, None))
        if row is None or not left:
            return None
        self._old[name, what] = (left - 1, row)
        return row

    def _now(self) -> str:
        self._made += 1
        when = datetime.now(UTC) + timedelta(milliseconds=self._made)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    async def create(self, body: Row) -> Row:
        """`POST v2/prompts`."""
        name, kind = body.get("name"), body.get("type", "text")
        prompt, message = body.get("prompt"), body.get("commitMessage")
        labels = _texts(body.get("labels") or [])
        if not isinstance(name, str) or not name or len(name) > 255 or "|" in name:
            raise invalid("name", "Invalid name")
        if any(not _LABEL.fullmatch(label) or label == "latest" for label in labels):
            raise invalid("labels", "Invalid label")
        if isinstance(message, str) and len(message) > 500:
            raise invalid("commitMessage", "Too big: expected string to have <=500 characters")
        prompt = _accepted(prompt, kind)
        with self._lock:
            versions = self.rows.get(name, [])
            number = int(str(versions[-1]["version"])) + 1 if versions else 1
            if versions and versions[-1]["type"] != kind:
                why = "Previous versions have different prompt type. Create a new prompt with a"
                raise bad_request(f"{why} different name.")
        await asyncio.sleep(self.window_s)
        with self._lock:
            if any(row["version"] == number for row in self.rows.get(name, [])):
                why = f"Failed to create prompt '{name}' due to unique constraint failure."
                error = "InvalidRequestError" if self.conflict == 400 else "LangfuseConflictError"
                raise Refusal(self.conflict, {"message": why, "error": error})
            self._insert(
                name, number, prompt=prompt, type=kind,
                config=body.get("config") if body.get("config") is not None else {},
                createdBy="API", commitMessage=message, labels=list(labels),
                tags=body.get("tags"),
            )  # fmt: skip
            return dict(self.version(name, number))

    def relabel(self, name: str, number: int, body: Row) -> Row:
        """`PATCH v2/prompts/{name}/versions/{n}`; the syntax of labels is not looked at."""
        labels = _texts(body.get("newLabels"))
        if "latest" in labels:
            why = "Label 'latest' is always assigned to the latest prompt version"
            raise invalid("newLabels", why)
        with self._lock:
            if not any(row["version"] == number for row in self.rows.get(name, [])):
                raise missing(f"Prompt not found: {name}")
            return dict(self.move(name, number, labels))

    def get(self, name: str, params: Mapping[str, str]) -> Row:
        """`GET v2/prompts/{name}`."""
        number, label = params.get("version"), params.get("label")
        what = f"version={number}" if number else f"label={label or 'production'}"
        with self._lock:
            row = self._cached(name, what)
            if row is None and number:
                rows = self.rows.get(name, [])
                row = next((one for one in rows if str(one["version"]) == number), None)
            elif row is None:
                row = self.labelled(name, label or "production")
            if row is None:
                which = f"version {number}" if number else f"label '{label or 'production'}'"
                raise missing(f"Prompt not found: '{name}' with {which}")
            found: Row = {**row, "isActive": "production" in _texts(row["labels"])}
            found["resolutionGraph"] = None
            if params.get("resolve") != "false":
                found["prompt"] = json.loads(_TAG.sub(self._resolved, json.dumps(row["prompt"])))
            return found

    def _resolved(self, tag: re.Match[str]) -> str:
        row = self.labelled(tag[1], tag[2])
        return json.dumps(row["prompt"])[1:-1] if row else tag[0]

    def listed(self, params: Mapping[str, str]) -> Row:
        """`GET v2/prompts`: of each name the versions that the filters leave."""
        page, limit = int(params.get("page", "1")), int(params.get("limit", "10"))
        if limit > 100:
            raise invalid("limit", "Too big: expected number to be <=100")
        data: list[Json] = []
        with self._lock:
            for name, rows in sorted(self.rows.items()):
                left = [
                    row for row in rows
                    if params.get("name") in (None, name)
                    and ("label" not in params or params["label"] in _texts(row["labels"]))
                    and ("tag" not in params or params["tag"] in _texts(row["tags"]))
                ]  # fmt: skip
                if left:
                    data.append(_meta(name, left))
        meta: Row = {"page": page, "limit": limit, "totalItems": len(data),
                     "totalPages": -(-len(data) // limit)}  # fmt: skip
        return {"data": data[(page - 1) * limit : page * limit], "meta": meta}


class FakePromptServer:
    """The server; `faults` is what is served."""

    def __init__(self, *, skills: bool = True) -> None:
        self.prompts = FakePrompts()
        self.skills = LangfuseSkills(PROJECT)
        routes = [
            Route("/api/public/health", self._health),
            Route("/api/public/v2/prompts", self._guarded(self._many), methods=["GET", "POST"]),
            Route(
                "/api/public/v2/prompts/{name:path}/versions/{version:int}",
                self._guarded(self._label), methods=["PATCH"],
            ),
            Route("/api/public/v2/prompts/{name:path}", self._guarded(self._one)),
        ]  # fmt: skip
        if skills:
            for path, (answer, methods) in self.skills.answers().items():
                routes.append(Route(path, self._guarded(answer), methods=methods))
        app = Starlette(routes=routes, exception_handlers={404: _not_found})
        self.faults = Faults(app)

    def _guarded(
        self, answer: Callable[[Request], Awaitable[Json]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            expected = base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
            if request.headers.get("authorization") != f"Basic {expected}":
                error = {"message": "Invalid credentials.", "error": "UnauthorizedError"}
                return JSONResponse(error, 401)
            segments = request.scope["raw_path"].partition(b"?")[0].count(b"/")
            if "name" in request.path_params and segments > 6 + 2 * (request.method == "PATCH"):
                return HTMLResponse(MISSING, 404)  # a folder's slash that was not quoted
            try:
                value = await answer(request)
            except Refusal as refusal:
                return refusal.response
            created = request.method == "POST"
            return JSONResponse(value, 201 if created else 200)

        return guarded

    async def _health(self, request: Request) -> Response:
        del request
        return JSONResponse({"status": "OK", "version": "4.16.0"})

    async def _many(self, request: Request) -> Json:
        if request.method == "POST":
            return await self.prompts.create(json.loads(await request.body()))
        return self.prompts.listed(request.query_params)

    async def _one(self, request: Request) -> Json:
        return self.prompts.get(request.path_params["name"], request.query_params)

    async def _label(self, request: Request) -> Json:
        name, number = request.path_params["name"], request.path_params["version"]
        return self.prompts.relabel(name, number, json.loads(await request.body()))


def _meta(name: str, rows: Sequence[Row]) -> Row:
    labels = dict.fromkeys(label for row in rows for label in _texts(row["labels"]))
    return {
        "name": name, "type": rows[-1]["type"], "versions": [row["version"] for row in rows],
        "labels": [*labels], "tags": rows[-1]["tags"], "lastUpdatedAt": rows[-1]["updatedAt"],
        "lastConfig": rows[-1]["config"],
    }  # fmt: skip


def _accepted(prompt: Json, kind: Json) -> Json:
    """The prompt as the server keeps it: of messages only what it knows."""
    if kind == "text" and isinstance(prompt, str):
        return prompt
    if kind != "chat" or not isinstance(prompt, list):
        raise invalid("prompt", "Invalid input")
    kept: list[Json] = []
    for message in prompt:
        if not isinstance(message, dict):
            raise invalid("prompt", "Invalid input")
        keys = ("type", "name") if message.get("type") == "placeholder" else ("role", "content")
        if not all(isinstance(message.get(key), str) for key in keys):
            raise invalid("prompt", "Invalid input")
        kept.append({key: message[key] for key in keys})
    return kept


def _texts(value: Json) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


async def _not_found(request: Request, error: Exception) -> Response:
    del request, error
    return HTMLResponse(MISSING, 404)
