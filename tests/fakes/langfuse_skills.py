"""Skills of the fake Langfuse: manifests of hashed texts, labels that are replaced as a set.

No recording of a real server has them yet; the rules are those of the vendor's SDK and source.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import yaml
from starlette.requests import Request

from contracts.json_types import Json
from tests.fakes.langfuse_refusals import bad_request, invalid, missing

Row = dict[str, Json]
Answer = Callable[[Request], Awaitable[Json]]
_ROOT = "/api/public/unstable/skills"
_FRONT = re.compile(r"---\r?\n([\s\S]*?)\r?\n---(?:\r?\n|$)")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TEXTS = ("md", "txt", "json", "yaml", "yml", "py", "sh", "csv", "toml", "js", "html")


@dataclass(slots=True)
class LangfuseSkills:
    """The skills of one project."""

    project: str
    rows: dict[str, list[Row]] = field(default_factory=dict)
    """Versions by name, oldest first."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    """By hash."""
    stale_reads: int = 0
    """So many reads by label after each move still get what was."""
    _old: dict[tuple[str, str], tuple[int, Row]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _made: int = 0

    def answers(self) -> dict[str, tuple[Answer, list[str]]]:
        """What answers at which path, to which methods."""
        return {
            _ROOT: (self._many, ["GET", "POST"]),
            f"{_ROOT}/files/content": (self._contents, ["GET"]),
            f"{_ROOT}/{{skill}}/versions/{{version:int}}": (self._labels, ["PATCH"]),
            f"{_ROOT}/{{skill}}": (self._one, ["GET"]),
        }

    def put(
        self, name: str, files: Mapping[str, bytes], *, labels: Sequence[str] = (),
        by: str = "kim", message: str | None = None,
    ) -> int:  # fmt: skip
        """A new version of anything, as the vendor's own pages may upload it; its number."""
        with self._lock:
            for data in files.values():
                self.blobs[hash_of(data)] = data
            hashes = {path: hash_of(data) for path, data in files.items()}
            number = self._insert(name, hashes, by=by, message=message)
            if labels:
                self.set_labels(name, number, labels)
            return number

    def set_labels(self, name: str, number: int, labels: Sequence[str]) -> Row:
        """Exactly these on the version, and on no other."""
        with self._lock:
            row = self.version(name, number)
            for other in self.rows[name]:
                held = _texts(other["labels"])
                if other is row or not set(held) & set(labels):
                    continue
                for label in set(held) & set(labels):
                    self._remember(name, label, other)
                other["labels"] = [one for one in held if one not in labels]
            latest = [one for one in _texts(row["labels"]) if one == "latest"]
            for label in set(_texts(row["labels"])) - {*labels, "latest"}:
                self._remember(name, label, row)
            row["labels"] = [*dict.fromkeys(labels), *latest]
            row["updatedAt"] = self._now()
            return row

    def version(self, name: str, number: int) -> Row:
        """One row."""
        return next(row for row in self.rows[name] if row["version"] == number)

    def labelled(self, name: str, label: str) -> Row | None:
        """The row with the label, without any cache."""
        rows = self.rows.get(name, [])
        return next((row for row in rows if label in _texts(row["labels"])), None)

    def texts(self, row: Row) -> dict[str, bytes]:
        """The files of a version."""
        files = row["files"]
        assert isinstance(files, list)
        rows = [one for one in files if isinstance(one, dict)]
        return {str(one["path"]): self.blobs[str(one["sha256Hash"])] for one in rows}

    def _insert(self, name: str, hashes: Mapping[str, str], *, by: str, message: str | None) -> int:
        versions = self.rows.setdefault(name, [])
        newest = versions[-1] if versions else None
        number = int(str(newest["version"])) + 1 if newest else 1
        if newest is not None:
            newest["labels"] = [one for one in _texts(newest["labels"]) if one != "latest"]
        now = self._now()
        files: list[Json] = [
            {"id": f"f-{number}-{path}", "path": path, "blobId": f"b-{digest}",
             "sha256Hash": digest, "contentType": _content_type(path),
             "contentLength": len(self.blobs[digest])}
            for path, digest in hashes.items()
        ]  # fmt: skip
        versions.append({
            "id": f"s-{self._made}", "createdAt": now, "updatedAt": now,
            "projectId": self.project, "createdBy": by, "name": name,
            "description": "What it is for.", "frontmatter": {}, "version": number,
            "tags": newest["tags"] if newest else [], "labels": ["latest"],
            "commitMessage": message, "files": files,
        })  # fmt: skip
        return number

    def _remember(self, name: str, label: str, row: Row) -> None:
        if self.stale_reads:
            self._old[name, label] = (self.stale_reads, dict(row))

    def _now(self) -> str:
        self._made += 1
        when = datetime.now(UTC) + timedelta(milliseconds=self._made)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    async def _many(self, request: Request) -> Json:
        if request.method == "POST":
            return self._create(json.loads(await request.body()))
        return self._listed(request.query_params)

    def _create(self, body: Row) -> Row:
        files, message = body.get("files"), body.get("commitMessage")
        given = [one for one in files if isinstance(one, dict)] if isinstance(files, list) else []
        with self._lock:
            hashes: dict[str, str] = {}
            for one in given:
                path = str(one.get("path"))
                if path.rpartition(".")[2] not in _TEXTS or path in hashes:
                    raise invalid("files", "Skill files must use a supported text file extension")
                hashes[path] = self._hash(one)
            if isinstance(message, str) and len(message) > 500:
                raise invalid("commitMessage", "Too big")
            if "SKILL.md" not in hashes:
                raise invalid("files", "Every skill version must contain a root SKILL.md file")
            name = self._named(self.blobs[hashes["SKILL.md"]])
            words = str(message) if message is not None else None
            number = self._insert(name, hashes, by="API", message=words)
            return dict(self.version(name, number))

    def _hash(self, given: Row) -> str:
        content, digest = given.get("content"), given.get("sha256Hash")
        if isinstance(content, str) and digest is None:
            data = content.lstrip("\ufeff").encode()
            if b"\0" in data:
                raise invalid("files", "Skill files must not contain NUL characters")
            digest = hash_of(data)
            self.blobs[digest] = data
        if not isinstance(digest, str) or digest not in self.blobs:
            raise missing("One or more skill blobs were not found")
        return digest

    def _named(self, entry: bytes) -> str:
        front = _FRONT.match(entry.decode())
        values = yaml.safe_load(front[1]) if front else None
        name = values.get("name") if isinstance(values, dict) else None
        described = isinstance(values, dict) and values.get("description")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not described:
            raise bad_request("SKILL.md must start with YAML frontmatter delimited by ---")
        return name

    def _listed(self, params: Mapping[str, str]) -> Row:
        page, limit = int(params.get("page", "1")), int(params.get("limit", "10"))
        if limit > 100:
            raise invalid("limit", "Too big: expected number to be <=100")
        with self._lock:
            data: list[Json] = [
                self._meta(name, rows) for name, rows in self.rows.items()
                if rows and params.get("name") in (None, name)
            ]  # fmt: skip
        pages = -(-len(data) // limit)
        meta: Row = {"page": page, "limit": limit, "totalItems": len(data), "totalPages": pages,
                     "hasNextPage": page < pages}  # fmt: skip
        return {"data": data[(page - 1) * limit : page * limit], "meta": meta}

    def _meta(self, name: str, rows: Sequence[Row]) -> Row:
        newest, live = rows[-1], self.labelled(name, "production")
        return {
            "name": name, "description": newest["description"], "tags": newest["tags"],
            "latestVersion": newest["version"], "latestVersionCreatedAt": newest["createdAt"],
            "latestVersionLastUpdatedAt": newest["updatedAt"],
            "productionVersion": live["version"] if live else None,
        }  # fmt: skip

    async def _one(self, request: Request) -> Json:
        name, params = request.path_params["skill"], request.query_params
        number, label = params.get("version"), params.get("label")
        if number and label:
            raise invalid("label", "Specify either version or label, not both")
        with self._lock:
            left, old = self._old.get((name, label or "production"), (0, None))
            if not number and old is not None and left:
                self._old[name, label or "production"] = (left - 1, old)
                return old
            rows = self.rows.get(name, [])
            row = next((one for one in rows if str(one["version"]) == number), None)
            row = row if number else self.labelled(name, label or "production")
            if row is None:
                raise missing("Skill version not found")
            return dict(row)

    async def _labels(self, request: Request) -> Json:
        name, number = request.path_params["skill"], request.path_params["version"]
        labels = _texts(json.loads(await request.body()).get("labels"))
        if "latest" in labels:
            raise invalid("labels", "The 'latest' label is managed by Langfuse")
        with self._lock:
            if not any(row["version"] == number for row in self.rows.get(name, [])):
                raise missing("Skill version not found")
            return dict(self.set_labels(name, number, labels))

    async def _contents(self, request: Request) -> Json:
        digests = request.query_params.get("sha256Hashes", "").split(",")
        if not 1 <= len(digests) <= 50:
            raise invalid("sha256Hashes", "One to 50 hashes")
        data: list[Json] = []
        for digest in digests:
            if digest not in self.blobs:
                raise missing("One or more skill blobs were not found")
            try:
                content = self.blobs[digest].decode()
            except UnicodeDecodeError:
                raise bad_request("Skill file content must be valid UTF-8") from None
            data.append({"sha256Hash": digest, "content": content.removeprefix("\ufeff")})
        return {"data": data}


def hash_of(data: bytes) -> str:
    """As manifests name a text."""
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def _content_type(path: str) -> str:
    return "text/markdown" if path.endswith(".md") else "application/octet-stream"


def _texts(value: Json) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
