"""Merge small operations into a harness, byte for byte. Pure: nothing is read or written.

Only LF and CRLF end a line. A carriage return alone is data of its line, and stays.
"""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from contracts.errors import AnchorError, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import FileChange, Operation, OperationName
from nodes.evolution.paths import path_problem

BOM = "\ufeff"
_LINE_END = re.compile(r"\r\n|\n")
_SKILL_PATH = re.compile(r"(?:[^/]+/)*skills/[^/]+/SKILL\.md")


def apply_operations(snapshot: HarnessSnapshot, operations: Sequence[Operation]) -> HarnessSnapshot:
    """The harness after the operations, in their order; `snapshot` itself stays as it is.

    Whether a path may be edited at all is policy's question, not asked here.

    Raises:
        AnchorError: an anchor is empty, blank, absent or not unique.
        PolicyRefused: a path is unsafe, there already, missing, or not UTF-8 text.
    """
    files = dict(snapshot.files)
    for operation in operations:
        if problem := path_problem(operation.path):
            raise PolicyRefused(f"{operation.path!r}: {problem}")
        files[operation.path] = _APPLY[operation.op](files, operation)
    return HarnessSnapshot(files=files)


def describe_files(before: HarnessSnapshot, after: HarnessSnapshot) -> tuple[FileChange, ...]:
    """What differs, by path, as hashes."""
    return tuple(
        FileChange(path=path, before=_sha(before, path), after=_sha(after, path))
        for path in before.changed(after)
    )


def text_of(file: HarnessFile, path: str) -> str:
    """The file as text, with its byte order mark and its line ends.

    Raises:
        PolicyRefused: it is not UTF-8.
    """
    try:
        return file.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PolicyRefused(
            f"{path}: not UTF-8 text (byte {error.start}); only text is edited"
        ) from None


def shown_text(file: HarnessFile, path: str) -> str:
    """The file as a person edits it: without byte order mark, lines ended by LF."""
    return text_of(file, path).removeprefix(BOM).replace("\r\n", "\n")


def end_anchor(text: str, within: tuple[int, int] | None = None) -> str | None:
    """The fewest last lines that name the end of a text and no other place; None: all blank.

    `within`: of this part of the text (offsets), which begins and ends at whole lines.
    """
    whole = text if within is None else text[within[0] : within[1]]
    body = whole.removeprefix(BOM).replace("\r\n", "\n").rstrip("\n")
    lines = body.split("\n")
    for count in range(1, len(lines) + 1):
        anchor = "\n".join(lines[-count:])
        if anchor.strip() and len(_places(text, anchor)) == 1:
            return anchor
    return None


def place_of(text: str, anchor: str) -> tuple[int, int] | None:
    """The offsets of the only place that an anchor names; None: there is none, or more than one."""
    places = _places(text, anchor) if anchor.strip() else []
    return places[0] if len(places) == 1 else None


def _sha(snapshot: HarnessSnapshot, path: str) -> str | None:
    file = snapshot.files.get(path)
    return None if file is None else file.sha256


def _replace(files: dict[str, HarnessFile], operation: Operation) -> HarnessFile:
    file, text = _existing(files, operation.path)
    start, stop = _place(text, operation)
    old = text[start:stop]
    default = _first_end(old) or _end_near(text, start)
    new = _keep_ends(old, operation.text.replace("\r\n", "\n"), default)
    return replace(file, data=(text[:start] + new + text[stop:]).encode())


def _insert_after(files: dict[str, HarnessFile], operation: Operation) -> HarnessFile:
    file, text = _existing(files, operation.path)
    if not operation.text:
        raise PolicyRefused(f"{operation.path}: nothing to insert")
    _, stop = _place(text, operation)
    if text[stop - 1] == "\n":
        at, whole = stop, True
        ending = "\r\n" if text[:stop].endswith("\r\n") else "\n"
    else:
        newline = text.find("\n", stop)
        at, whole = (len(text), False) if newline < 0 else (newline + 1, True)
        ending = _end_near(text, stop)
    lines = operation.text.replace("\r\n", "\n").removesuffix("\n").replace("\n", ending)
    # A file whose last line has no end keeps it so: the inserted line becomes that last line.
    inserted = lines + ending if whole else ending + lines
    return replace(file, data=(text[:at] + inserted + text[at:]).encode())


def _remove(files: dict[str, HarnessFile], operation: Operation) -> HarnessFile:
    """Without the whole lines in which the anchor stands."""
    file, text = _existing(files, operation.path)
    if operation.text:
        raise PolicyRefused(f"{operation.path}: remove has no text")
    start, stop = _place(text, operation)
    start = text.rfind("\n", 0, start) + 1
    if text.startswith(BOM) and start == 0:
        start = len(BOM)
    end = stop if text[stop - 1] == "\n" else text.find("\n", stop) + 1
    kept = text[:start] + (text[end:] if end else "")
    if not end:  # the last line goes, and the one before it keeps a missing last line end
        kept = kept.removesuffix("\n").removesuffix("\r")
    return replace(file, data=kept.encode())


def _add_skill(files: dict[str, HarnessFile], operation: Operation) -> HarnessFile:
    if not _SKILL_PATH.fullmatch(operation.path):
        raise PolicyRefused(f"{operation.path}: a skill is added as skills/<name>/SKILL.md")
    return _add_file(files, operation)


def _add_file(files: dict[str, HarnessFile], operation: Operation) -> HarnessFile:
    path = operation.path
    folded = path.casefold()
    for there in files:
        known = there.casefold()
        if known == folded:
            raise PolicyRefused(f"{path}: there already (as {there})")
        if folded.startswith(known + "/") or known.startswith(folded + "/"):
            raise PolicyRefused(f"{path}: {there} is in the way")
    return HarnessFile(data=operation.text.encode())


_Apply = Callable[[dict[str, HarnessFile], Operation], HarnessFile]
_APPLY: dict[OperationName, _Apply] = {
    "replace": _replace,
    "insert_after": _insert_after,
    "remove": _remove,
    "add_skill": _add_skill,
    "add_file": _add_file,
}


def _existing(files: dict[str, HarnessFile], path: str) -> tuple[HarnessFile, str]:
    file = files.get(path)
    if file is None:
        raise PolicyRefused(f"{path}: no such file in the harness")
    return file, text_of(file, path)


def _place(text: str, operation: Operation) -> tuple[int, int]:
    """The one place that the anchor names."""
    anchor = operation.anchor
    if not anchor:
        raise AnchorError(f"{operation.path}: empty anchor")
    if not anchor.strip():
        raise AnchorError(f"{operation.path}: anchor of blanks")
    places = _places(text, anchor)
    if not places:
        raise AnchorError(f"{operation.path}: anchor not found: {_brief(anchor)}")
    if len(places) > 1:
        raise AnchorError(f"{operation.path}: anchor found {len(places)} times: {_brief(anchor)}")
    return places[0]


def _places(text: str, anchor: str) -> list[tuple[int, int]]:
    """Every place of the anchor, overlapping ones too; its line ends match LF and CRLF."""
    pieces = [re.escape(piece).replace("\r", "\r(?!\n)") for piece in re.split("\r\n|\n", anchor)]
    pattern = r"(?:\r\n|(?<!\r)\n)".join(pieces)
    return [m.span(1) for m in re.finditer(f"(?=({pattern}))", text)]


def _brief(anchor: str) -> str:
    return repr(anchor if len(anchor) <= 60 else anchor[:59] + "…")


def _first_end(text: str) -> str | None:
    found = _LINE_END.search(text)
    return found[0] if found else None


def _end_near(text: str, at: int) -> str:
    """How the line at a position ends; for an unended last line, how the one before it does."""
    after = _LINE_END.search(text, at)
    if after:
        return after[0]
    before = text.rfind("\n", 0, at)
    if before < 0:
        return "\n"
    return "\r\n" if text[before - 1 : before] == "\r" else "\n"


def _keep_ends(old: str, new: str, default: str) -> str:
    """`new` (with LF) with the line ends of `old`, on lines that stay and on ones they became."""
    old_ends: list[str] = _LINE_END.findall(old)
    old_lines, new_lines = _LINE_END.split(old), new.split("\n")
    ends = [default] * (len(new_lines) - 1) + [""]
    matcher = difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False)
    for _, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        for was, now in zip(range(old_from, old_to), range(new_from, new_to), strict=False):
            if was < len(old_ends) and now < len(new_lines) - 1:
                ends[now] = old_ends[was]
    return "".join(line + end for line, end in zip(new_lines, ends, strict=True))
