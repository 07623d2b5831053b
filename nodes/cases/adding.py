"""New cases for a file of the operator's: one input is one case, however often it is added."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from contracts.errors import ConfigError, UsageError
from contracts.gate import Case
from contracts.json_types import Json, JsonObject, canonical_json
from memory.assertions import assertion_problem
from memory.case_files import parse_entries
from memory.case_writing import appended, entry_of, write_text
from memory.cases import fingerprint, read_case
from memory.workspace import Workspace
from nodes.casebook import read_casebook

_NAMES: Final = ("cases/added.yaml", "cases/added.jsonl", "cases/added.yml")
_TEXTS: Final = frozenset({"no_symptom", "contains", "not_contains", "regex"})
_SUFFIXES: Final = (".yaml", ".yml", ".jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What adding came to."""

    file: str
    """From the project's folder."""
    added: tuple[Case, ...]
    known: tuple[Case, ...]
    """Those of the new ones whose input is a case already, as they are there."""
    differ: tuple[Case, ...]
    """Those of `known` that assert something else."""
    unsealed: int
    """Sealed cases that only train now, since a new one is of their family."""


def parse_assertion(text: str) -> JsonObject:
    """`kind=argument` of the command line, or a kind alone for what needs no argument.

    Arguments are JSON; a text needs no quotes.

    Raises:
        UsageError: it is no assertion.
    """
    kind, equals, rest = text.partition("=")
    kind = kind.strip()
    argument: Json = True
    if equals:
        argument = rest if kind in _TEXTS else _json_or_text(rest)
        if kind == "tool_order" and isinstance(argument, str):
            argument = [name.strip() for name in argument.split(",")]
    assertion: JsonObject = {kind: argument}
    problem = assertion_problem(assertion)
    if problem is not None:
        raise UsageError(f"--assert {text!r}: {problem}")
    return assertion


def _json_or_text(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def parse_input(text: str, what: str) -> Json:
    """A case's input from JSON.

    Raises:
        UsageError: it is none.
    """
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"""{what}: not JSON; a text needs quotes of its own, such as '"Refund A-7"'"""
        ) from error
    return value


def new_case(entry: Mapping[str, object], place: str) -> Case:
    """A case from an entry as files hold it; its family stays empty unless named.

    Raises:
        UsageError: the entry is none.
    """
    try:
        return read_case(dict(entry), place, place)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def new_cases(text: str, place: str, *, lines: bool) -> tuple[Case, ...]:
    """The cases of a text in the format of case files.

    Raises:
        UsageError: it is none.
    """
    try:
        entries = parse_entries(text, f"{place}.jsonl" if lines else place)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    found = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise UsageError(f"{place}[{index}]: needs an object with `input` and `assert`")
        found.append(new_case(entry, f"{place}[{index}]"))
    return tuple(found)


def chosen_file(ws: Workspace, named: str | None) -> Path:
    """The file that new cases go to: the one named, or `cases/added.*`, as `cases:` allows.

    Raises:
        ConfigError: `cases:` would not read it.
    """
    patterns = ws.settings.cases
    names = _NAMES if named is None else (named,)
    for name in names:
        path = PurePosixPath(name)
        inside = not path.is_absolute() and ".." not in path.parts
        if inside and path.suffix in _SUFFIXES and any(_reads(path, one) for one in patterns):
            return ws.root / path
    if named is not None:
        raise ConfigError(
            f"--file {named}: `cases` in tracemend.yaml reads {', '.join(patterns) or 'no file'};"
            " name a .yaml or .jsonl file that it reads"
        )
    raise ConfigError(
        'cases: no pattern that reads cases/added.yaml; add "cases/*.yaml" in tracemend.yaml, or'
        " name a file with --file"
    )


def _reads(path: PurePosixPath, pattern: str) -> bool:
    """Whether `Path.glob` of the root would find the path by this pattern."""
    return _parts_match(path.parts, PurePosixPath(pattern).parts)


def _parts_match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_parts_match(parts[at:], pattern[1:]) for at in range(len(parts) + 1))
    if not parts:
        return False
    return PurePosixPath(parts[0]).match(pattern[0]) and _parts_match(parts[1:], pattern[1:])


def add_cases(ws: Workspace, path: Path, cases: Sequence[Case]) -> Added:
    """Append what is new to a file of the project; nothing else in it changes.

    Raises:
        UsageError: the file cannot be changed safely, or an id is taken by another input.
        ConfigError: a case file cannot be used.
    """
    book = read_casebook(ws)
    there = {_asked(case): case for case in book.cases}
    ids = {case.id for case in book.cases}
    fresh: dict[bytes, Case] = {}
    known: dict[bytes, Case] = {}
    differ: dict[bytes, Case] = {}
    for case in cases:
        key = _asked(case)
        earlier = there.get(key) or fresh.get(key)
        if earlier is None:
            if case.id in ids:
                raise UsageError(f"{case.id}: that id is taken by another input; leave it out")
            ids.add(case.id)
            fresh[key] = case
            continue
        known[key] = earlier
        if fingerprint(earlier) != fingerprint(case):
            differ[key] = earlier
    name = path.relative_to(ws.root).as_posix()
    if fresh:
        _append(ws, path, name, [entry_of(case) for case in fresh.values()])
    after = read_casebook(ws) if fresh else book
    now = {case.id: case for case in after.cases}
    new_sealed = sum("sealed" in case.tags for case in fresh.values())
    lost = len(book.tagged("sealed")) + new_sealed - len(after.tagged("sealed"))
    return Added(
        file=name, added=tuple(now.get(case.id, case) for case in fresh.values()),
        known=tuple(known.values()), differ=tuple(differ.values()), unsealed=max(0, lost),
    )  # fmt: skip


def _asked(case: Case) -> bytes:
    return canonical_json(case.input)


def _append(ws: Workspace, path: Path, name: str, entries: Sequence[JsonObject]) -> None:
    with ws.ledger.db.write():  # one writer at a time, of files too
        before = path.read_bytes() if path.exists() else None
        try:
            text = "" if before is None else before.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{name}: cannot be read as UTF-8 text") from error
        write_text(path, before, appended(text, name, entries))
