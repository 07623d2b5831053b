"""Tell a provider's outage from the agent's own failure: the first is missing, never a result."""

import re
from typing import Final

from contracts.harness import Observation
from contracts.json_types import Json
from contracts.traces import Span, Trace

# Exceptions that clients of model providers raise when the provider refuses or is down. Not among
# them: bad requests and full context windows, which an edit can cause.
_CLASSES: Final = (
    "APIConnectionError|APITimeoutError|AuthenticationError|PermissionDeniedError|RateLimitError"
    "|InternalServerError|ServiceUnavailableError|OverloadedError|ResourceExhausted"
    "|InsufficientQuotaError|ThrottlingException"
)
_STATUS: Final = r"(?:401|403|429|5\d\d)"
_RAISED = re.compile(rf"\A\s*(?:[A-Za-z_]\w{{0,60}}\.){{0,8}}(?:{_CLASSES})\b")
_PRINTED = re.compile(rf"\A\s*Error code: {_STATUS} - ")
_LONGEST = 2_000


def outage(observation: Observation) -> str | None:
    """Why the run says nothing about the agent, if so: no model could be reached in it.

    The trace decides where there is one: a tool may raise an exception of the same name.
    """
    if observation.trace is not None:
        failed = _model_failed(observation.trace)
        tools = any(_said(s) for s in observation.trace.spans if s.kind == "tool")
        if failed or tools:
            return "provider outage: the last model call failed" if failed else None
    text = observation.error if observation.error is not None else _text(observation.output)
    if _RAISED.search(text[:_LONGEST]) or _PRINTED.search(text[:_LONGEST]):
        return "provider outage: the answer is a provider's error"
    return None


def _model_failed(trace: Trace) -> bool:
    """The last model call ended in a provider's error, so no model wrote the answer."""
    calls = [span for span in trace.spans if span.kind == "llm"]
    if not calls:
        return False
    return _said(max(calls, key=lambda span: span.started_at))


def _said(span: Span) -> bool:
    if span.error is None or span.status != "error":
        return False
    name = (span.error.type or "").rpartition(".")[2]
    return bool(
        re.fullmatch(_CLASSES, name)
        or _RAISED.search(span.error.message[:_LONGEST])
        or _PRINTED.search(span.error.message[:_LONGEST])
    )


def _text(output: Json) -> str:
    """The only text of an answer: itself, or the only text in an object with one entry."""
    if isinstance(output, str):
        return output
    if isinstance(output, dict) and len(output) == 1:
        only = next(iter(output.values()))
        return only if isinstance(only, str) else ""
    return ""
