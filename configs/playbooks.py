"""Playbooks: edits that a known cause calls for, written once and filled from evidence.

Packaged ones are in `configs/playbooks/`; an operator's file with the same id takes its place.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from contracts.errors import ConfigError
from contracts.proposals import OperationName

EVIDENCE = "evidence."
INSTRUCTIONS = "{instructions}"
"""Stands for the operator's first instruction file, where an edit names a file."""
_HOLE = re.compile(r"\{\{|\}\}|\{([a-z][a-z0-9_]*)\}|[{}]")
_DERIVED = ("_slug", "_words", "_listed")
_ANCHORED: tuple[OperationName, ...] = ("replace", "insert_after", "remove")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    return text


Form = Annotated[str, AfterValidator(_pattern)]


class When(_Part):
    """Which diagnosis a playbook is for: its cause, and the remedy classes it can serve."""

    cause: str
    remedy: tuple[Literal["skill", "instructions"], ...] = Field(min_length=1)


class PlaybookEdit(_Part):
    """One operation with holes. `path` for what is added, `file` for what is there."""

    op: OperationName
    path: str | None = None
    file: str | None = None
    anchor: str | None = None
    """Left out of an insert_after: after the last line of the file."""
    text: str = ""
    """Left out of a remove alone."""

    @model_validator(mode="after")
    def _fits_its_op(self) -> Self:
        anchored = self.op in _ANCHORED
        if anchored and (self.file is None or self.path is not None):
            raise ValueError(f"{self.op} needs `file`, not `path`")
        if not anchored and (self.path is None or self.file or self.anchor):
            raise ValueError(f"{self.op} needs `path`, and no `file` or `anchor`")
        if self.op in ("replace", "remove") and not self.anchor:
            raise ValueError(f"{self.op} needs `anchor`")
        if bool(self.text) == (self.op == "remove"):
            raise ValueError(f"{self.op} needs {'no' if self.text else 'a'} `text`")
        return self

    @property
    def templates(self) -> tuple[str, ...]:
        """Every string that may have holes, the name of the instruction file left out."""
        named = (self.path, None if self.file == INSTRUCTIONS else self.file)
        return tuple(t for t in (*named, self.anchor, self.text) if t is not None)


_Edit = Annotated[tuple[PlaybookEdit, ...], Field(min_length=1)]


class Playbook(_Part):
    """One file of the playbooks folder."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    when: When
    needs: Mapping[str, str | int]
    """Name to `evidence.<parameter of the diagnosis>` or to a constant."""
    where: Mapping[str, Form] = Field(default_factory=dict)
    """Parameters of the diagnosis that must be there and match this pattern as a whole."""
    unless: Mapping[str, Form] = Field(default_factory=dict)
    """Parameters that must not: another playbook is for these."""
    why: str
    falsifier: str | None = None
    """What would prove the edit wrong; else the diagnosis' own."""
    edit: _Edit
    otherwise: tuple[_Edit, ...] = ()
    """Edits to try in order where the first has no place in the operator's files."""
    again: str | None = Field(default=None, min_length=1)
    """What takes the place of this playbook's own text where that stands in the harness already
    and the finding came back; None: it is not offered again. Of a skill it is the body."""

    @model_validator(mode="after")
    def _holes_are_known(self) -> Self:
        known = {n + suffix for n in self.needs for suffix in ("", *_DERIVED)}
        edits = [e for edit in (self.edit, *self.otherwise) for e in edit]
        templates = [t for e in edits for t in e.templates]
        for template in (self.why, self.falsifier or "", self.again or "", *templates):
            unknown = sorted(holes(template) - known)
            if unknown:
                raise ValueError(f"{{{unknown[0]}}} is not in `needs`")
        return self


def holes(template: str) -> set[str]:
    """Names that a template wants filled; doubled braces are text.

    Raises:
        ValueError: a single brace that is neither.
    """
    names: set[str] = set()
    for found in _HOLE.finditer(template):
        if found[0] in ("{", "}"):
            raise ValueError(f"single {found[0]!r} in {template[:40]!r}; write it twice")
        if found[1]:
            names.add(found[1])
    return names


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with its holes filled once; values are never read as templates.

    Raises:
        KeyError: a hole has no value.
    """

    def one(found: re.Match[str]) -> str:
        return values[found[1]] if found[1] else found[0][0]

    return _HOLE.sub(one, template)


def load_playbooks(folders: Sequence[Path] = ()) -> tuple[Playbook, ...]:
    """The operator's playbooks and the packaged ones, by id.

    Raises:
        ConfigError: names the file, the key's path and, for an unknown key, the nearest known one.
    """
    packaged = resources.files("configs").joinpath("playbooks")
    texts = [(f.name, f.read_text("utf-8")) for f in packaged.iterdir() if f.name.endswith(".yaml")]
    found = _by_id(sorted(texts))
    own: dict[str, Playbook] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"playbooks: {str(folder)!r} is no folder")
        more = _by_id(_read(file) for file in sorted(folder.glob("*.yaml")))
        twice = sorted(set(own) & set(more))
        if twice:
            raise ConfigError(f"playbooks: id {twice[0]!r} is in two folders")
        own |= more
    return tuple(book for _, book in sorted((found | own).items()))


def _read(file: Path) -> tuple[str, str]:
    try:
        return file.name, file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{file.name}: cannot be read: {why}") from error


def read_playbook(file: Path) -> Playbook:
    """One playbook file of the operator's.

    Raises:
        ConfigError: see `load_playbooks`.
    """
    name, text = _read(file)
    return parse_playbook(text, name)


def _by_id(texts: Iterable[tuple[str, str]]) -> dict[str, Playbook]:
    found: dict[str, Playbook] = {}
    for name, text in texts:
        book = parse_playbook(text, name)
        if book.id in found:
            raise ConfigError(f"id: {book.id!r} is there twice ({name})")
        found[book.id] = book
    return found


@lru_cache(maxsize=256)  # a playbook is frozen, and parsing YAML costs more than a whole draft
def parse_playbook(text: str, name: str) -> Playbook:
    """One playbook file.

    Raises:
        ConfigError: see `load_playbooks`.
    """
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = f" (line {mark.line + 1})" if mark else ""
        raise ConfigError(f"{name}: not YAML{where}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: needs keys such as id, when, needs, edit")
    try:
        return Playbook.model_validate(value)
    except ValidationError as error:
        raise ConfigError(_problem(error, name)) from None


def _problem(error: ValidationError, name: str) -> str:
    # An unknown key first: the missing one that it stands for would only distract.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _known(first["loc"])
        near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        return f"{path}: unknown key; {hint} ({name})"
    if first["type"] == "missing":
        return f"{path}: missing; add it ({name})"
    message = first["msg"].removeprefix("Value error, ")[:160]
    return f"{path + ': ' if path else ''}{message} ({name})"


def _known(loc: Sequence[int | str]) -> list[str]:
    kind: type[BaseModel] = Playbook
    if len(loc) > 1:
        kind = When if loc[0] == "when" else PlaybookEdit
    return sorted(kind.model_fields)
