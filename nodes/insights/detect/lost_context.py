"""A rule that the model was given is gone from its messages after the conversation was shortened.

Meaning: an earlier call of the same agent was told a rule ("never ...", "always ..."), the history
was then condensed, and no message of the next call says it any more; the agent goes on without it.
Evidence: the rule, the fall in prompt tokens (or the messages that are gone), and the step that
condensed. The failure begins at that step, or at the first call without the rule.
Known limits: rules are known by English, German, French or Spanish words of command; a rule whose
words all stand somewhere in the later messages counts as kept, even where its sense is lost.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from contracts.findings import Symptom
from contracts.json_types import Json
from contracts.traces import Span
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.system_text import INSTRUCTING, instructions, lines
from nodes.insights.detect.view import View

KIND = "lost_context"
FELL = 0.5  # tokens or characters of a call, against the call before it
MIN_TOKENS = 500
KEPT = 0.6  # share of a rule's words that still stand somewhere: the rule is there
MAX_RULES = 60
MAX_FALLS = 20  # of one trace
MAX_RULE = 400
_RULE = re.compile(
    r"\b(?:never|always|must(?: not)?|do(?: not|n't)|only (?:ever|use|answer|write|after|with)"
    r"|under no circumstances|at most|no more than|not allowed|forbidden|make sure|required to"
    r"|niemals|immer|nie|d\u00fcrfen nicht|muss|jamais|toujours|ne pas|nunca|siempre|no debes)\b",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"\b(?:summar(?:y|ise|ize|ised|ized|isation|ization)\w*|compact\w*|condens\w*"
    r"|conversation so far"
    r"|talk so far|previous conversation|compress\w*|trim(?:med)?\w*|truncat\w*"
    r"|zusammenfass\w*|r\u00e9sum\u00e9|resumen)(?:\b|_)",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"compact|condens|compress|(?:summar|trim|prune|shorten|truncat)\w*[_ -]*(?:the[_ -])?"
    r"(?:conversation|history|messages|context|memory|chat|dialog)"
    r"|(?:conversation|history|messages?|context|memory|chat)[_ -]*"
    r"(?:summar|trim|prun|shorten|truncat)"
)
_ASKED = re.compile(
    r"\b(?:summari[sz]e|condense|compact|shorten|fasse)\b[^.\n]{0,80}"
    r"\b(?:conversation|chat|history|messages|talk|dialog(?:ue)?|discussion|so far)\b",
    re.IGNORECASE,
)
_ASKED_HINTS = ("summari", "condense", "compact", "shorten", "fasse")
"""One of them is in whatever `_ASKED` matches."""
_WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fall:
    """Two calls of one agent between which most of the history went."""

    before: Span
    after: Span
    step: Span | None
    """What condensed it, where that left a span of its own."""


def lost_context(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """At most one hit for each shortening that lost a rule."""
    del symptoms
    looked, steps = 0, _shortenings(view)
    for run in view.runs:
        before: Span | None = None
        for turn in run.turns:
            call = turn.call
            if call.status == "error" or not call.messages_in or _condenses(call):
                continue
            fall = _fall(steps, before, call) if before is not None else None
            before = call
            if fall is None or looked >= MAX_FALLS:
                continue
            looked += 1
            lost = _lost_rule(fall)
            if lost is not None:
                yield _hit(fall, *lost)


def _shortenings(view: View) -> list[Span]:
    """Steps that shorten a conversation, by their name or by what they are asked, by start."""
    found = [
        span
        for span in view.trace.spans
        if (_condenses(span) if span.kind == "llm" else _STEP.search(span.name[:80].lower()))
    ]
    return sorted(found, key=lambda s: s.started_at)


def _condenses(call: Span) -> bool:
    """Whether the model call is asked for a summary of the conversation."""
    ends = call.messages_in[:1] + call.messages_in[-1:]
    return any(_asks_for_summary(message.content[:300]) for message in ends)


@lru_cache(maxsize=4096)
def _asks_for_summary(head: str) -> bool:
    """Remembered, since instructions are sent with every call."""
    low = head.lower()
    return any(word in low for word in _ASKED_HINTS) and _ASKED.search(head) is not None


def _fall(steps: Sequence[Span], before: Span, after: Span) -> _Fall | None:
    if _goes_on(before, after):
        return None
    at = bisect_left(steps, before.started_at, key=lambda s: s.started_at)
    step = steps[at] if at < len(steps) and steps[at].started_at <= after.started_at else None
    certain = step is not None
    if not _fell(before, after, certain=certain):
        return None
    if not (certain or _tells_of_summary(after)) or not _same_agent(before, after, certain=certain):
        return None
    return _Fall(before=before, after=after, step=step)


def _tells_of_summary(call: Span) -> bool:
    return any(_SUMMARY.search(message.content[:300]) for message in call.messages_in)


def _fell(before: Span, after: Span, *, certain: bool) -> bool:
    """Whether most of the history went; without recorded tokens a step that says so will do."""
    if before.input_tokens is not None and after.input_tokens is not None:
        large = before.input_tokens >= MIN_TOKENS
        return large and after.input_tokens <= before.input_tokens * FELL
    return certain or len(after.messages_in) < len(before.messages_in)


def _same_agent(before: Span, after: Span, *, certain: bool) -> bool:
    """Whether the later instructions are those of the earlier call, or a part of them."""
    earlier = {one.text for one in lines(instructions(before))}
    later = [one.text for one in lines(instructions(after))]
    if not later:
        return certain or not earlier
    return 2 * sum(text in earlier for text in later) >= len(later)


def _goes_on(before: Span, after: Span) -> bool:
    """Whether the later call holds the earlier one's messages: nothing was taken away."""
    kept = before.messages_in
    return len(after.messages_in) >= len(kept) and after.messages_in[: len(kept)] == kept


def _lost_rule(fall: _Fall) -> tuple[str, int, str] | None:
    """(rule, its line, role) of the first rule that no message of the later call still says."""
    later = {word for m in fall.after.messages_in for word in _WORD.findall(m.content.lower())}
    texts = {m.content for m in fall.after.messages_in}
    seen = 0
    for message in fall.before.messages_in:
        if message.role not in INSTRUCTING and message.role not in ("user", "human"):
            continue
        if message.content in texts or not _RULE.search(message.content):
            continue
        for asked in lines(message.content[:40_000]):
            if len(asked.text) > MAX_RULE or not _RULE.search(asked.text):
                continue
            seen += 1
            words = set(_WORD.findall(asked.text.lower()))
            if len(words) >= 3 and len(words & later) < KEPT * len(words):
                return asked.text, asked.line, message.role
            if seen >= MAX_RULES:
                return None
    return None


def _hit(fall: _Fall, rule: str, line: int, role: str) -> Hit:
    where = fall.step or fall.after
    facts: dict[str, Json] = {"rule": rule, "rule_line": line, "role": role}
    sizes = ""
    if fall.before.input_tokens is not None and fall.after.input_tokens is not None:
        facts |= {
            "tokens_before": fall.before.input_tokens,
            "tokens_after": fall.after.input_tokens,
        }
        sizes = f" (prompt tokens {fall.before.input_tokens} to {fall.after.input_tokens})"
    if fall.step is not None:
        facts["step"] = fall.step.name[:80]
    return Hit(
        kind=KIND,
        span=where,
        message=f'"{rule[:120]}" is absent from the messages after the conversation was'
        f" shortened{sizes}",
        field=f"input of {fall.after.id}",
        template="a rule is absent after the conversation was shortened",
        shown_at=fall.after.id if where is not fall.after else None,
        facts=facts,
    )
