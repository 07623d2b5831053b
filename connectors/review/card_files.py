"""One file's diff as a card shows it: cleaned, masked, long ones folded."""

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.review.clean import is_hidden, one_line, safe
from connectors.review.diff import FileDiff, FileStatus

_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """One file's diff, safe to show. `added` and `removed` count the whole diff."""

    path: str
    status: FileStatus
    added: int | None
    """None: no lines to count, since a side is no text."""
    removed: int | None
    lines: tuple[str, ...]
    folded_added: int
    folded_removed: int
    notes: tuple[str, ...]


def file_view(diff: FileDiff) -> FileView:
    """One file's diff, safe to show."""
    return FileView(
        path=one_line(diff.path, 300), status=diff.status,
        added=diff.stats.added if diff.stats else None,
        removed=diff.stats.removed if diff.stats else None,
        lines=_safe_lines(diff.lines),
        folded_added=diff.folded.added, folded_removed=diff.folded.removed,
        notes=tuple(one_line(note) for note in diff.notes),
    )  # fmt: skip


def _safe_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Safe diff lines; a private key spans several and is masked as a whole, sign by sign."""
    shown: list[str] = []
    inside = False
    for line in lines:
        begins = _KEY_BEGINS in line and "PRIVATE KEY" in line
        inside = inside or begins
        shown.append(f"{line[:1]}[private key]" if inside else safe(line))
        inside = inside and _KEY_ENDS not in line
    return tuple(shown)


def hidden_in(diffs: Sequence[FileDiff]) -> tuple[str, ...]:
    """A warning for each file whose diff holds characters that show nothing."""
    found: list[str] = []
    for diff in diffs:
        texts = [line[1:].removeprefix("\ufeff") for line in diff.lines]
        hidden = sorted({c for text in (*texts, diff.path) for c in text if is_hidden(c)})
        if hidden:
            codes = ", ".join(f"U+{ord(c):04X}" for c in hidden)
            found.append(f"{one_line(diff.path)} holds hidden characters, marked here: {codes}")
    return tuple(found)
