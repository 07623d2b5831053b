"""File a ticket for a finding that text cannot fix: evidence, place in the stack, suggestion."""

import asyncio
from typing import NotRequired

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.findings import Finding
from contracts.json_types import Json
from memory.workspace import Workspace, open_workspace, thread_of


class HandoffReads(TypedDict):
    """What handoff reads."""

    finding: str
    why: NotRequired[str | None]


class HandoffWrites(TypedDict):
    """What handoff writes."""

    handoff: str


def ticket(finding: Finding, why: str) -> dict[str, Json]:
    """What the owner of the code or the infrastructure needs to start. A pure function."""
    low, middle, high = finding.rate
    return {
        "title": finding.title,
        "where": finding.remedy,
        "why": why,
        "cause": finding.diagnosis.summary,
        "falsifier": finding.diagnosis.falsifier,
        "signature": finding.signature,
        "counts": {"units": finding.units, "units_total": finding.units_total},
        "rate": [low, middle, high],
        "change": finding.change,
        "exemplars": [[trace, span] for trace, span in finding.exemplars],
        "first_seen": finding.first_seen.isoformat() if finding.first_seen else None,
        "last_seen": finding.last_seen.isoformat() if finding.last_seen else None,
    }


def why_text_cannot(finding: Finding) -> str:
    """The sentence of a ticket for a finding whose remedy is not text."""
    return f"The fix belongs to the {finding.remedy}, which Tracemend advises on and never edits."


async def handoff(state: HandoffReads, runtime: Runtime[RunContext]) -> HandoffWrites:
    """File the ticket, once. Reads `finding` and `why`, writes the ledger and `handoff`."""
    ws = await open_workspace(runtime)
    await asyncio.to_thread(_file, ws, thread_of(runtime), state["finding"], state.get("why"))
    return {"handoff": state["finding"]}


def _file(ws: Workspace, thread: str, finding_id: str, why: str | None) -> None:
    finding = ws.ledger.knowledge.finding(finding_id).finding

    def write(tx: Connection) -> dict[str, Json]:
        filed = ticket(finding, why or why_text_cannot(finding))
        ws.ledger.knowledge.put_handoff(tx, finding.id, filed)
        return {"finding": finding.id}

    ws.ledger.steps.once(thread, f"handoff:{finding_id}", write)
