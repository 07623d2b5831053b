"""Mask secrets and personal data where text leaves memory.

The rules are in `redaction.yaml`. A text in which no rule's prefilter occurs, which is nearly every
text, costs one pass over all of them together (docs/redaction.md).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from configs.redaction_rules import (
    NAME,
    RedactionRule,
    names_rule,
    packaged_sections,
    section_of,
)
from configs.redaction_values import MAX_DEPTH, Span, depth_of_quote

WHOLE: Final = "redacted"
ROUNDS: Final = 8
"""A mask may bring the next secret to light; a text that never settles is masked as a whole."""
REACH: Final = 1024
"""Secrets up to this long are found whole where a text is cut after redaction (`redact_head`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One secret: the name of its rule, and where it is."""

    name: str
    start: int
    end: int
    text: str


@lru_cache(maxsize=1)
def redaction_rules() -> tuple[RedactionRule, ...]:
    """The packaged rules; where two find the same, the first names it."""
    return tuple(rule for section in packaged_sections() for rule in section.rules)


class Redactor:
    """Masks by the packaged rules and by the names of one project. Make it with `redactor`."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        own = (section_of([names_rule(names)]),) if names else ()
        self._sections: Final = (*packaged_sections(), *own)
        self.rules: Final = tuple(rule for section in self._sections for rule in section.rules)
        self._labels: Final = [*dict.fromkeys(rule.name for rule in self.rules), NAME, WHOLE]
        self._masks: Final = re.compile(rf"\[(?:{'|'.join(map(re.escape, self._labels))})\]")
        self._may: Final = _either(section_of(redaction_rules()).may, *(s.may for s in own))

    def redact(self, text: str) -> str:
        """The text with every secret replaced by `[name of the rule]`. Idempotent."""
        return self.masked(text)[0]

    def masked(self, text: str) -> tuple[str, int]:
        """The redacted text, and how many masks were set."""
        count = 0
        for _ in range(ROUNDS):
            found = self.find(text)
            if not found:
                return text, count
            text, count = _spliced(text, found), count + len(found)
        if self.find(text):
            return f"[{WHOLE}]", count + 1
        return text, count

    def find(self, text: str) -> list[Found]:
        """Every secret, in order; what overlaps is one, with the name of the first rule."""
        joined: list[tuple[int, int, int]] = []
        for start, end, order in sorted(self._spans(text)):
            if joined and start < joined[-1][1]:
                begun, reached, first = joined[-1]
                joined[-1] = (begun, max(end, reached), min(order, first))
            else:
                joined.append((start, end, order))
        return [
            Found(name=self.rules[order].name, start=start, end=end, text=text[start:end])
            for start, end, order in joined
        ]

    def kinds(self, text: str) -> list[str]:
        """Names of the rules that match, in their order; empty for clean text."""
        orders = sorted({order for _, _, order in self._spans(text)})
        return [self.rules[order].name for order in orders]

    def head(self, text: str, limit: int) -> str:
        """The redacted beginning, at most `limit` characters of the text.

        No part of a secret is left where it is cut. Reads no more of the text than is needed.
        """
        if len(text) > limit:
            window = text[: limit + REACH]
            across = (found.start for found in self.find(window) if found.end > limit)
            text = window[: min(limit, *across, limit)]
        for _ in range(ROUNDS):
            text = self._cut(self.redact(text), limit)
            if not self.find(text):  # a word that was cut may be a name now
                return text
        return ""

    def _cut(self, text: str, limit: int) -> str:
        """The beginning of a redacted text, without half a mask at its end."""
        inside = (mask.start() for mask in self._masks.finditer(text) if mask.end() > limit)
        return text[: min(limit, *inside, limit)]

    def _spans(self, text: str) -> list[tuple[int, int, int]]:
        """(start, end, number of the rule) of every match that is not a mask already."""
        if not self._may(text):
            return []
        masks = [mask.span() for mask in self._masks.finditer(text)] if "[" in text else []
        spans = []
        for order, rule in self._tried(text):
            for found in rule.find(text):
                span = _around_masks(text, _between_escapes(text, found), masks)
                if span is not None:
                    spans.append((*span, order))
        return spans

    def _tried(self, text: str) -> Iterator[tuple[int, RedactionRule]]:
        """The rules whose prefilter occurs, with their numbers."""
        order = 0
        for section in self._sections:
            if section.may(text):
                for at, rule in enumerate(section.rules, order):
                    if rule.may(text):
                        yield at, rule
            order += len(section.rules)


def _between_escapes(text: str, span: Span) -> Span:
    """The span without half an escape of JSON at its ends, so that valid JSON stays valid."""
    start, end = span
    if _slashes(text, start) and start < end:
        if text[start] in '"\\/bfnrt':
            start += 1
        elif _UNICODE.match(text, start):
            start += 5
    if _slashes(text, end) % 2:
        end -= 1
    elif (half := _HALF.search(text, max(start, end - 5), end)) and not _slashes(
        text, half.start()
    ) % 2:
        end = half.start()
    return start, max(start, end)


_UNICODE = re.compile(r"u[0-9a-fA-F]{4}")
_HALF = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z")


def _slashes(text: str, at: int) -> int:
    """How many backslashes stand right before a place."""
    first = at
    while first and text[first - 1] == "\\":
        first -= 1
    return at - first


def _around_masks(text: str, span: Span, masks: Sequence[Span]) -> Span | None:
    """The span, with any mask that it touches as a whole; None where it holds only masks."""
    start, end = span
    rest, at = "", start
    for mask_start, mask_end in masks:
        if mask_start < end and start < mask_end:
            rest += text[at:mask_start]
            at = mask_end
    rest += text[at:end]
    if not rest.strip():
        return None
    for mask_start, mask_end in masks:
        if mask_start < span[1] and span[0] < mask_end:
            start, end = min(start, mask_start), max(end, mask_end)
    return start, end


_NUMBER = re.compile(r"[0-9]+")
_BEFORE_VALUE = re.compile(r"(?:[\"\x27]\s*:|\[|[0-9\"\]}]\s*,)\s*\Z")
_BEHIND_VALUE = re.compile(r"\s*[,\]}]")


def _spliced(text: str, found: Sequence[Found]) -> str:
    parts, at = [], 0
    for one in found:
        quote = _quote_of_number(text, one)
        parts += [text[at : one.start], quote, f"[{one.name}]", quote]
        at = one.end
    return "".join([*parts, text[at:]])


def _quote_of_number(text: str, found: Found) -> str:
    """What makes a mask a JSON string where a number stood: the quote used nearest before it."""
    if (
        not _NUMBER.fullmatch(found.text)
        or not _BEHIND_VALUE.match(text, found.end)
        or not _BEFORE_VALUE.search(text, max(0, found.start - 16), found.start)
    ):
        return ""
    at = text.rfind('"', 0, found.start)
    depth = depth_of_quote(_slashes(text, at), MAX_DEPTH) if at >= 0 else 0
    return "\\" * ((1 << (depth or 0)) - 1) + '"'


def _either(*tests: Callable[[str], bool]) -> Callable[[str], bool]:
    if len(tests) == 1:
        return tests[0]
    return lambda text: any(test(text) for test in tests)


@lru_cache(maxsize=64)
def redactor(names: tuple[str, ...] = ()) -> Redactor:
    """The redactor of a project with these names.

    Raises:
        ConfigError: a name is shorter than two letters, and would mask half of every text.
    """
    return Redactor(tuple(sorted(set(names))))


_in_use: ContextVar[tuple[str, ...]] = ContextVar("names_to_redact", default=())


def use_names(names: Iterable[str]) -> None:
    """From here on, in this task and the tasks and threads it starts, mask these names too."""
    _in_use.set(tuple(names))


@contextmanager
def names_in_use(names: Iterable[str]) -> Iterator[None]:
    """Mask these names too within the block."""
    token = _in_use.set(tuple(names))
    try:
        yield
    finally:
        _in_use.reset(token)


def current_redactor() -> Redactor:
    """The redactor of the project that the current task works for."""
    return redactor(_in_use.get())


def redact(text: str) -> str:
    """The text with every secret replaced by `[name of the rule]`. Idempotent."""
    return current_redactor().redact(text)


def redact_head(text: str, limit: int) -> str:
    """The redacted beginning of a text; no part of a secret is left where it is cut."""
    return current_redactor().head(text, limit)


def find_secrets(text: str) -> list[str]:
    """Names of the rules that match, in their order; empty for clean text."""
    return current_redactor().kinds(text)
