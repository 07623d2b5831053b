"""The last words of a run, for the one who asked: which step says them, and what they are."""

from dataclasses import dataclass

from contracts.traces import Span
from nodes.insights.detect.empty_answer import final_text
from nodes.insights.detect.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """The answer of a run and the step that gave it: a model call where one said it."""

    span: Span
    text: str


def final_of(view: View) -> Final | None:
    """The answer; None where the run has none, failed, is paused or was never closed."""
    calls = [span for span in view.trace.spans if span.kind == "llm"]
    last = calls[-1] if calls else None
    if _without_end(view, last):
        return None
    return _by_final_tool(view, last) or _by_model(view, last) or _by_root(view)


def _without_end(view: View, last: Span | None) -> bool:
    root = view.trace.root
    if (root.ended_at is None and not root.virtual) or root.status == "error":
        return True
    paused = any(span.status == "interrupted" for span in view.trace.spans[-2:])
    return paused or (last is not None and last.status == "error")


def _by_model(view: View, last: Span | None) -> Final | None:
    if last is None or not last.messages_out or _tools_after(view, last):
        return None
    said = last.messages_out[-1]
    spoke = said.content.strip() and not said.tool_calls
    return Final(span=last, text=said.content) if spoke else None


def _by_root(view: View) -> Final | None:
    root = view.trace.root
    if root.output is None or root.output.truncated:
        return None
    text = final_text(root.output.value, root.output.text)
    return Final(span=root, text=text) if text and text.strip() else None


def _by_final_tool(view: View, last: Span | None) -> Final | None:
    """Where a documented tool ends the run, its argument is the answer."""
    ends = [call for call in view.calls.values() if call.tool in view.contracts.final_tools]
    if not ends:
        return None
    values = [v for v in (ends[-1].arguments or {}).values() if isinstance(v, str)]
    text = values[0] if len(values) == 1 else ends[-1].answer.text
    span = last if last is not None and last.started_at <= ends[-1].span.started_at else None
    return Final(span=span or ends[-1].span, text=text) if text.strip() else None


def _tools_after(view: View, last: Span) -> bool:
    return any(call.span.started_at > last.started_at for call in view.calls.values())
