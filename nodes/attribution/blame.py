"""Which release put each line of a file there, from the file before and after every release. Pure.

Between two releases people edit by hand: what a release found and no release had left is theirs.
Lines are compared as texts: a changed line end, a final newline and a byte order mark are no change
of a line. A line that was moved is a new line where the diff says so.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from contracts.proposals import ReleaseId

# Above this many differing lines SequenceMatcher takes its shortcut: on repeated lines it is
# quadratic, and the shortcut's diff is longer but still right.
_EXACT_LINES = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one release found in the file and left there; None: no such file."""

    release: ReleaseId
    before: bytes | None
    after: bytes | None
    undoes: ReleaseId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a line comes from.

    A line of no release came after `newer_than` (None: it was there before the first release) and
    before `seen_by` (None: no release saw it, it is newer than all of them).
    """

    release: ReleaseId | None = None
    """The release that put it there; None: no release did."""
    restored_by: ReleaseId | None = None
    """The undo that brought it back; it keeps who put it there in the first place."""
    newer_than: ReleaseId | None = None
    seen_by: ReleaseId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the file without its end, and where it comes from."""

    text: str
    origin: Origin


def blame(steps: Sequence[Step], now: bytes | None) -> tuple[Line, ...]:
    """Every line of the file as it is, in order, each with its one origin.

    Args:
        steps: all releases of the harness, oldest first, also those that left the file alone.
        now: the bytes of the file; None: it is not there.
    """
    undone = {step.undoes for step in steps}
    kept: dict[ReleaseId, tuple[Line, ...]] = {}
    lines: tuple[Line, ...] = ()
    last: ReleaseId | None = None
    for step in steps:
        found = texts(step.before)
        lines = _moved_on(lines, found, Origin(newer_than=last, seen_by=step.release))
        if step.release in undone:
            kept[step.release] = lines
        lines = _released(step, lines, kept)
        last = step.release
    return _moved_on(lines, texts(now), Origin(newer_than=last))


def texts(data: bytes | None) -> list[str]:
    """The lines of a file without their ends and without a byte order mark.

    Bytes that are no UTF-8 are kept as surrogates.
    """
    if not data:
        return []
    whole = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = [line.removesuffix("\r") for line in whole.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _released(
    step: Step, before: tuple[Line, ...], kept: Mapping[ReleaseId, tuple[Line, ...]]
) -> tuple[Line, ...]:
    """The lines that a release left."""
    after = texts(step.after)
    first = kept.get(step.undoes) if step.undoes is not None else None
    if first is None or [line.text for line in first] != after:
        return _moved_on(before, after, Origin(release=step.release))
    same = _origins_of([line.text for line in before], after)
    return tuple(
        line
        if at is not None
        else replace(line, origin=replace(line.origin, restored_by=step.release))
        for line, at in zip(first, same, strict=True)
    )


def _moved_on(old: tuple[Line, ...], new: Sequence[str], added: Origin) -> tuple[Line, ...]:
    """The new lines: those that stayed keep their origin, the others get `added`."""
    before = [line.text for line in old]
    if before == new:
        return old
    return tuple(
        old[at] if at is not None else Line(text=text, origin=added)
        for text, at in zip(new, _origins_of(before, new), strict=True)
    )


def _origins_of(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each new line the old one that it is; None: it is a new one."""
    found: list[int | None] = [None] * len(new)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    for at in range(head):
        found[at] = at
    for back in range(1, tail + 1):
        found[-back] = len(old) - back
    for a, b in _matches(old[head : len(old) - tail], new[head : len(new) - tail]):
        found[head + b] = head + a
    return found


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(one, other, strict=False)
    return next(
        (at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other))
    )  # fmt: skip


def _matches(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    if not old or not new:
        return
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > _EXACT_LINES)
    for a, b, size in matcher.get_matching_blocks():
        yield from ((a + by, b + by) for by in range(size))
