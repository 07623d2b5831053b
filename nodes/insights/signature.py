"""Names of failures: `kind:place[:code]`, message templates, and what a signature covers."""

import base64
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence

from configs.redaction import redact_head
from contracts.findings import Signature
from nodes.insights.likeness import Words, conflict, places_apart, share, words_of

MAX_PART = 64
MAX_TEMPLATE = 300
SIMILAR = 0.5  # share of common words from which two templates say the same thing
MAX_LEADERS = 64  # findings of one key
MOST_OTHERS = 2  # messages of one frame that say other things; of more, the words are values
AGAIN = 2  # units, from which a message is no single case
OFTEN = 5  # units of each, from which one other word is no value but what tells two messages apart

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_STEP_NUMBER = re.compile(r"[\s#]+\d+\Z")
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_CODE = re.compile(
    r"(?i)((?:status|http|code)[\w-]*[\"']?\s*(?:code|status|/1\.1|/2)?\s*[:=]?\s*[\"']?)([1-5]\d\d)\b"
    r"|((?:exit|errno)[\w-]*[\"']?\s*(?:code|status)?\s*[:=]?\s*[\"']?)(\d{1,3})\b"
    r"|()\b([45]\d\d)(?=:? (?:bad|unauthorized|payment|forbidden|not|method|request|conflict|gone"
    r"|unprocessable|too|internal|bad|service|gateway|client|server)\b)"
)
"""Numbers that tell failures apart: HTTP statuses, exit codes. They stay, as `<404>`."""
_OPENED = re.compile(r"<(?=\d)")
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Where a parser stopped says nothing about why: the same cut breaks in a string or behind it.
    (re.compile(r"[^:()\n]{1,80}: line \d+ column \d+ \(char \d+\)"), "<parse>"),
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,10}://[^\s'\"<>)\]]+"), "<url>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"),
     "<time>"),
    (re.compile(r"(?<!\w)'[^'\n]{0,400}'(?!\w)|\"[^\"\n]{0,400}\"|`[^`\n]{0,400}`"), "<value>"),
    (re.compile(r"(?<![\w/])(?:~|\.{0,2})?(?:/[\w.@+-]+){2,}/?|\b[A-Za-z]:\\[^\s'\"]+"), "<path>"),
    (re.compile(r"\b[\w.-]+/[\w./-]+\.\w{1,5}(?::\d+)?"), "<path>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4,12}){1,4}\b|\b[0-9a-f]{8,}\b"), "<id>"),
    (re.compile(r"\b(?:[A-Za-z]{1,16}[-_#])?\d+(?:[-_.:][\w-]*\d[\w-]*)+"), "<id>"),
    (re.compile(r"\b[A-Za-z]{1,8}[-_]?\d{2,}\b"), "<id>"),
    (re.compile(r"(?<![<\d])\d+(?:[.,]\d+)*"), "<n>"),
)  # fmt: skip


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
    text = _CODE.sub(_kept_code, _OPENED.sub("< ", clean(message, 2000)))
    for pattern, mark in _RULES:
        text = pattern.sub(mark, text)
    return " ".join(text.split())[:MAX_TEMPLATE]


def _kept_code(match: re.Match[str]) -> str:
    before, code = next((b, c) for b, c in zip(*[iter(match.groups())] * 2, strict=True) if c)
    return f"{before}<{code}>"


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


def split_templates(
    counts: Mapping[str, int],
    remembered: Mapping[str, str] | None = None,
    own: Collection[str] = (),
) -> dict[str, str]:
    """Which mark each template of one key gets: "" for the main one and those close to it.

    The most common template leads; each next joins the first leader that shares at least half of
    its words and nothing that tells them apart (`likeness.conflict`), or leads itself. Only counts
    and texts decide, not the order of input. What fits none of `MAX_LEADERS` goes to the main one.

    Args:
        counts: units by template; an empty template goes to the main one.
        remembered: mark by template of leaders that earlier analyses named; they lead before all
            others, so that a finding keeps its signature however the counts change.
        own: hashes of templates that a person made findings of their own.
    """
    leading = _Leading()
    for template, mark in sorted((remembered or {}).items(), key=lambda kv: (kv[1], kv[0])):
        leading.add(template, mark)
    marks: dict[str, str] = {}
    followers: dict[str, list[str]] = {}
    order = sorted((t for t in counts if t), key=lambda t: (-counts[t], t))
    for template in order:
        if template_hash(template) in own:
            marks[template] = f"~{template_hash(template)}"
            continue
        marks[template] = leading.mark(template)
        followers.setdefault(marks[template], []).append(template)
    for mark, members in followers.items():
        for template in _other_things(members, leading.words[mark], counts):
            marks[template] = leading.lead(template)
    return {**marks, **({"": ""} if "" in counts else {})}


def _other_things(members: Sequence[str], leader: Words, counts: Mapping[str, int]) -> list[str]:
    """Messages of a leader's frame that say something else, where they come again and again.

    Three or more of them are taken as one message with values in it.
    """
    apart = {t: places_apart(words_of(t), leader) for t in members[:MAX_LEADERS]}
    others = [t for t, places in apart.items() if places]
    if len(others) > MOST_OTHERS:
        return []
    clear = [t for t in others if apart[t] > 1]
    if any(counts[t] < AGAIN for t in clear):
        clear = []
    return clear + [t for t in others if apart[t] == 1 and counts[t] >= OFTEN]


class _Leading:
    """The messages that lead the findings of one key."""

    def __init__(self) -> None:
        self.words: dict[str, Words] = {}
        """Of the first leader of each mark."""
        self._leaders: list[tuple[str, Words, str]] = []

    def add(self, template: str, mark: str) -> None:
        """A message that leads under this mark."""
        words = words_of(template)
        self._leaders.append((template, words, mark))
        self.words.setdefault(mark, words)

    def lead(self, template: str) -> str:
        """Make the message lead a finding of its own: its mark."""
        mark = f"~{template_hash(template)}" if "" in self.words else ""
        self.add(template, mark)
        return mark

    def mark(self, template: str) -> str:
        """The mark of the first leader that says the same thing; the message's own where none."""
        words = words_of(template)
        for other, its, mark in self._leaders:
            if template == other or (
                share(words.all, its.all) >= SIMILAR and conflict(words, its) is None
            ):
                return mark
        if len(self._leaders) >= MAX_LEADERS and "" in self.words:
            return ""
        return self.lead(template)
