"""Fill a playbook from a finding's evidence and fit it into the operator's files. Pure."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from configs.playbooks import EVIDENCE, INSTRUCTIONS, Playbook, PlaybookEdit, fill
from contracts.errors import PolicyRefused
from contracts.findings import Finding, Remedy
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json
from contracts.proposals import Draft, Operation
from nodes.evolution.edits import apply_operations, end_anchor, shown_text
from nodes.evolution.paths import included, skills_root

_VALUE = re.compile(r"[A-Za-z0-9._:@/-]{1,40}")
"""What a value from evidence may be: a name, a code, an id. Never a sentence."""
_FIRST_NAMES = ("main.md", "agents.md", "claude.md", "system.md", "instructions.md", "prompt.md")
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_MARKS = {
    "-": "a hyphen", "_": "an underscore", ".": "a dot", ":": "a colon", "/": "a slash",
    "@": "an at sign",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A draft that a playbook gives, and the remedy class that it is."""

    draft: Draft
    remedy: Remedy


def fitted(
    playbook: Playbook, finding: Finding, snapshot: HarnessSnapshot, *, include: Sequence[str]
) -> Fitted | str:
    """The playbook's first edit that has a place in the harness, or why it has none."""
    diagnosis = finding.diagnosis
    if playbook.when.cause != diagnosis.cause:
        return f"is for cause {playbook.when.cause}"
    allowed = set(playbook.when.remedy) & set(diagnosis.remedies)
    if not allowed:
        return f"serves {' and '.join(playbook.when.remedy)} only"
    if misfit := _misfit(playbook, diagnosis.parameters):
        return misfit
    values = _values(playbook, diagnosis.parameters)
    if isinstance(values, str):
        return values
    why_not = "no edit fits"
    for edit in (playbook.edit, *playbook.otherwise):
        fits = _fit(edit, values, snapshot, include)
        if isinstance(fits, str):
            why_not = fits
            continue
        draft = Draft(
            operations=fits,
            why=fill(playbook.why, values),
            falsifier=fill(playbook.falsifier, values)
            if playbook.falsifier
            else (diagnosis.falsifier),
            author=f"playbook:{playbook.id}",
        )
        return Fitted(draft=draft, remedy=_remedy(fits))
    return why_not


def slug(value: str) -> str:
    """The value as a skill's folder name may be written: a-z, 0-9 and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", value.casefold()).strip("-")


def shape_words(value: str) -> str:
    """A code's form in words: `A-1042` is one capital letter, a hyphen, four digits."""
    words: list[str] = []
    for kind, run in itertools.groupby(value, key=_kind):
        size = len(list(run))
        if kind in _MARKS:
            words.append(_MARKS[kind] if size == 1 else f"{_count(size)} of {kind!r}")
        else:
            words.append(f"{_count(size)} {kind}{'' if size == 1 else 's'}")
    return ", ".join(words)


def instruction_file(snapshot: HarnessSnapshot, include: Sequence[str]) -> str | None:
    """The file that an instruction goes to: a well-known name first, else the first by path."""
    texts = [
        path
        for path in sorted(snapshot.files)
        if included(path, include)
        and path.casefold().endswith((".md", ".txt", ".prompt"))
        and "skills" not in path.split("/")[:-1]
    ]
    return min(texts, key=_rank, default=None)


def _rank(path: str) -> tuple[int, int, str]:
    name = path.rsplit("/", 1)[-1].casefold()
    known = _FIRST_NAMES.index(name) if name in _FIRST_NAMES else len(_FIRST_NAMES)
    return known + (100 if name.startswith("readme") else 0), path.count("/"), path


def _kind(char: str) -> str:
    if char.isdigit():
        return "digit"
    if char.isalpha():
        return "capital letter" if char.isupper() else "small letter"
    return char


def _count(size: int) -> str:
    return _COUNTS[size] if size < len(_COUNTS) else str(size)


def _values(playbook: Playbook, parameters: Mapping[str, Json]) -> dict[str, str] | str:
    values: dict[str, str] = {}
    for name, source in playbook.needs.items():
        value: Json = source
        if isinstance(source, str) and source.startswith(EVIDENCE):
            value = parameters.get(source.removeprefix(EVIDENCE))
            if value is None:
                return f"needs {name}, which the evidence does not show"
        text = str(value) if isinstance(value, int | str) else ""
        if isinstance(value, bool) or not _VALUE.fullmatch(text):
            return f"needs {name} as a plain name or code; the evidence has something else"
        values |= {name: text, f"{name}_slug": slug(text), f"{name}_words": shape_words(text)}
        if not values[f"{name}_slug"]:
            return f"needs {name} with a letter or a digit"
    return values


def _misfit(playbook: Playbook, parameters: Mapping[str, Json]) -> str | None:
    for name, form in playbook.where.items():
        if not _matches(form, parameters.get(name)):
            return f"is for findings whose {name} is {form}"
    for name, form in playbook.unless.items():
        if _matches(form, parameters.get(name)):
            return f"is not for findings whose {name} is {form}"
    return None


def _matches(form: str, value: Json) -> bool:
    return value is not None and re.fullmatch(form, str(value)) is not None


def _remedy(operations: Sequence[Operation]) -> Remedy:
    return "skill" if any(o.op == "add_skill" for o in operations) else "instructions"


def _fit(
    edit: Sequence[PlaybookEdit],
    values: Mapping[str, str],
    snapshot: HarnessSnapshot,
    include: Sequence[str],
) -> tuple[Operation, ...] | str:
    operations: list[Operation] = []
    try:
        for part in edit:
            operations.append(_operation(part, values, snapshot, include))
            apply_operations(snapshot, operations)
    except PolicyRefused as refused:
        return str(refused)
    return tuple(operations)


def _operation(
    part: PlaybookEdit, values: Mapping[str, str], snapshot: HarnessSnapshot, include: Sequence[str]
) -> Operation:
    text = fill(part.text, values)
    if part.path is not None:
        path = _new_path(fill(part.path, values), snapshot, include)
        return Operation(op=part.op, path=path, text=text)
    path = _old_path(part.file or "", values, snapshot, include)
    anchor = fill(part.anchor, values) if part.anchor else None
    if anchor is None:
        anchor = end_anchor(shown_text(snapshot.files[path], path))
        if anchor is None:
            raise PolicyRefused(f"{path}: no line to insert after")
    return Operation(op=part.op, path=path, text=text, anchor=anchor)


def _new_path(path: str, snapshot: HarnessSnapshot, include: Sequence[str]) -> str:
    """The path, moved to where this operator keeps skills."""
    if path.startswith("skills/"):
        root = skills_root(snapshot.files, include)
        if root is None:
            raise PolicyRefused("harness.include names no skills folder")
        path = root + path.removeprefix("skills")
    if not included(path, include):
        raise PolicyRefused(f"{path}: harness.include does not name it")
    return path


def _old_path(
    file: str, values: Mapping[str, str], snapshot: HarnessSnapshot, include: Sequence[str]
) -> str:
    path = instruction_file(snapshot, include) if file == INSTRUCTIONS else fill(file, values)
    if path is None:
        raise PolicyRefused("the harness has no instruction file")
    if path not in snapshot.files:
        raise PolicyRefused(f"{path}: no such file in the harness")
    return path


def applicable(
    playbooks: Sequence[Playbook],
    finding: Finding,
    snapshot: HarnessSnapshot,
    *,
    include: Sequence[str],
) -> Iterator[tuple[Playbook, Fitted | str]]:
    """Each playbook for the finding's cause, with its draft or the reason against it."""
    for playbook in playbooks:
        if playbook.when.cause == finding.diagnosis.cause:
            yield playbook, fitted(playbook, finding, snapshot, include=include)
