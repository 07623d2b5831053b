"""An end marker that the request asks for is missing in the answer.

Meaning: the request says "write the '<end>' tag" and the answer does not hold it.
Evidence: the model call's answer; the marker as the last message of the request names it.
Always a hint. Where the marker is a stop sequence of the call its absence is how the interface
works (code `stop`); where the call's parameters were not recorded nobody can tell (`unknown`).
Limits: only markers in quotes of the shapes `<tag>` and `ALLCAPS`; of one agent's run only the
first answer without it is told.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from contracts.traces import Span
from nodes.insights.detect.contracts import stop_sequences
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.requirements import Requirements
from nodes.insights.detect.view import View

KIND = "missing_marker"


def missing_marker(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """The first answer of a run that lacks a marker which its request asks for."""
    del symptoms
    known = Requirements()
    for run in view.runs:
        told: set[str] = set()
        for turn in run.turns:
            request = turn.call.messages_in[-1:]
            if not request or request[0].role not in ("user", "human") or not turn.said.strip():
                continue
            for marker, _ in known.of(request[0].content).markers:
                if marker in told or marker in turn.said:
                    continue
                told.add(marker)
                yield Hit(
                    kind=KIND,
                    span=turn.call,
                    message=f"the request asks for the end marker {marker}; the answer lacks it",
                    field="output",
                    code=_code(turn.call, marker) if view.contracts.stops else None,
                    template="the end marker that the request asks for is missing",
                )


def _code(call: Span, marker: str) -> str:
    stops = stop_sequences(call)
    if any(stop in marker or marker in stop for stop in stops):
        return "stop"
    return "absent" if stops else "unknown"
