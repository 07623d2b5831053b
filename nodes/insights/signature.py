"""Names of failures: `kind:place[:code]`, message templates, and what a signature covers."""

import base64
import hashlib
import re
from collections.abc import Mapping

from configs.redaction import redact_head
from contracts.findings import Signature

MAX_PART = 64
MAX_TEMPLATE = 300
SIMILAR = 0.5  # share of common words from which two templates say the same thing

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_STEP_NUMBER = re.compile(r"[\s#]+\d+\Z")
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,10}://[^\s'\"<>)\]]+"), "<url>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"),
     "<time>"),
    (re.compile(r"(?<!\w)'[^'\n]{0,400}'(?!\w)|\"[^\"\n]{0,400}\"|`[^`\n]{0,400}`"), "<value>"),
    (re.compile(r"(?<![\w/])(?:~|\.{0,2})?(?:/[\w.@+-]+){2,}/?|\b[A-Za-z]:\\[^\s'\"]+"), "<path>"),
    (re.compile(r"\b[\w.-]+/[\w./-]+\.\w{1,5}(?::\d+)?"), "<path>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4,12}){1,4}\b|\b[0-9a-f]{8,}\b"), "<id>"),
    (re.compile(r"\b(?:[A-Za-z]{1,16}[-_#])?\d+(?:[-_.:][\w-]*\d[\w-]*)+"), "<id>"),
    (re.compile(r"\b[A-Za-z]{1,8}[-_]?\d{2,}\b"), "<id>"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "<n>"),
)  # fmt: skip
_WORD = re.compile(r"<\w+>|[A-Za-z_]\w*")


def place_part(text: str) -> str:
    """A name as part of a signature; a step's running number is no part of it."""
    name = _STEP_NUMBER.sub("", redact_head(text, 256).strip())
    return _UNSAFE.sub("_", name).strip("_")[:MAX_PART] or "unnamed"


def make_signature(kind: str, place: str, code: str | int | None) -> Signature:
    """`kind:place[:code]`, each part of [A-Za-z0-9_.-]."""
    parts = [kind, place_part(place)]
    if code is not None and code != "":
        parts.append(_UNSAFE.sub("_", str(code)).strip("_")[:MAX_PART] or "unnamed")
    return Signature(":".join(parts))


def clean(text: str, limit: int) -> str:
    """Trace text fit for a card: secrets masked, control and invisible characters out, cut."""
    return _HIDDEN.sub(" ", redact_head(text, limit * 8 + 400)).strip()[:limit]


def template_of(message: str) -> str:
    """The message without numbers, ids, times, paths and quoted values."""
    text = clean(message, 2000)
    for pattern, mark in _RULES:
        text = pattern.sub(mark, text)
    return " ".join(text.split())[:MAX_TEMPLATE]


def template_hash(template: str) -> str:
    """Six base32 characters, lower case."""
    digest = hashlib.sha256(template.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest)[:6].decode().lower()


def covers(signature: str, prefix: str) -> bool:
    """Whether `prefix` is the signature or ends where one of its parts ends."""
    if not signature.startswith(prefix):
        return False
    return len(signature) == len(prefix) or signature[len(prefix)] in ":~"


def matches(signature: str, prefix: str) -> bool:
    """Whether a symptom of this signature is one that `no_symptom: prefix` forbids.

    A detector gives the key without the template's mark, which only a comparison of many traces
    can tell. Where `prefix` carries a mark, every symptom of its key counts: strict, so that a
    failure is never taken for its absence.
    """
    key, marked, _ = prefix.partition("~")
    if marked and "~" not in signature:
        return signature == key
    return covers(signature, prefix)


def split_templates(counts: Mapping[str, int]) -> dict[str, str]:
    """Which mark each template of one key gets: "" for the main one and those close to it.

    The most common template leads; each next joins the first leader that shares at least half of
    its words, or leads itself. Only counts and texts decide, not the order of input.
    """
    leaders: list[tuple[frozenset[str], str]] = []
    marks: dict[str, str] = {}
    for template in sorted(counts, key=lambda t: (-counts[t], t)):
        words = frozenset(_WORD.findall(template.lower()))
        for other, mark in leaders:
            if _share(words, other) >= SIMILAR:
                marks[template] = mark
                break
        else:
            mark = f"~{template_hash(template)}" if leaders else ""
            leaders.append((words, mark))
            marks[template] = mark
    return marks


def _share(a: frozenset[str], b: frozenset[str]) -> float:
    together = a | b
    return len(a & b) / len(together) if together else 1.0
