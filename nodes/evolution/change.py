"""What an edit changes, in the forms in which policy asks for it."""

import difflib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from contracts.harness import HarnessSnapshot
from nodes.evolution.edits import BOM
from nodes.evolution.statements import Statement, statements

MAX_COMPARED = 4_000_000
"""Pairs of lines that are compared; above it all that lies between equal ends counts as changed."""


@dataclass(frozen=True, kw_only=True)
class TextChange:
    """One changed file. A side that is absent or no UTF-8 text is the empty text."""

    path: str
    before: str
    after: str
    there_before: bool
    there_after: bool
    readable: bool
    """Both sides are UTF-8."""
    mode_changed: bool

    @cached_property
    def lines(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Lines removed and lines added, line ends left out."""
        old, new = _differing(_lines(self.before), _lines(self.after))
        if len(old) * len(new) > MAX_COMPARED:
            return tuple(map(_bare, old)), tuple(map(_bare, new))
        removed: list[str] = []
        added: list[str] = []
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) * len(new) > 250_000)
        for tag, a0, a1, b0, b1 in matcher.get_opcodes():
            if tag != "equal":
                removed += old[a0:a1]
                added += new[b0:b1]
        return tuple(map(_bare, removed)), tuple(map(_bare, added))

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """Statements that the edit adds, a second copy of one that stands there included."""
        there = Counter(s.text for s in statements(self.before))
        added: list[Statement] = []
        for found in statements(self.after):
            there[found.text] -= 1
            if there[found.text] < 0:
                added.append(found)
        return tuple(added)

    @property
    def added(self) -> str:
        """The added lines as one text."""
        return "\n".join(self.lines[1])

    @property
    def removed(self) -> str:
        """The removed lines as one text."""
        return "\n".join(self.lines[0])


def text_changes(before: HarnessSnapshot, after: HarnessSnapshot) -> tuple[TextChange, ...]:
    """The changed files, by path."""
    return tuple(_change(before, after, path) for path in before.changed(after))


def added_text(before: HarnessSnapshot, after: HarnessSnapshot) -> str:
    """All added lines, in path order: what a later draft is compared with once this is rejected."""
    return "\n".join(change.added for change in text_changes(before, after))


def _change(before: HarnessSnapshot, after: HarnessSnapshot, path: str) -> TextChange:
    old, new = before.files.get(path), after.files.get(path)
    texts = [_decode(file.data) if file else "" for file in (old, new)]
    return TextChange(
        path=path,
        before=texts[0] or "",
        after=texts[1] or "",
        there_before=old is not None,
        there_after=new is not None,
        readable=None not in texts,
        mode_changed=old is not None and new is not None and old.mode != new.mode,
    )


def _decode(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _lines(text: str) -> list[str]:
    """Lines with their ends, so that a changed line end is a changed line; only LF ends one."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _differing(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Both sides without the lines that they begin and end with alike."""
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    most -= head
    tail = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    return old[head : len(old) - tail], new[head : len(new) - tail]


def _bare(line: str) -> str:
    return line.removeprefix(BOM).removesuffix("\n").removesuffix("\r")
