"""Fill a playbook from a finding's evidence and fit it into the operator's files. Pure."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from configs.playbooks import EVIDENCE, INSTRUCTIONS, Playbook, PlaybookEdit, fill
from contracts.errors import AnchorError, PolicyRefused
from contracts.findings import Finding, Remedy
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json
from contracts.proposals import Draft, Operation
from nodes.evolution.chat_places import end_of_instructions, in_instructions
from nodes.evolution.edits import apply_operations, shown_text
from nodes.evolution.items_found import KnownText, own_items
from nodes.evolution.paths import included, skills_root
from nodes.evolution.playbook_again import CAME_BACK, again

_VALUE = re.compile(r"[A-Za-z0-9._:@/-]{1,40}")
"""What a value from evidence may be: a name, a code, an id. Never a sentence."""
ALREADY = "already"
"""Parameter of a diagnosis: the line on which the instructions ask for the same."""
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
    playbook: Playbook,
    finding: Finding,
    snapshot: HarnessSnapshot,
    *,
    include: Sequence[str],
    main: str | None = None,
    known: Sequence[KnownText] = (),
) -> Fitted | str:
    """The playbook's first edit that has a place in the harness, or why it has none.

    Where an item of the same finding stands in the harness already, the edit changes that one.

    Args:
        playbook: to be filled.
        finding: its diagnosis gives the values.
        snapshot: the harness as it is.
        include: patterns of the paths that may be edited.
        main: the file that instructions go to; None: `instruction_file` says which.
        known: what releases added to files without comments.
    """
    diagnosis = finding.diagnosis
    if playbook.when.cause != diagnosis.cause:
        return f"is for cause {playbook.when.cause}"
    allowed = set(playbook.when.remedy) & set(diagnosis.remedies)
    if not allowed:
        return f"serves {' and '.join(playbook.when.remedy)} only"
    earlier = own_items(snapshot, {finding.id: finding.signature}, known)
    if misfit := _misfit(playbook, diagnosis.parameters, ours=bool(earlier)):
        return misfit
    values = _values(playbook, diagnosis.parameters)
    if isinstance(values, str):
        return values
    if earlier:
        fits = again(playbook, values, earlier, snapshot, finding.signature)
        came_back = f"{CAME_BACK.format(item=earlier[0].item.id, path=earlier[0].path)} "
    else:
        fits = _first(playbook, values, _Where(snapshot, tuple(include), main))
        came_back = ""
    if isinstance(fits, str):
        return fits
    draft = Draft(
        operations=fits,
        why=came_back + fill(playbook.why, values),
        falsifier=fill(playbook.falsifier, values) if playbook.falsifier else diagnosis.falsifier,
        author=f"playbook:{playbook.id}",
    )
    return Fitted(draft=draft, remedy=_remedy(fits))


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


def listed(value: str) -> str:
    """The parts of `a/b/c` as a sentence names them: `a`, `b` or `c`, each in backticks."""
    *most, last = [f"`{part}`" for part in value.split("/") if part] or [f"`{value}`"]
    return f"{', '.join(most)} or {last}" if most else last


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
        values |= {
            name: text, f"{name}_slug": slug(text), f"{name}_words": shape_words(text),
            f"{name}_listed": listed(text),
        }  # fmt: skip
        if not values[f"{name}_slug"]:
            return f"needs {name} with a letter or a digit"
    return values


def _misfit(playbook: Playbook, parameters: Mapping[str, Json], *, ours: bool) -> str | None:
    """Why the evidence is not what the playbook is for.

    `ours`: the rule that stands there already is an item of ours, which may be changed.
    """
    for name, form in playbook.where.items():
        if not _matches(form, parameters.get(name)):
            return f"is for findings whose {name} is {form}"
    for name, form in playbook.unless.items():
        if _matches(form, parameters.get(name)) and not (ours and name == ALREADY):
            return f"is not for findings whose {name} is {form}"
    return None


def _matches(form: str, value: Json) -> bool:
    return value is not None and re.fullmatch(form, str(value)) is not None


def _remedy(operations: Sequence[Operation]) -> Remedy:
    return "skill" if any(o.op == "add_skill" for o in operations) else "instructions"


@dataclass(frozen=True, slots=True)
class _Where:
    """The harness that an edit has to fit into."""

    snapshot: HarnessSnapshot
    include: tuple[str, ...]
    main: str | None


def _first(
    playbook: Playbook, values: Mapping[str, str], where: _Where
) -> tuple[Operation, ...] | str:
    """The first of the playbook's edits that has a place."""
    why_not = "no edit fits"
    for edit in (playbook.edit, *playbook.otherwise):
        fits = _fit(edit, values, where)
        if not isinstance(fits, str):
            return fits
        why_not = fits
    return why_not


def _fit(
    edit: Sequence[PlaybookEdit], values: Mapping[str, str], where: _Where
) -> tuple[Operation, ...] | str:
    operations: list[Operation] = []
    try:
        for part in edit:
            operations.append(_operation(part, values, where))
            apply_operations(where.snapshot, operations)
    except PolicyRefused as refused:
        return str(refused)
    return tuple(operations)


def _operation(part: PlaybookEdit, values: Mapping[str, str], where: _Where) -> Operation:
    text = fill(part.text, values)
    if part.path is not None:
        path = _new_path(fill(part.path, values), where.snapshot, where.include)
        return Operation(op=part.op, path=path, text=text)
    path = _old_path(part.file or "", values, where)
    shown = shown_text(where.snapshot.files[path], path)
    anchor = fill(part.anchor, values) if part.anchor else end_of_instructions(shown, path)
    if not in_instructions(shown, path, anchor):
        raise AnchorError(f"{path}: the anchor stands in a message that gives no instructions")
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


def _old_path(file: str, values: Mapping[str, str], where: _Where) -> str:
    if file == INSTRUCTIONS:
        path = where.main or instruction_file(where.snapshot, where.include)
    else:
        path = fill(file, values)
    if path is None:
        raise PolicyRefused("the harness has no instruction file")
    if path not in where.snapshot.files:
        raise PolicyRefused(f"{path}: no such file in the harness")
    return path


def applicable(
    playbooks: Sequence[Playbook],
    finding: Finding,
    snapshot: HarnessSnapshot,
    *,
    include: Sequence[str],
    main: str | None = None,
    known: Sequence[KnownText] = (),
) -> Iterator[tuple[Playbook, Fitted | str]]:
    """Each playbook for the finding's cause, with its draft or the reason against it."""
    for playbook in playbooks:
        if playbook.when.cause == finding.diagnosis.cause:
            fits = fitted(playbook, finding, snapshot, include=include, main=main, known=known)
            yield playbook, fits
