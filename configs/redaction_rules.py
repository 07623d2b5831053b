"""Rules of redaction: from `redaction.yaml` and from the names of a project.

A rule's prefilter is a pattern of pydantic's linear-time engine, which runs through a text at the
speed of its parse; Python's engine only ever sees texts in which a prefilter occurs.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final

import yaml
from pydantic_core import SchemaValidator, core_schema

from configs import redaction_personal as personal
from configs import redaction_values as values
from configs.redaction_values import Finder, Span
from contracts.errors import ConfigError

NAME: Final = "name"

_START = r"(?:(?<!{no})|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{{4}})|(?<=%[0-9A-F]{{2}}))"
"""Behind an escape of JSON or a percent code a word begins, though a letter stands before it."""
_WORD = "[A-Za-z0-9_]"
_ANYTHING: Final = ""


FINDERS: Final[Mapping[str, Finder]] = {
    "keyed": values.keyed, "header": values.header, "email": personal.email,
    "card": personal.card, "iban": personal.iban, "phone_abroad": personal.phone_abroad,
    "phone_named": personal.phone_named,
}  # fmt: skip
CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "token": values.is_token, "scheme": values.is_scheme,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionRule:
    """One kind of secret. `find` yields what is masked; `may` says cheaply that nothing will be."""

    name: str
    prefilter: str
    may: Callable[[str], bool]
    find: Finder


def _occurs(pattern: str) -> Callable[[str], bool]:
    """Whether a pattern without look-around occurs, in one linear pass.

    The engine reads UTF-8, so that a text with lone surrogates always passes.
    """
    seen = _engine(pattern)
    readable = _engine(_ANYTHING)

    def occurs(text: str) -> bool:
        return seen(text) or not (text.isascii() or readable(text))

    return occurs


def _engine(pattern: str) -> Callable[[str], bool]:
    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
    return SchemaValidator(schema).isinstance_python


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Rules that are passed over together where none of their prefilters occurs."""

    may: Callable[[str], bool]
    rules: tuple[RedactionRule, ...]


def section_of(rules: Iterable[RedactionRule]) -> Section:
    """The rules as one section."""
    kept = tuple(rules)
    return Section(may=_occurs("|".join(f"(?:{rule.prefilter})" for rule in kept)), rules=kept)


@lru_cache(maxsize=1)
def packaged_sections() -> tuple[Section, ...]:
    """The sections of `redaction.yaml`."""
    text = resources.files("configs").joinpath("redaction.yaml").read_text("utf-8")
    return tuple(section_of(map(_rule, entries)) for entries in yaml.safe_load(text).values())


def _rule(entry: Mapping[str, str]) -> RedactionRule:
    begins = entry.get("begins")
    prefilter = begins or entry["prefilter"]
    if "find" in entry:
        finder = FINDERS[entry["find"]]
        return RedactionRule(
            name=entry["name"], prefilter=prefilter, may=_occurs(prefilter), find=finder
        )
    start, end = entry.get("start", _WORD), entry.get("end", "")
    before = _START.format(no=start) if start else ""
    behind = f"(?!{end})" if end else ""
    pattern = re.compile(f"{before}(?:{entry['pattern']}){behind}", re.ASCII)
    holds = CHECKS[entry["check"]] if "check" in entry else bool
    head = re.compile(begins, re.ASCII) if begins else None
    return RedactionRule(
        name=entry["name"], prefilter=prefilter, may=_occurs(prefilter),
        find=_finder(pattern, holds, head),
    )  # fmt: skip


def _finder(
    pattern: re.Pattern[str], holds: Callable[[str], bool], head: re.Pattern[str] | None = None
) -> Finder:
    part = "secret" if "secret" in pattern.groupindex else 0
    matches = pattern.finditer if head is None else _from_heads(head, pattern)

    def find(text: str) -> Iterator[Span]:
        for match in matches(text):
            start, end = match.span(part)
            while text[start:end].endswith("."):
                end -= 1
            if start < end and holds(text[start:end]):
                yield start, end

    return find


def _from_heads(
    head: re.Pattern[str], pattern: re.Pattern[str]
) -> Callable[[str], Iterator[re.Match[str]]]:
    """Matches of a pattern where its beginning is: Python's engine runs to that in a tenth."""

    def matches(text: str) -> Iterator[re.Match[str]]:
        at = 0
        while (begun := head.search(text, at)) is not None:
            match = pattern.match(text, begun.start())
            at = begun.start() + 1
            if match is not None:
                at = max(at, match.end())
                yield match

    return matches


_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
"""Scripts that write no blanks between words."""


def names_rule(names: Iterable[str]) -> RedactionRule:
    """Names as whole words in any case, the longest first, also as JSON writes them in ASCII."""
    spelt: dict[str, None] = {}
    for name in names:
        words = name.split()
        if len("".join(words)) < 2:
            raise ConfigError(f"redaction.names: got {name!r}, needs two letters or more")
        for form in ("NFC", "NFD"):
            plain = unicodedata.normalize(form, " ".join(words))
            spelt |= {plain: None, json.dumps(plain)[1:-1]: None}
    ordered = sorted(spelt, key=lambda name: (-len(name), name))
    prefilter = "(?i:" + "|".join(_spelt(name, _loose) for name in ordered) + ")"
    pattern = re.compile("|".join(_whole_word(name) for name in ordered), re.IGNORECASE)
    return RedactionRule(
        name=NAME, prefilter=prefilter, may=_occurs(prefilter), find=_finder(pattern, bool)
    )


def _spelt(name: str, letter: Callable[[str], str]) -> str:
    return "[ \\t\\r\\n]+".join("".join(map(letter, word)) for word in name.split(" "))


def _loose(char: str) -> str:
    """A letter for the prefilter: Python folds two Turkish letters that the engine does not."""
    return "[iI\u0130\u0131]" if char in "iI\u0130\u0131" else re.escape(char)


def _whole_word(name: str) -> str:
    """The name's pattern, with word ends where its script has them."""
    before = _START.format(no=r"\w") if _is_word(name[0]) else ""
    behind = r"(?!\w)" if _is_word(name[-1]) else ""
    return f"{before}{_spelt(name, re.escape)}{behind}"


def _is_word(char: str) -> bool:
    return (char.isalnum() or char == "_") and not _UNSPACED.match(char)
