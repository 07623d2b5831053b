"""A request that is larger than the model's window, at the answer that filled it.

Meaning: a model call was refused since its messages hold more tokens than the model takes. Where
one answer of a tool makes up most of what came in since the model's last answer, the failure began
there and shows at the model call; else it stays at the call, whose history grew too long.
Evidence: the refusal, the size of the tool's answer, and the tokens of the call before.
Known limits: tokens of an answer are estimated as a quarter of its bytes.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from contracts.json_types import Json
from contracts.traces import Span
from nodes.insights.detect.faults import Fault
from nodes.insights.detect.view import ToolCall, View

KIND = "context_overflow"
BYTES_PER_TOKEN = 4
LARGE_BYTES = 8_000
SHARE = 0.5  # of what came in since the model's last answer
_WORDS = (
    "context length", "context window", "context_length_exceeded", "contextwindowexceeded",
    "contextlengthexceeded", "contextoverflow", "context overflow", "context limit",
    "prompt is too long", "input is too long", "too many input tokens", "input token count",
    "maximum number of tokens", "exceeds the maximum tokens", "too many tokens",
    "reduce the length of the messages", "maximum prompt length",
)  # fmt: skip
_TOO_MUCH = re.compile(
    r"exceed|too (?:long|large|many|big)|maximum|reduce|overflow|longer than|limit|>"
)
_NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:[ ,_']\d{3})+|\d{3,9})(k?)(?![\w.-])")


def claims(fault: Fault) -> bool:
    """Whether the fault is of this kind: of a model call, or of what only passed it on."""
    if fault.on_tool:
        return False
    named = (fault.type or "").lower()
    if "contextwindow" in named or "contextlength" in named or "contextoverflow" in named:
        return True
    low = fault.message[:2000].lower()
    return any(word in low for word in _WORDS) and _TOO_MUCH.search(low) is not None


def at_the_cause(view: View, fault: Fault) -> Fault:
    """The fault at the tool answer that filled the window, where one did; sizes as facts."""
    facts = dict(_limits(fault.message))
    before = _last_answer(view, fault.span)
    if before is not None and before.input_tokens is not None:
        facts["tokens_before"] = before.input_tokens
    large = _largest(view, fault.span, before)
    if large is None:
        return replace(fault, facts=facts)
    size = _size(large)
    tokens = size // BYTES_PER_TOKEN
    facts |= {"tool": large.tool, "bytes": size, "tokens": tokens}
    message = (
        f"{large.tool} answered with {size:,} bytes (about {tokens:,} tokens), and the next model"
        f" call was refused: {fault.message}"
    )
    return replace(
        fault,
        span=large.span,
        place=large.tool,
        message=message,
        field="output",
        shown_at=fault.span.id,
        facts=facts,
    )


def _limits(message: str) -> Mapping[str, Json]:
    """The window and what was asked for, where the message tells both."""
    found = [
        int(re.sub(r"\D", "", m[1])) * (1000 if m[2] else 1)
        for m in _NUMBER.finditer(message[:600])
    ]
    sizes = sorted({number for number in found if number >= 500})
    if not sizes:
        return {}
    return {"window": sizes[0]} | ({"asked": sizes[-1]} if len(sizes) > 1 else {})


def _last_answer(view: View, refused: Span) -> Span | None:
    earlier = [
        span
        for span in view.trace.spans
        if span.kind == "llm"
        and span.id not in view.failed
        and span.started_at < refused.started_at
    ]
    return earlier[-1] if earlier else None


def _largest(view: View, refused: Span, before: Span | None) -> ToolCall | None:
    """The answer that makes up most of what came in between the two calls."""
    came = [
        call
        for call in view.calls.values()
        if call.span.started_at <= refused.started_at
        and (before is None or call.span.started_at >= before.started_at)
    ]
    if not came:
        return None
    large = max(came, key=_size)
    enough = _size(large) >= max(LARGE_BYTES, SHARE * sum(map(_size, came)))
    return large if enough else None


def _size(call: ToolCall) -> int:
    return call.span.output.size_bytes if call.span.output is not None else 0
