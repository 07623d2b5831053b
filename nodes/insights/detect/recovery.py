"""Whether a step that failed worked later, looked up in what worked last at each place."""

from collections.abc import Hashable
from datetime import datetime

from contracts.traces import Span
from nodes.insights.detect.answers import parsed
from nodes.insights.detect.faults import Fault
from nodes.insights.detect.view import View
from nodes.insights.signature import make_signature


class Recovery:
    """The last good call of every tool and the last good step of every place of one trace.

    Made when the failing spans are known; each table is filled when it is first asked for, by one
    walk over the trace.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._calls: dict[Hashable, datetime] | None = None
        self._steps: dict[Hashable, datetime] | None = None
        self._parsed: dict[Hashable, datetime] | None = None

    def recovered(self, fault: Fault) -> bool:
        """Whether the same step worked later: the tool was called again, or the place ran again."""
        span = fault.span
        if fault.on_tool:
            answered = span.kind == "tool"  # of a call without a span nobody knows the answer
            return self._later(self._good_calls(), (fault.place, answered), span)
        if fault.broken:
            return self._later(self._good_json(), fault.place, span)
        if span.kind not in ("llm", "chain"):
            return False
        return self._later(self._good_steps(), self._key(span), span)

    @staticmethod
    def _later(last: dict[Hashable, datetime], key: Hashable, span: Span) -> bool:
        return key in last and last[key] > span.started_at

    def _good_calls(self) -> dict[Hashable, datetime]:
        """By tool, and whether an answer must have been recorded."""
        if self._calls is None:
            self._calls = {}
            for call in self._view.calls.values():
                if call.span.id not in self._view.failed:
                    _keep(self._calls, (call.tool, False), call.span)
                    if call.span.output is not None:
                        _keep(self._calls, (call.tool, True), call.span)
        return self._calls

    def _good_steps(self) -> dict[Hashable, datetime]:
        if self._steps is None:
            self._steps = {}
            for span in self._view.trace.spans:
                good = span.id not in self._view.failed and not span.virtual
                if good and span.kind in ("llm", "chain"):
                    _keep(self._steps, self._key(span), span)
        return self._steps

    def _good_json(self) -> dict[Hashable, datetime]:
        if self._parsed is None:
            self._parsed = {}
            for span in self._view.trace.spans:
                said = span.messages_out[-1:] if span.kind == "llm" else ()
                if said and parsed(said[0].content) is not None:
                    _keep(self._parsed, self._view.place(span), span)
        return self._parsed

    def _key(self, span: Span) -> Hashable:
        return span.kind, make_signature("", self._view.place(span), None)


def _keep(last: dict[Hashable, datetime], key: Hashable, span: Span) -> None:
    known = last.get(key)
    if known is None or span.started_at > known:
        last[key] = span.started_at
