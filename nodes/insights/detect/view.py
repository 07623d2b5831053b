"""A trace as detectors look at it: children, tool calls with their arguments, places."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contracts.json_types import Json, canonical_json, sha256_hex
from contracts.traces import Span, SpanId, Trace
from nodes.insights.detect.answers import Answer, answer_of, own_arguments, parsed
from nodes.insights.detect.contracts import ALL, Contracts

if TYPE_CHECKING:
    from nodes.insights.detect.runs import Run

OPEN_CALLS = 200  # requested calls that still wait for their tool's span


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool: what it was given and what it answered."""

    span: Span
    tool: str
    arguments: Mapping[str, Json] | None
    """By name; None where neither the tool nor the model call recorded them so."""
    arguments_key: str
    """Equal for equal arguments."""
    answer: Answer
    answer_key: str
    """Equal for equal answers."""


@dataclass(frozen=True, slots=True)
class View:
    """A trace with what every detector would otherwise work out again."""

    trace: Trace
    children: Mapping[SpanId, list[Span]]
    by_id: Mapping[SpanId, Span]
    calls: Mapping[SpanId, ToolCall]
    """Calls of tools by span, in the order of the trace."""
    failed: set[SpanId] = field(default_factory=set)
    """Spans that carry a failure, own or passed on; filled by the error detectors."""
    contracts: Contracts = ALL
    """Conventions of frameworks that are recognised."""
    runs: "list[Run]" = field(default_factory=list)
    """The agents' runs turn by turn; filled before the detectors of silent failures look."""

    def under(self, span: Span) -> list[Span]:
        """All descendants, parents first."""
        out: list[Span] = []
        stack = list(self.children.get(span.id, ()))
        while stack:
            one = stack.pop()
            out.append(one)
            stack.extend(self.children.get(one.id, ()))
        return out

    def place(self, span: Span) -> str:
        """Where the step belongs: the tool, the node of the graph, or the nearest named step."""
        if span.kind == "tool":
            return span.tool_name or span.name
        node = span.attributes.get("node")
        if isinstance(node, str) and node:
            return node
        parent = self.by_id.get(span.parent_id) if span.parent_id else None
        if span.kind in ("llm", "embedding") and parent and not parent.virtual and parent.name:
            return parent.name
        return span.name or span.kind


def view_of(trace: Trace, contracts: Contracts = ALL) -> View:
    """Work out what the detectors need, once a trace."""
    children: dict[SpanId, list[Span]] = {}
    for span in trace.spans:
        if span.parent_id is not None:
            children.setdefault(span.parent_id, []).append(span)
    return View(
        trace=trace,
        children=children,
        by_id={span.id: span for span in trace.spans},
        calls=_calls(trace),
        contracts=contracts,
    )


def _calls(trace: Trace) -> dict[SpanId, ToolCall]:
    """Every tool call, its arguments from its own span or from the model call that asked for it."""
    asked: deque[tuple[str | None, str, str]] = deque(maxlen=OPEN_CALLS)
    calls: dict[SpanId, ToolCall] = {}
    for span in trace.spans:
        if span.kind == "llm":
            for message in reversed(span.messages_out):
                asked.extendleft(reversed(message.tool_calls))
        elif span.kind == "tool":
            answer = answer_of(span.output)
            arguments = own_arguments(span)
            text = span.input.text if span.input else ""
            requested = _take(asked, span.tool_name or span.name, answer.call_id, text)
            if arguments is None and requested is not None:
                value = parsed(requested)
                arguments = value if isinstance(value, dict) else None
            key = (
                canonical_json(arguments)
                if arguments is not None
                else text.encode("utf-8", "replace")
            )
            calls[span.id] = ToolCall(
                span=span,
                tool=span.tool_name or span.name,
                arguments=arguments,
                arguments_key=sha256_hex(key),
                answer=answer,
                answer_key=sha256_hex(answer.text.encode("utf-8", "replace")),
            )
    return calls


def _take(
    asked: deque[tuple[str | None, str, str]], tool: str, call_id: str | None, text: str
) -> str | None:
    """The arguments of the request that this call answers: by id, else by name and content."""
    named = [one for one in asked if one[1] == tool]
    best = next((one for one in named if call_id is not None and one[0] == call_id), None)
    if best is None:
        best = next((one for one in named if text and _single_value(one[2]) == text), None)
    if best is None:
        best = next(iter(named), None)
    if best is None:
        return None
    asked.remove(best)
    return best[2]


def _single_value(arguments: str) -> str | None:
    """The value of the only argument, as text: some recorders write down nothing else."""
    value = parsed(arguments)
    if not isinstance(value, dict) or len(value) != 1:
        return None
    return str(next(iter(value.values())))
