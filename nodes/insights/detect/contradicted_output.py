"""The answer says the opposite of what the last tool said.

Meaning: the tool's last answer says that something is not so (`"refunded": false`), or names a
state or a number, and the final answer states the opposite. Evidence: field and value, and the
sentence. Known limits: only flat JSON answers are read; words of state are compared in English;
of numbers only a count that is the answer's single figure and stands nowhere else.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from contracts.findings import Symptom
from contracts.json_types import Json
from nodes.insights.detect import claims
from nodes.insights.detect.final import Final, final_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import ToolCall, View

KIND = "contradicted_output"
_STATES = ("status", "state", "result", "outcome", "decision")
_COUNTS = ("total", "count", "total_count", "totalCount", "num_results", "n", "matches")
_PAIRS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("pending", "processing", "in_progress", "queued", "waiting", "open", "draft", "scheduled",
      "not_started", "on_hold"),
     ("completed", "shipped", "delivered", "approved", "paid", "refunded", "resolved",
      "finished", "done", "sent", "cancelled", "canceled", "closed")),
    (("declined", "rejected", "denied", "refused", "failed", "failure", "not_done", "not_sent",
      "unsuccessful", "bounced"),
     ("approved", "accepted", "confirmed", "succeeded", "successful", "successfully",
      "completed", "done", "paid", "sent", "delivered", "refunded", "booked")),
    (("cancelled", "canceled", "closed", "inactive", "disabled", "expired", "suspended"),
     ("active", "enabled", "confirmed")),
    (("cancelled", "canceled"), ("shipped", "delivered", "approved", "scheduled")),
    (("unavailable", "out_of_stock", "sold_out"), ("available",)),
    (("shipped", "delivered", "completed", "paid", "approved"),
     ("rejected", "declined", "denied")),
)  # fmt: skip
_OPPOSITE: Mapping[str, frozenset[str]] = {
    word: frozenset(one for words, opposite in _PAIRS if word in words for one in opposite)
    for words, _ in _PAIRS
    for word in words
}
"""Words that no thing can be at once, by word: a thing may stand in several pairs."""
_INTEGER = re.compile(r"(?<![\w.,:/#-])\d{1,7}(?![\w:/%-]|[.,]\d)")
_PARTICIPLE = re.compile(
    r"(?:\A|_)(\w*(?:ed|sent|paid|found|done|exists?|available|valid|active|open|in_stock))\Z"
)
_YES = re.compile(r"\A\W{0,4}(?:yes|ja|oui|s\u00ed)\b", re.IGNORECASE)
_NO = re.compile(r"\A\W{0,4}(?:no|nein|non)\b(?=\W)", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not|n't|un\w+|without|no)\b", re.IGNORECASE)


def contradicted_output(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """At most one hit: the final answer against the last tool that worked."""
    if any(s.kind == "unsupported_claim" for s in symptoms):
        return
    call = _last(view)
    final = final_of(view)
    if call is None or final is None or not isinstance(call.answer.value, dict):
        return
    found = (
        _denied(call.answer.value, final)
        or _state(view, call.answer.value, final)
        or _count(view, call.answer.value, final)
    )
    if found is None:
        return
    key, value, sentence = found
    yield Hit(
        kind=KIND,
        span=final.span,
        message=f'{call.tool} said {key}: {value}; the answer says "{sentence[:140]}"',
        field="output",
        place=call.tool,
        code=key,
        template="the answer says the opposite of the tool's last answer",
        facts={"tool": call.tool, "field": key, "value": value, "claim": sentence,
               "call": call.span.id},
    )  # fmt: skip


def _last(view: View) -> ToolCall | None:
    ends = view.contracts.final_tools
    worked = [c for c in view.calls.values() if c.span.output is not None and c.tool not in ends]
    return worked[-1] if worked and worked[-1].span.id not in view.failed else None


def _denied(value: Mapping[str, Json], final: Final) -> tuple[str, str, str] | None:
    """A field that says no, such as `refunded: false`, against a sentence that says it was done."""
    flags = {key: item for key, item in value.items() if isinstance(item, bool)}
    for key, item in flags.items():
        match = _PARTICIPLE.search(key.lower())
        if item or match is None or claims.admits(final.text):
            continue
        word = match[1].rpartition("_")[2]
        for sentence in claims.sentences(final.text):
            if claims.states(sentence, word):
                return key, "false", sentence
    if len(flags) == 1:
        ((key, item),) = flags.items()
        first = next(claims.sentences(final.text), "")
        wrong = _YES.match(first) if not item else _NO.match(first)
        if wrong and not _NEGATED.search(key.replace("_", " ")) and _short_yes_no(first):
            return key, str(item).lower(), first
    return None


def _short_yes_no(first: str) -> bool:
    return len(first) <= 200 and "?" not in first


def _state(view: View, value: Mapping[str, Json], final: Final) -> tuple[str, str, str] | None:
    for key in _STATES:
        state = value.get(key)
        if not isinstance(state, str):
            continue
        opposite = _OPPOSITE.get(state.lower().replace(" ", "_").replace("-", "_"))
        plain = state.lower().replace("_", " ")
        if opposite is None or plain in final.text.lower().replace("_", " "):
            continue
        others = " ".join(c.answer.text.lower() for c in view.calls.values())
        for word in sorted(opposite):
            if word in others or claims.admits(final.text):
                continue
            for sentence in claims.sentences(final.text):
                if claims.states(sentence, word):
                    return key, state, sentence
    return None


def _stands_in(text: str, figure: str) -> bool:
    """Whether the figure stands there as a whole, not as a part of a longer one."""
    at = text.find(figure)
    while at >= 0:
        end = at + len(figure)
        if not (text[at - 1 : at].isdecimal() or text[end : end + 1].isdecimal()):
            return True
        at = text.find(figure, at + 1)
    return False


def _count(view: View, value: Mapping[str, Json], final: Final) -> tuple[str, str, str] | None:
    counted = [(k, value[k]) for k in _COUNTS if type(value.get(k)) is int]
    figures = _INTEGER.findall(final.text[: claims.MAX_ANSWER])
    if len(counted) != 1 or len(set(figures)) != 1 or str(counted[0][1]) == figures[0]:
        return None
    told = "\n".join(
        [view.trace.root.input.text if view.trace.root.input else ""]
        + [c.answer.text for c in view.calls.values()]
        + [message.content for message in final.span.messages_in]
    )
    if _stands_in(told, figures[0]):
        return None
    sentence = next((s for s in claims.sentences(final.text) if figures[0] in s), final.text[:140])
    return counted[0][0], str(counted[0][1]), sentence
