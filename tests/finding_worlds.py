"""Findings in a ledger, as the tests of choices, of their life and of hand-offs use them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from contracts.findings import Diagnosis, Finding, FindingId, Merge, Remedy, Signature
from contracts.json_types import Json, content_id
from contracts.traces import SpanId, TraceId
from memory.database import rfc3339
from memory.ledger import Ledger
from memory.workspace import Workspace
from nodes.insights.choices import split_signature
from nodes.insights.compare import rate_interval
from nodes.insights.signature import template_of

NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
MESSAGE = "504 Gateway Timeout from the payment API after 30 s"


def found(
    signature: str,
    units: int = 10,
    total: int = 100,
    *,
    remedy: Remedy = "infrastructure",
    change: str = "new",
    seen: datetime = NOW,
    merged: Sequence[Merge] = (),
) -> Finding:
    """A finding of the project `refunds`."""
    kind, place, _ = split_signature(signature)
    return Finding(
        id=FindingId(content_id("f-", "refunds", signature)), kind=kind,
        signature=Signature(signature), title=f"{place} fails", units=units, units_total=total,
        rate=rate_interval(units, total), baseline_units=0, baseline_total=100,
        change=change, p_holm=0.001, severity="high",  # type: ignore[arg-type]  # given as a word
        diagnosis=Diagnosis(
            cause="tool_unavailable", remedies=(remedy,), confidence=0.8,
            summary=f"{place} is down at times.", falsifier="It answers when it is called again.",
            parameters={},
        ),
        actionable=True, why_not=None, exemplars=((TraceId("t1"), SpanId("s1")),),
        first_seen=seen - timedelta(hours=1), last_seen=seen, score=float(units),
        merged=tuple(merged),
    )  # fmt: skip


def quoted(message: str = MESSAGE) -> dict[str, Json]:
    """What the ledger keeps beside a finding."""
    line: dict[str, Json] = {
        "trace_id": "t1", "span_id": "s1", "quote": message, "failed": True, "link": None,
    }  # fmt: skip
    return {"evidence": [line], "templates": [template_of(message)], "read": "complete"}


def keep(ledger: Ledger, *findings: Finding, message: str = MESSAGE) -> None:
    """Put findings into the ledger with what is quoted of them."""
    with ledger.db.write() as tx:
        for finding in findings:
            ledger.knowledge.put_finding(tx, finding)
            ledger.knowledge.put_evidence(tx, finding.id, quoted(message))


def state_of(ws: Workspace, finding: Finding) -> str:
    return ws.ledger.knowledge.finding(finding.id).state


def later(finding: Finding, **changes: object) -> Finding:
    """The same finding in a later analysis."""
    return replace(finding, **changes)  # type: ignore[arg-type]  # any field


def text_of(moment: datetime) -> str:
    return rfc3339(moment)
