"""What an edit changes, in the forms in which policy asks for it."""

import difflib
from dataclasses import dataclass
from functools import cached_property

from contracts.harness import HarnessSnapshot
from nodes.evolution.edits import BOM


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
        old, new = _lines(self.before), _lines(self.after)
        removed: list[str] = []
        added: list[str] = []
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > 5000)
        for tag, a0, a1, b0, b1 in matcher.get_opcodes():
            if tag != "equal":
                removed += old[a0:a1]
                added += new[b0:b1]
        return tuple(map(_bare, removed)), tuple(map(_bare, added))

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


def _bare(line: str) -> str:
    return line.removeprefix(BOM).removesuffix("\n").removesuffix("\r")
