"""Skills of a Langfuse project as files: `skills/<name>/…`, where the server has them.

Source: SDK 5.0.4 (`api.unstable.skills`) and the server's source; the API is called unstable by its
vendor. A version is a manifest of paths and hashes; texts are read by hash, up to 50 at once; what
did not change is sent by hash. `PATCH …/versions/{n}` replaces the labels of a version and takes
them from the others, so a label can be taken away. Servers before 5 answer 404 with a page.
"""

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import yaml

from connectors.harness.langfuse_api import BACKEND, LangfuseProject, Session, odd
from connectors.harness.langfuse_items import Item
from connectors.harness.langfuse_labelled import LAG_S, LabelledHarness
from connectors.harness.langfuse_versions import LATEST, TAKEN, Store, Version, moment, whole, words
from connectors.traces.answers import BadRequest, NotThere
from connectors.traces.raw import as_objects
from contracts.errors import ConnectorError, PolicyRefused
from contracts.harness import HarnessFile
from contracts.json_types import Json

KIND: Final = "langfuse_skills"
_SKILLS: Final = "/api/public/unstable/skills"
_ROOT: Final = "skills/"
_ENTRY: Final = "SKILL.md"
_AT_ONCE: Final = 50
_BOM: Final = b"\xef\xbb\xbf"
_FRONT: Final = re.compile(r"---\r?\n([\s\S]*?)\r?\n---(?:\r?\n|\Z)")


class LangfuseSkillsHarness(LabelledHarness):
    """The skills under one label that patterns name."""

    kind = KIND
    adds = True

    def __init__(
        self, project: LangfuseProject, *, names: Sequence[str], label: str, lag_s: float = LAG_S
    ) -> None:
        """Reach nothing.

        Args:
            project: which one, and its keys.
            names: patterns of names.
            label: that agents read and that is moved.
            lag_s: how long the server may go on to answer with what was.

        Raises:
            ConfigError: a pattern is unsafe, or the label is `latest`.
        """
        patterns = tuple(f"{_ROOT}{name}/**" for name in names)
        target = project.target(KIND, label)
        super().__init__(target=target, patterns=patterns, label=label, lag_s=lag_s)
        self._project = project
        self._names = tuple(names)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Store]:
        async with self._project.open() as session:
            yield SkillStore(session, self._include.matches)

    def _name_of(self, path: str) -> str:
        return path.removeprefix(_ROOT).partition("/")[0]

    def _wanted(self, name: str) -> bool:
        return self._include.matches(f"{_ROOT}{name}/{_ENTRY}")

    def _named(self) -> Sequence[str]:
        return [name for name in self._names if not set(name) & set("*?[")]

    def _check_item(self, item: Item) -> None:
        entry = item.new.get(f"{_ROOT}{item.name}/{_ENTRY}")
        if entry is None:
            raise PolicyRefused(f"{_ROOT}{item.name}: a skill needs a {_ENTRY}")
        for path, file in item.new.items():
            if item.old.get(path) != file:
                _check_text(path, file)
        if (named := _front_name(entry)) != item.name:
            raise PolicyRefused(
                f"{_ROOT}{item.name}/{_ENTRY}: its front matter names {named!r}; Langfuse would "
                "make another skill of it"
            )


def _check_text(path: str, file: HarnessFile) -> None:
    if file.data.startswith(_BOM):
        raise PolicyRefused(f"{path}: begins with a byte order mark, which Langfuse takes off")
    try:
        file.data.decode()
    except UnicodeDecodeError:
        raise PolicyRefused(f"{path}: is not UTF-8; Langfuse takes texts only") from None
    if b"\0" in file.data:
        raise PolicyRefused(f"{path}: holds a NUL character")


def _front_name(entry: HarnessFile) -> str | None:
    """The name in a skill's front matter; None: there is none."""
    found = _FRONT.match(entry.data.decode("utf-8", "replace").removeprefix("\ufeff"))
    if found is None:
        return None
    try:
        values = yaml.safe_load(found[1])
    except yaml.YAMLError:
        return None
    name = values.get("name") if isinstance(values, dict) else None
    return name if isinstance(name, str) else None


class SkillStore:
    """Implements `langfuse_versions.Store` for skills."""

    def __init__(self, session: Session, visible: Callable[[str], bool]) -> None:
        """Reach nothing.

        Args:
            session: open connections.
            visible: whether a path belongs to the harness; others are kept as they are.
        """
        self._session = session
        self._visible = visible
        self._texts: dict[str, bytes | None] = {}
        """By hash; None: cannot be read as a text, or is another one."""

    async def names(self) -> Sequence[str]:
        """All skills of the project."""
        try:
            rows = await self._session.rows(_SKILLS)
        except NotThere as missing:
            raise _none_here() from missing
        return sorted(name for row in rows if isinstance(name := row.get("name"), str))

    async def labelled(self, name: str, label: str) -> Version | None:
        """What a reader by the label gets."""
        return await self._get(name, {"label": label})

    async def numbered(self, name: str, number: int) -> Version | None:
        """One version with the texts of its files."""
        version = await self._get(name, {"version": number})
        if version is not None and version.number != number:
            why = f"asked for version {number} of {name!r}, answers with {version.number}"
            raise odd("GET of a skill", why)
        return version

    async def numbers(self, name: str) -> Sequence[int]:
        """From the newest down to 1; the server lists the newest alone."""
        rows = await self._session.rows(_SKILLS, {"name": name})
        newest = [whole(r.get("latestVersion"), "GET of skills") for r in rows
                  if r.get("name") == name]  # fmt: skip
        return range(max(newest, default=0), 0, -1)

    async def create(
        self, name: str, files: Mapping[str, HarnessFile], base: Version | None, message: str
    ) -> int:
        """A version with the files, and with those of `base` that are not in the harness."""
        old = base.files if base is not None else {}
        sent: list[Json] = []
        for path, file in sorted(files.items()):
            inside = path.removeprefix(f"{_ROOT}{name}/")
            if old.get(path) == file:
                sent.append({"path": inside, "sha256Hash": _hash(file.data)})
            else:
                sent.append({"path": inside, "content": file.data.decode()})
        kept = base.beside if base is not None and isinstance(base.beside, dict) else {}
        sent += [{"path": path, "sha256Hash": digest} for path, digest in kept.items()]
        made = await self._session.write("POST", _SKILLS, {"files": sent, "commitMessage": message})
        if made.get("name") != name:
            raise odd("POST of a skill", f"was to make {name!r}, made another one")
        return whole(made.get("version"), "POST of a skill")

    async def label(self, version: Version, label: str) -> None:
        """Move it; the version keeps its other labels, but for what an effect left there."""
        kept = {one for one in await self._labels(version) if not one.startswith(TAKEN)}
        await self._set(version, {*kept, label})

    async def unlabel(self, version: Version, label: str, *, instead: str) -> None:
        """Take it away; the version keeps its other labels."""
        await self._set(version, {*(await self._labels(version) - {label}), instead})

    async def _labels(self, version: Version) -> frozenset[str]:
        """As they are now, since setting them replaces all."""
        fresh = await self.numbered(version.name, version.number)
        if fresh is None:
            raise ConnectorError(
                f"langfuse: version {version.number} of skill {version.name!r} is gone",
                backend=BACKEND, operation="switch",
            )  # fmt: skip
        return fresh.labels

    async def _set(self, version: Version, labels: Set[str]) -> None:
        path = f"{_SKILLS}/{quote(version.name, safe='')}/versions/{version.number}"
        await self._session.write("PATCH", path, {"labels": [*sorted(labels)]})

    async def _get(self, name: str, params: Mapping[str, str | int]) -> Version | None:
        try:
            row = await self._session.find(f"{_SKILLS}/{quote(name, safe='')}", params)
        except NotThere as missing:
            raise _none_here() from missing
        if row is None:
            return None
        if row.get("name") != name:
            raise odd("GET of a skill", f"asked for {name!r}, answers with another one")
        return await self._version(row, name)

    async def _version(self, row: Mapping[str, Json], name: str) -> Version:
        listed = row.get("files")
        hashes = {
            str(one.get("path")): str(one.get("sha256Hash"))
            for one in as_objects(listed if isinstance(listed, list) else [])
        }
        await self._load([digest for digest in hashes.values() if digest not in self._texts])
        files: dict[str, HarnessFile] = {}
        kept: dict[str, Json] = {}
        for inside, digest in sorted(hashes.items()):
            path, data = f"{_ROOT}{name}/{inside}", self._texts[digest]
            if data is not None and self._visible(path):
                files[path] = HarnessFile(data=data)
            else:
                kept[inside] = digest
        message, by = row.get("commitMessage"), row.get("createdBy")
        return Version(
            name=name, number=whole(row.get("version"), "GET of a skill"), files=files,
            labels=words(row.get("labels")) - {LATEST}, beside=kept,
            message=message if isinstance(message, str) else "", at=moment(row.get("createdAt")),
            by=by if isinstance(by, str) else None,
            problem=None if files else "it has no file that can be read as a text",
        )  # fmt: skip

    async def _load(self, digests: Sequence[str]) -> None:
        """Read texts by hash; where one of a batch cannot be read, each alone."""
        for at in range(0, len(digests), _AT_ONCE):
            batch = digests[at : at + _AT_ONCE]
            try:
                found = await self._contents(batch)
            except (BadRequest, NotThere):
                found = {}
                for one in batch if len(batch) > 1 else []:
                    await self._load([one])
            for digest in batch:
                self._texts.setdefault(digest, found.get(digest))

    async def _contents(self, digests: Sequence[str]) -> dict[str, bytes]:
        params = {"sha256Hashes": ",".join(digests)}
        answer = await self._session.get(f"{_SKILLS}/files/content", params)
        rows = answer.get("data")
        found: dict[str, bytes] = {}
        for row in as_objects(rows if isinstance(rows, list) else []):
            content = row.get("content")
            if isinstance(content, str):
                data = content.encode("utf-8", "surrogatepass")
                found[_hash(data)] = data  # by what it is: a text of another hash is not taken
        return found


def _hash(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def _none_here() -> ConnectorError:
    return ConnectorError(
        "langfuse: this Langfuse server has no skills; keep them in a place of kind directory or "
        "git", backend=BACKEND, operation="read",
    )  # fmt: skip
