"""Facts beside a failure, for its diagnosis: rows of calls, sizes, rules that are there already."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

from contracts.json_types import Json
from contracts.traces import Span
from nodes.insights.detect import context_overflow, rate_limit, tool_timeout
from nodes.insights.detect.faults import Fault
from nodes.insights.detect.retry_storm import storms
from nodes.insights.detect.system_text import about_retrying, asked_for
from nodes.insights.detect.view import View

MAX_CAUSES = 20  # full windows of one trace whose cause is looked for
_HASTE = frozenset({rate_limit.KIND, tool_timeout.KIND})


class Beside:
    """What is added to the failures of one trace; worked out once a trace, and once a place."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._rows = storms(view)
        self._models = [s for s in view.trace.spans if s.kind == "llm" and s.messages_in]
        self._starts = [span.started_at for span in self._models]
        self._told: dict[str, Mapping[str, Json]] = {}
        self._causes = 0

    def added(self, kind: str, fault: Fault) -> Fault:
        """The fault with its facts; a full window at the answer that filled it."""
        row = self._rows.get(fault.span.id)
        if row is not None:
            fault = replace(fault, facts={**fault.facts, **row})
        if kind == context_overflow.KIND and self._causes < MAX_CAUSES:
            self._causes += 1
            return context_overflow.at_the_cause(self._view, fault)
        if kind in _HASTE:
            return replace(fault, facts={**fault.facts, **self._told_to_wait(fault)})
        return fault

    def _told_to_wait(self, fault: Fault) -> Mapping[str, Json]:
        """Where the instructions say already what to do about a time-out or a refusal."""
        known = self._told.get(fault.place)
        if known is None:
            call = self._before(fault.span)
            asked = asked_for(call, about_retrying) if call is not None else None
            known = {} if asked is None else {"rule": asked.text, "rule_line": asked.line}
            self._told[fault.place] = known
        return known

    def _before(self, span: Span) -> Span | None:
        at = bisect_right(self._starts, span.started_at) - 1
        return self._models[at] if at >= 0 else None
