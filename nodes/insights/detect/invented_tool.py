"""A call of a tool that does not exist.

Meaning: the model asks for a tool that it was not offered. Evidence: the framework's refusal; or,
where the framework dropped the request in silence, that the schemas recorded with the very call do
not have the name and that nothing answered it. Known limits: without recorded schemas only a
refusal is seen; a name that any tool span of the trace carries counts as existing.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from contracts.traces import Span
from nodes.insights.detect.contracts import offered_by_schema
from nodes.insights.detect.faults import Fault
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "invented_tool"
_NAMED = frozenset({"toolnotfounderror", "unknowntoolerror", "nosuchtoolerror", "toolnotfound"})
_NO_TOOL = re.compile(
    r"not a valid tool|no (?:such )?(?:tool|function) (?:is )?(?:registered|named|called|with)"
    r"|(?:unknown|unregistered|undefined|no such) (?:tool|function)\b"
    r"|\b(?:tool|function) ['\"`]?[\w.:-]{1,80}['\"`]? (?:is |was )?"
    r"(?:not (?:found|registered|defined|available|known)|does(?:n't| not) exist|unknown)"
    r"|\b(?:tool|function) (?:not found|does(?:n't| not) exist)",
)


def claims(fault: Fault) -> bool:
    """Whether the fault is of this kind."""
    if not fault.on_tool:
        return False
    if (fault.type or "").lower() in _NAMED:
        return True
    low = fault.message[:600].lower()
    return ("tool" in low or "function" in low) and _NO_TOOL.search(low) is not None


def invented_tool(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """Requests for tools that the same call did not offer and that nothing ever answered."""
    told = {s.span_id for s in symptoms if s.kind == KIND}
    ran = {call.tool for call in view.calls.values()}
    offers: dict[str, frozenset[str]] = {}
    answered: frozenset[str] | None = None
    for span in view.trace.spans:
        if span.kind != "llm" or span.id in told or not span.messages_out:
            continue
        asked = [call for message in span.messages_out for call in message.tool_calls]
        unknown = [one for one in asked if one[1] and one[1] not in ran]
        if not unknown:
            continue
        offered = _offered(span, offers)
        answered = _answered(view) if answered is None else answered
        for call_id, name, _ in unknown:
            if offered and name not in offered and call_id not in answered:
                yield Hit(
                    kind=KIND,
                    span=span,
                    message=f"asks for {name}, which is none of the {len(offered)} tools it was"
                    " offered; nothing answered",
                    field="output",
                    place=name,
                    template="asks for a tool that it was not offered",
                )


def _offered(span: Span, known: dict[str, frozenset[str]]) -> frozenset[str]:
    recorded = str(span.attributes.get("llm.tools") or "")
    if recorded not in known:
        known[recorded] = frozenset(offer.name for offer in offered_by_schema(span))
    return known[recorded]


def _answered(view: View) -> frozenset[str]:
    """Ids of the requests that some later message answers: its words were judged already."""
    return frozenset(
        message.tool_call_id
        for span in view.trace.spans
        if span.kind == "llm"
        for message in span.messages_in
        if message.tool_call_id is not None
    )
