"""A run that ended without an answer for the one who asked."""

from collections.abc import Mapping

from contracts.json_types import Json
from contracts.traces import Span
from nodes.insights.detect.faults import Fault, make_fault
from nodes.insights.detect.view import View

KIND = "empty_answer"
_ANSWER_KEYS = ("output", "answer", "content", "text", "response", "result", "final_answer")


def final_text(value: Json, text: str) -> str | None:
    """The words of a recorded answer; None where its shape does not tell which they are."""
    if isinstance(value, dict):
        messages = value.get("messages")
        if isinstance(messages, list):
            return _last_words(messages)
        for key in _ANSWER_KEYS:
            if key in value:
                inner = value[key]
                return inner if isinstance(inner, str) else ("" if inner is None else str(inner))
        return "" if not value else None
    if isinstance(value, list):
        return "" if not value else None
    bare = text.strip()
    return "" if bare in ("null", "None", '""', "''") else bare


def _last_words(messages: list[Json]) -> str | None:
    for message in reversed(messages):
        fields = _fields(message)
        if fields is None:
            return None
        role = str(fields.get("role") or fields.get("type") or "").lower()
        if role in ("ai", "assistant", "aimessage"):
            if fields.get("tool_calls"):
                return None  # it asked for a tool and the record ends: paused, not silent
            return _content(fields.get("content"))
        return None
    return ""


def _fields(message: Json) -> Mapping[str, Json] | None:
    if not isinstance(message, dict):
        return None
    data = message.get("data") or message.get("kwargs")
    if isinstance(data, dict):
        return {"type": message.get("type"), **data} if "type" not in data else data
    return message


def _content(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(
            str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in value
        )
    return ""


def empty_answer(view: View) -> Fault | None:
    """The silent end, at the model call that should have spoken, else at the root."""
    trace = view.trace
    root = trace.root
    paused = any(span.status == "interrupted" for span in trace.spans)
    if paused or root.ended_at is None or root.id in view.failed:
        return None
    model_calls = [span for span in trace.spans if span.kind == "llm"]
    last = model_calls[-1] if model_calls else None
    if root.output is not None:
        words = final_text(root.output.value, root.output.text)
        if words is None or words.strip():
            return None
        culprit = last if last is not None and _silent(last) else root
        return make_fault(view, culprit, "the final answer is empty", "output")
    if last is not None and _silent(last) and not _after(view, last):
        return make_fault(view, last, "the last model call says nothing", "output")
    return None


def _silent(call: Span) -> bool:
    if not call.messages_out or call.status == "error":
        return False
    said = call.messages_out[-1]
    return not said.content.strip() and not said.tool_calls and call.output is not None


def _after(view: View, last: Span) -> bool:
    """Whether some tool was called after the last model call, as some agents end by one."""
    return any(call.span.started_at > last.started_at for call in view.calls.values())
