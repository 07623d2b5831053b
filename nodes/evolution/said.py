"""The added words of an edit, in every unit in which a sentence could hide. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nodes.evolution.change import TextChange
from nodes.evolution.judged import Heard
from nodes.evolution.letters import plain

MAX_READ = 128 * 1024
"""Characters that an edit may add to one file; the rule of size refuses more, so none goes unread.
"""
_BULLET = re.compile(r"\s{0,40}(?:[-+]|\d{1,3}[.)])\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One added line, or one added sentence that goes over several, as rules read it."""

    path: str
    line: int | None
    """Where it starts, where that is known."""
    text: str

    @property
    def place(self) -> str:
        """The path, with the line where it is known."""
        return f"{self.path} line {self.line}" if self.line else self.path

    def heard(self, what: str, words: str, *, sure: bool) -> Heard:
        """A phrase of it that a rule found."""
        return Heard(path=self.path, place=self.place, what=what, words=words, sure=sure)


def said_by(changes: Sequence[TextChange]) -> list[Said]:
    """Added lines and added sentences; headings and code are lines as well.

    A sentence that is spread over lines is found whole, and so is one whose other half stood there.
    """
    found: dict[tuple[str, str], Said] = {}
    for change in changes:
        room = MAX_READ
        for statement in change.statements:
            room -= len(statement.text)
            if room < 0:
                break
            text = plain(statement.text)
            found.setdefault(
                (change.path, text), Said(path=change.path, line=statement.line, text=text)
            )
        room = MAX_READ
        for line in change.lines[1]:
            room -= len(line)
            if room < 0:
                break
            text = _BULLET.sub("", plain(line), count=1).strip()
            if text:
                found.setdefault((change.path, text), Said(path=change.path, line=None, text=text))
    return list(found.values())
