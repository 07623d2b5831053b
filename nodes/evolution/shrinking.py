"""Does an edit only take text out? Then it can be tested for doing no harm, without a case to mend.

Pure.
"""

from collections.abc import Callable, Sequence

from contracts.harness import HarnessSnapshot
from nodes.evolution.change import TextChange, text_changes


def shrinks(
    before: HarnessSnapshot, after: HarnessSnapshot, count_tokens: Callable[[str], int]
) -> tuple[int, int] | None:
    """Tokens of the edited files before and after, where lines only go or get shorter.

    A line got shorter where its words are some of a removed line's, in their order. None: the edit
    adds something, changes no text, or leaves as many tokens as there were.
    """
    changes = text_changes(before, after)
    if not changes or not all(map(_only_less, changes)):
        return None
    old = sum(count_tokens(change.before) for change in changes)
    new = sum(count_tokens(change.after) for change in changes)
    return (old, new) if new < old else None


def _only_less(change: TextChange) -> bool:
    if not change.readable or change.mode_changed or not change.there_before:
        return False
    removed, added = change.lines
    left = [_words(line) for line in removed]
    for line in added:
        words = _words(line)
        from_line = next((one for one in left if _within(words, one)), None)
        if from_line is None and words:
            return False
        if from_line is not None:
            left.remove(from_line)
    return True


def _words(line: str) -> list[str]:
    """A line's words; where a sentence ends now is no new word."""
    return [word.rstrip(".,;:!?") for word in line.split()]


def _within(words: Sequence[str], line: Sequence[str]) -> bool:
    rest = iter(line)
    return all(word in rest for word in words)
