"""Unified diffs on the source bytes: line ends, a byte order mark, a missing last newline count.

Counts always come from the whole diff, also where only its beginning is shown.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

FOLD = 80
"""Diff lines shown of one file before the rest is folded away."""
_CONTEXT = 3
# SequenceMatcher is quadratic on repeated lines; above this many lines its own shortcut is used,
# which may give a longer, still correct, diff.
_EXACT_LINES = 5000
_NO_NEWLINE = "\\ No newline at end of file"

FileStatus = Literal["added", "removed", "changed", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffStats:
    """Lines added and removed by the whole diff of a file."""

    added: int
    removed: int

    def __post_init__(self) -> None:
        if self.added < 0 or self.removed < 0:
            raise ValueError(f"negative line count: +{self.added} -{self.removed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """One file's change as a unified diff.

    The lines are source text: they must go through `clean.safe` before they are shown.
    """

    path: str
    status: FileStatus
    stats: DiffStats | None
    """None: a side is not UTF-8 text, so that there are no lines to count."""
    lines: tuple[str, ...]
    folded: DiffStats
    """Changed lines that `lines` leaves out."""
    notes: tuple[str, ...] = ()


def unified(
    path: str, before: bytes | None, after: bytes | None, *, fold: int | None = FOLD
) -> FileDiff:
    """The change of one file; None on a side means that the file is not there.

    Args:
        path: shown in the header; never opened.
        before: bytes of the base file.
        after: bytes of the candidate file.
        fold: diff lines to keep; None keeps all.
    """
    nothing = DiffStats(added=0, removed=0)
    status = _status(before, after)
    old, new = _lines(before), _lines(after)
    if old is None or new is None:
        note = f"not UTF-8 text: {_size(before)} before, {_size(after)} after"
        return FileDiff(
            path=path, status=status, stats=None, lines=(), folded=nothing, notes=(note,)
        )
    body, stats = _body(old, new, mixed=_mixed(old) or _mixed(new))
    lines: list[str] = []
    if body:
        lines.append(f"--- {'/dev/null' if before is None else 'a/' + path}")
        lines.append(f"+++ {'/dev/null' if after is None else 'b/' + path}")
        lines.extend(body)
    kept = lines if fold is None else lines[:fold]
    rest = [] if fold is None else lines[fold:]
    folded = DiffStats(
        added=sum(line.startswith("+") for line in rest),
        removed=sum(line.startswith("-") for line in rest),
    )
    return FileDiff(
        path=path, status=status, stats=stats, lines=tuple(kept), folded=folded,
        notes=_notes(old, new, before, after),
    )  # fmt: skip


def total(diffs: Sequence[FileDiff]) -> DiffStats:
    """Lines added and removed over several files; files without a count add nothing."""
    counted = [d.stats for d in diffs if d.stats is not None]
    return DiffStats(added=sum(s.added for s in counted), removed=sum(s.removed for s in counted))


def _status(before: bytes | None, after: bytes | None) -> FileStatus:
    if before == after:
        return "same"
    if before is None:
        return "added"
    return "removed" if after is None else "changed"


def _size(data: bytes | None) -> str:
    return "absent" if data is None else f"{len(data)} bytes"


def _lines(data: bytes | None) -> list[str] | None:
    """Lines with their ends; only LF ends a line. None: not UTF-8."""
    if data is None:
        return []
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    lines = text.split("\n")
    ended = [line + "\n" for line in lines[:-1]]
    return ended + ([lines[-1]] if lines[-1] else [])


def _mixed(lines: Sequence[str]) -> bool:
    kinds = {line.endswith("\r\n") for line in lines if line.endswith("\n")}
    return len(kinds) > 1


def _body(old: list[str], new: list[str], *, mixed: bool) -> tuple[list[str], DiffStats]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > _EXACT_LINES)
    ends_changed = _crlf(old) != _crlf(new) and bool(old) and bool(new)
    marked = mixed or ends_changed
    out: list[str] = []
    added = removed = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        out.append(f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@")
        for tag, a0, a1, b0, b1 in group:
            if tag == "equal":
                out.extend(_shown(" ", old[a0:a1], marked=marked))
                continue
            removed += a1 - a0
            added += b1 - b0
            out.extend(_shown("-", old[a0:a1], marked=marked))
            out.extend(_shown("+", new[b0:b1], marked=marked))
    return out, DiffStats(added=added, removed=removed)


def _span(start: int, stop: int) -> str:
    """A range as `diff -u` writes it: 1-based, an empty one names the line before it."""
    count = stop - start
    if count == 1:
        return str(start + 1)
    return f"{start if count == 0 else start + 1},{count}"


def _shown(sign: str, lines: Sequence[str], *, marked: bool) -> Iterator[str]:
    """Diff lines without their ends; a CR before the LF is shown where it tells lines apart."""
    for line in lines:
        if line.endswith("\r\n"):
            yield sign + line[:-2] + ("␍" if marked else "")
        elif line.endswith("\n"):
            yield sign + line[:-1]
        else:
            yield sign + line
            yield _NO_NEWLINE


def _crlf(lines: Sequence[str]) -> bool:
    return any(line.endswith("\r\n") for line in lines)


def _notes(
    old: list[str], new: list[str], before: bytes | None, after: bytes | None
) -> tuple[str, ...]:
    notes: list[str] = []
    if _mixed(new) or _mixed(old):
        notes.append("mixed line ends: lines that end in CRLF are marked with ␍")
    elif _crlf(new) or _crlf(old):
        notes.append("line ends: CRLF")
    marks = [(data or b"").startswith(b"\xef\xbb\xbf") for data in (before, after)]
    if before is not None and after is not None and marks[0] != marks[1]:
        notes.append("the byte order mark at the start changes")
    return tuple(notes)
