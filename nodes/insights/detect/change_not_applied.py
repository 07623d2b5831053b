"""A tool that changes something answered as if it had worked, and the value is still the old one.

Meaning: the call asked for a new value of a field, the answer carries the same field with the value
that an earlier answer had already shown for it, and nothing marks the call as failed.
Evidence: field, asked value and returned value, at the tool's span.

Only words, numbers and truth values are compared, with case, blanks and underscores left out, so
that another way of writing the same value is no difference; the earlier answer must be about the
same thing (equal in a field that ends in `id`, where both have one).

A hint, since a trace cannot tell a lost change from a tool that answers with the state before it.

Known limits: fields that the answer gives another name or nests deeper are not seen.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from contracts.findings import Symptom
from contracts.json_types import Json
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View
from nodes.insights.detect.writes import changing_verb

KIND = "change_not_applied"
MAX_KEPT = 256  # answers with fields that are kept for comparison
_PLAIN = re.compile(r"[\s_-]+")
_STATES = frozenset({"status", "state", "result", "message", "code", "ok", "success", "type", "id"})


def changes_not_applied(view: View, _found: Sequence[Symptom]) -> Iterator[Hit]:
    """Calls whose answer still has the old value."""
    known: list[Mapping[str, Json]] = []
    for call in view.calls.values():
        answer = call.answer.value
        if not isinstance(answer, dict):
            continue
        working = call.span.id not in view.failed and not call.answer.marked
        if working and call.arguments is not None and changing_verb(call.tool) is not None:
            for key, asked in call.arguments.items():
                if _kept_old(key, asked, answer, known):
                    yield Hit(
                        kind=KIND,
                        span=call.span,
                        message=f"{key}: {asked!s:.60} was asked for, "
                        f"the answer still says {answer[key]!s:.60}",
                        field="output",
                        code=_PLAIN.sub("_", key.lower())[:40],
                        template=f"asked for another {key[:40]}, the answer has the old one",
                    )
        known.append(answer)
        del known[:-MAX_KEPT]


def _kept_old(
    key: str, asked: Json, answer: Mapping[str, Json], known: Sequence[Mapping[str, Json]]
) -> bool:
    if key.lower() in _STATES or key.lower().endswith("id") or key not in answer:
        return False
    new, now = _plain(asked), _plain(answer[key])
    if new is None or now is None or new == now:
        return False
    before = next((old for old in reversed(known) if key in old and _alike(old, answer)), None)
    return before is not None and _plain(before[key]) == now


def _alike(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    """Whether two answers are about the same thing, by the ids that both carry."""
    ids = [key for key in one if key.lower().endswith("id") and key in other]
    return bool(ids) and all(one[key] == other[key] for key in ids)


def _plain(value: Json) -> str | None:
    """The value in one way of writing; None for what is not compared."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, str) and 0 < len(value) <= 200:
        return _PLAIN.sub("", value).lower()
    return None
