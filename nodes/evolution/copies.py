"""Text that an edit takes from elsewhere: from a trace, or from an edit that was rejected. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from connectors.review.clean import is_hidden
from nodes.evolution.change import TextChange
from nodes.evolution.encoded import decoded_code
from nodes.evolution.items import without_comments
from nodes.evolution.judged import Judged, judged
from nodes.evolution.statements import (
    Statement,
    shingles,
    similarity,
    statement,
    statements,
)

TRACE_RUN = 40
"""Characters in a row that a draft may share with a trace: names and codes are shorter."""
TRACE_LETTERS = 34
"""The same run without blanks, marks and punctuation; forty characters of prose have as many."""
NEAR_COPY = 0.8
"""Share of words, or of statements, from which two edits count as one."""
LIKE_REJECTED = 0.5
"""Share from which an edit resembles a rejected one, which is high risk."""
MAX_STATEMENTS = 400
"""Statements of an edit that are compared one by one; longer edits break the rule of size."""
_NAMED = re.compile(r"⟨U\+[0-9A-F]{4,6}⟩")
_CODE = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedEdit:
    """An edit that a person turned down: `text` is what `added_text` gave for it."""

    proposal: str
    text: str
    reason: str | None = None


def trace_problems(changes: Sequence[TextChange], trace_texts: Sequence[str], known: str) -> Judged:
    """Texts copied from traces; what the harness holds already is not copied.

    Case, blanks, marks, punctuation, hidden characters and compatible forms make no difference;
    base64 of a trace, or in one, is read.
    """
    if not trace_texts:
        return Judged()
    outside = [form for text in trace_texts for form in _readings(text)]
    bases = (_folded(known), _letters(known))
    problems: list[str] = []
    for change in changes:
        for text in _readings(change.added):
            if any(
                _shares(fold(text), [fold(other) for other in outside], base, size)
                for fold, base, size in (
                    (_folded, bases[0], TRACE_RUN),
                    (_letters, bases[1], TRACE_LETTERS),
                )
            ):
                problems.append(
                    f"{change.path}: {TRACE_RUN} characters or more are copied from a trace; say "
                    "it in other words"
                )
                break
    return judged(problems)


def trace_words(trace_texts: Sequence[str]) -> str:
    """What was compared, for a card."""
    if not trace_texts:
        return "no trace text to compare with"
    return f"no run of {TRACE_RUN} characters from {len(trace_texts)} trace texts"


def _readings(text: str) -> Iterator[str]:
    """The text, and what the codes in it say."""
    yield text
    for found in _CODE.finditer(text):
        said = decoded_code(found[0])
        if said is not None:
            yield said


def _shares(text: str, others: Iterable[str], base: str, size: int) -> bool:
    grams = {other[i : i + size] for other in others for i in range(len(other) - size + 1)}
    if not grams:
        return False
    shared = {g for i in range(len(text) - size + 1) if (g := text[i : i + size]) in grams}
    return any(gram not in base for gram in shared)


def _folded(text: str) -> str:
    return " ".join(_bare(text).split())


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, _bare(text)))


def _bare(text: str) -> str:
    """Compatible forms folded and hidden characters left out, also where `clean` has named them."""
    if "⟨" in text:
        text = _NAMED.sub("", text)
    if text.isascii():
        return text.casefold()
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if c in "\t\n" or not is_hidden(c))


def near_copies(
    changes: Sequence[TextChange], rejected: Sequence[RejectedEdit], *, person: bool
) -> Judged:
    """Why the edit may not be offered again; a person may, and is told."""
    near = nearest(changes, rejected)
    if near is None or near[1] < NEAR_COPY:
        return Judged()
    edit, share = near
    why = f" ({edit.reason})" if edit.reason else ""
    words = [f"near copy of {edit.proposal}, which a person rejected{why}: {share:.0%} the same"]
    return judged(() if person else words, words if person else ())


def nearest(
    changes: Sequence[TextChange], rejected: Sequence[RejectedEdit]
) -> tuple[RejectedEdit, float] | None:
    """The rejected edit most like this one, with the share that they have in common.

    One playbook gives alike texts for different tools, so edits about other names do not count.
    """
    if not rejected:
        return None
    text = without_comments("\n".join(change.added for change in changes))
    added, names, said = shingles(text), _names(text), _statements(text)
    scored = []
    for edit in rejected:
        other = without_comments(edit.text)
        if names == (there := _names(other)) or similarity(names, there) >= 0.5:
            alike = max(
                similarity(added, shingles(other)), shared_statements(said, _statements(other))
            )
            scored.append((edit, alike))
    return max(scored, key=lambda pair: pair[1]) if scored else None


def shared_statements(one: Sequence[Statement], other: Sequence[Statement]) -> float:
    """Share of the statements of both that have a twin on the other side, whatever their order."""
    if not one or not other:
        return 0.0
    left = list(other)
    twins = 0
    for said in one:
        twin = next((t for t in left if _alike(said, t)), None)
        if twin is not None:
            left.remove(twin)
            twins += 1
    return 2 * twins / (len(one) + len(other))


def _alike(one: Statement, other: Statement) -> bool:
    if one.negative != other.negative or one.names != other.names or not one.words:
        return False
    return similarity(one.words, other.words) >= 0.7


def _statements(text: str) -> list[Statement]:
    return [s for s in statements(text) if s.words][:MAX_STATEMENTS]


def _names(text: str) -> frozenset[str]:
    """Identifiers of a text; bare numbers are alike everywhere and tell no tools apart."""
    return frozenset(name for name in statement(text).names if not name.isdigit())


def rejected_words(rejected: Sequence[RejectedEdit]) -> str:
    """What was compared, for a card."""
    if not rejected:
        return "nothing was rejected before"
    return f"unlike the {len(rejected)} rejected before"
