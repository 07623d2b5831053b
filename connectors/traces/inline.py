"""One trace out of JSON that is in hand already: spans in an answer, messages of a final state."""

from collections.abc import Iterable, Sequence
from typing import Final

from connectors.traces import chat_logs
from connectors.traces.files import PAYLOAD_CAP_BYTES
from connectors.traces.formats import records
from connectors.traces.raw import Raw, RawNote, RawSpan
from connectors.traces.tree import build_trace
from contracts.json_types import Json
from contracts.traces import Trace

_ENVIRONMENT: Final = "tracemend-gate"


def trace_in(document: Json, *, payload_cap_bytes: int = PAYLOAD_CAP_BYTES) -> Trace | None:
    """The trace in a parsed document of any known format, our own marks and all.

    Of several traces the one with the most spans is it. None: no whole span in it.
    """
    return _largest((raw for _, raw in records(document, None)), payload_cap_bytes)


def trace_of_messages(
    messages: Sequence[Json], *, payload_cap_bytes: int = PAYLOAD_CAP_BYTES
) -> Trace | None:
    """One of our own runs as its chat messages tell it: model calls, tool calls, their answers.

    It is timeless: the order means something, the times do not. None: no agent spoke in it.
    """
    document: dict[str, Json] = {"messages": list(messages), "environment": _ENVIRONMENT}
    if not chat_logs.takes(document):
        return None
    return _largest(chat_logs.spans(document), payload_cap_bytes)


def _largest(found: Iterable[Raw], cap: int) -> Trace | None:
    traces: dict[str, list[RawSpan | RawNote]] = {}
    for record in found:
        if record is not None:
            traces.setdefault(record.trace_id, []).append(record)
    whole = [held for held in traces.values() if any(isinstance(one, RawSpan) for one in held)]
    if not whole:
        return None
    built = (build_trace(held, cap) for held in whole)
    return max(built, key=lambda one: (one.spans, one.trace.id)).trace
