"""Errors that only the next model call shows: the step that failed has no red span of its own.

The error stands in the last messages of a call's input. The culprit is the earlier call that asked
for the failed step; where the error became visible is the evidence.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile

from contracts.traces import Message, Span
from nodes.insights.detect import words
from nodes.insights.detect.faults import Fault, Scans, make_fault
from nodes.insights.detect.runs import Run
from nodes.insights.detect.view import View

LOOK_BACK = 16  # turns whose words are looked for in a history that quotes them otherwise
MOST_CALLS = 200  # tools between two model calls that are compared
_TOOL_ROLES = frozenset({"tool", "tool-response", "function", "observation"})
_CALL_HEADER = re.compile(r"\A\s*(?:Call id:[^\n]{0,200}\n)?\s*")
_CODE_ERROR = re.compile(
    r"\A(?:Error:?\s*\n?)?(?:Error in (?:code )?pars|Code (?:parsing|execution) failed)",
    re.IGNORECASE,
)
_TOOL_NAMED = re.compile(r"\b(?:executing|calling|invoking) tool ['\"`]?([\w.-]{1,64})")


def observed_faults(view: View, scans: Scans) -> Iterator[Fault]:
    """One fault for each error that no failed span between two model calls explains."""
    askers = _Askers(view)
    between = _Between(view)
    for run in view.runs:
        for index, turn in enumerate(run.turns):
            span = turn.call
            if len(span.messages_in) < 2 or not index:
                continue
            errors = [
                (message, text)
                for message in _news(span.messages_in)
                for text in (_CALL_HEADER.sub("", message.content, count=1),)
                if _is_error(message, text, scans)
            ]
            culprit = askers.of(run, index) if errors else None
            if culprit is None or between.failed(culprit, span):
                continue
            for message, text in errors:
                tool = _tool_of(message, span, text)
                if between.judged(culprit, span, tool, text):
                    continue
                fault = make_fault(
                    view,
                    culprit,
                    text,
                    f"input of {span.id}",
                    place=tool,
                    on_tool=tool is not None,
                    explicit=False,
                )
                yield replace(fault, shown_at=span.id)


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


class _Askers:
    """Which call's answer is the last one that a later call's history holds."""

    def __init__(self, view: View) -> None:
        self._by_id: dict[str, Span] = {}
        self._by_text: dict[str, Span] = {}
        for run in view.runs:
            for turn in run.turns:
                for said in turn.call.messages_out:
                    for call_id, _, _ in said.tool_calls:
                        if call_id:
                            self._by_id.setdefault(call_id, turn.call)
                    if said.content.strip():
                        self._by_text[said.content.strip()] = turn.call

    def of(self, run: Run, index: int) -> Span | None:
        """By the ids of the requests, else by the words, else the agent's call before."""
        span = run.turns[index].call
        last = next((m for m in reversed(span.messages_in) if m.role in ("assistant", "ai")), None)
        if last is None:
            return None
        for call_id, _, _ in last.tool_calls:
            found = self._by_id.get(call_id or "")
            if found is not None and found.started_at <= span.started_at:
                return found
        found = self._by_text.get(last.content.strip())
        if found is not None and found.started_at < span.started_at:
            return found
        for turn in reversed(run.turns[max(0, index - LOOK_BACK) : index]):
            if turn.said.strip() and turn.said.strip() in last.content:
                return turn.call
        return run.turns[index - 1].call


class _Between:
    """What happened between two model calls, looked up by time."""

    def __init__(self, view: View) -> None:
        self._view = view
        failed = [s for s in view.trace.spans if s.id in view.failed]
        self._failed = sorted(span.started_at for span in failed)
        calls = sorted(view.calls.values(), key=lambda call: call.span.started_at)
        self._calls = calls
        self._starts = [call.span.started_at for call in calls]

    def failed(self, culprit: Span, seen: Span) -> bool:
        """Whether some span that failed between the two calls tells of the error already."""
        parent = self._view.by_id.get(culprit.parent_id) if culprit.parent_id else None
        if parent is not None and parent.kind == "chain" and parent.id in self._view.failed:
            return True
        first = bisect_left(self._failed, culprit.started_at)
        return first < len(self._failed) and self._failed[first] <= seen.started_at

    def judged(self, culprit: Span, seen: Span, tool: str | None, text: str) -> bool:
        """Whether the tool left a span in between: that span was judged by what it recorded."""
        low = bisect_left(self._starts, culprit.started_at)
        high = bisect_right(self._starts, seen.started_at)
        return any(
            call.tool == tool or (tool is None and call.answer.text[:200] in text)
            for call in self._calls[max(low, high - MOST_CALLS) : high]
        )


def _tool_of(message: Message, span: Span, text: str) -> str | None:
    if message.tool_call_id is not None:
        for other in span.messages_in:
            for call_id, name, _ in other.tool_calls:
                if call_id == message.tool_call_id and name:
                    return name
    match = _TOOL_NAMED.search(text[:400])
    return match[1] if match and words.says_error(text) else None
