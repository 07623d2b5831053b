"""Errors that only the next model call shows: the step that failed has no red span of its own.

The error stands in the last messages of a call's input. The culprit is the earlier call that asked
for the failed step; where the error became visible is the evidence.
"""

import re
from collections.abc import Iterator
from itertools import takewhile

from contracts.traces import Message, Span
from nodes.insights.detect import words
from nodes.insights.detect.faults import Fault, Scans, make_fault
from nodes.insights.detect.view import View

_TOOL_ROLES = frozenset({"tool", "tool-response", "function", "observation"})
_CALL_HEADER = re.compile(r"\A\s*(?:Call id:[^\n]{0,200}\n)?\s*")
_CODE_ERROR = re.compile(
    r"\A(?:Error:?\s*\n?)?(?:Error in (?:code )?pars|Code (?:parsing|execution) failed)",
    re.IGNORECASE,
)
_TOOL_NAMED = re.compile(r"\b(?:executing|calling|invoking) tool ['\"`]?([\w.-]{1,64})")


def observed_faults(view: View, scans: Scans) -> Iterator[Fault]:
    """One fault for each error that no failed span between two model calls explains."""
    calls = [span for span in view.trace.spans if span.kind == "llm"]
    for index, span in enumerate(calls):
        if len(span.messages_in) < 2:
            continue
        culprit = _asker(span, calls[:index])
        if culprit is None or _explained(view, culprit, span):
            continue
        for message in _news(span.messages_in):
            text = _CALL_HEADER.sub("", message.content, count=1)
            if not _is_error(message, text, scans):
                continue
            tool = _tool_of(message, span, text)
            if _has_own_span(view, culprit, span, tool, text):
                continue
            yield make_fault(
                view,
                culprit,
                text,
                f"input of {span.id}",
                place=tool,
                on_tool=tool is not None,
                explicit=False,
            )


def _news(messages: tuple[Message, ...]) -> list[Message]:
    """What came after the model's own last word."""
    return list(
        takewhile(lambda m: m.role not in ("assistant", "tool-call", "ai"), reversed(messages))
    )


def _is_error(message: Message, text: str, scans: Scans) -> bool:
    if _CODE_ERROR.match(text):
        return True
    if message.role not in _TOOL_ROLES:
        return False  # a person may well begin with "Error:"
    return scans.says_error(f"{len(text)}:{hash(text)}", text) and text.lstrip()[:1] not in "{["


def _asker(span: Span, earlier: list[Span]) -> Span | None:
    """The call whose answer is the last one that this call's history holds."""
    last = next((m for m in reversed(span.messages_in) if m.role in ("assistant", "ai")), None)
    if last is None:
        return None
    ids = {call[0] for call in last.tool_calls if call[0]}
    for call in reversed(earlier):
        for said in call.messages_out:
            if ids & {one[0] for one in said.tool_calls if one[0]}:
                return call
            if said.content.strip() and said.content.strip() in last.content:
                return call
    return earlier[-1] if earlier else None


def _explained(view: View, culprit: Span, seen: Span) -> bool:
    """Whether some span that failed between the two calls tells of the error already."""
    parent = view.by_id.get(culprit.parent_id) if culprit.parent_id else None
    if parent is not None and parent.kind == "chain" and parent.id in view.failed:
        return True
    return any(
        span.id in view.failed and culprit.started_at <= span.started_at <= seen.started_at
        for span in view.trace.spans
    )


def _has_own_span(view: View, culprit: Span, seen: Span, tool: str | None, text: str) -> bool:
    """Whether the tool left a span in between: that span was judged by what it recorded."""
    return any(
        culprit.started_at <= call.span.started_at <= seen.started_at
        and (call.tool == tool or (tool is None and call.answer.text[:200] in text))
        for call in view.calls.values()
    )


def _tool_of(message: Message, span: Span, text: str) -> str | None:
    if message.tool_call_id is not None:
        for other in span.messages_in:
            for call_id, name, _ in other.tool_calls:
                if call_id == message.tool_call_id and name:
                    return name
    match = _TOOL_NAMED.search(text[:400])
    return match[1] if match and words.says_error(text) else None
