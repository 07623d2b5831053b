"""Count a finding after its release: did its rate fall?

No claim is made here (L4 in docs/gate.md): the window before is the one that raised the finding,
and a rate that was looked at because it was high falls by itself.
"""

import asyncio
from typing import Literal

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.findings import Finding
from contracts.json_types import Json, JsonObject
from contracts.proposals import Release
from contracts.traces import TraceQuery
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.choices import Choices, choices_of
from nodes.insights.compare import rate_interval
from nodes.ports import open_source
from nodes.router import Request

FEW = 20
"""Fewer units after a release than this say nothing about a rate of a few percent."""


class WatchReads(TypedDict):
    """What watch reads."""

    request: Request


class WatchWrites(TypedDict):
    """What watch writes: what was seen, in one word."""

    watched: str


async def watch(state: WatchReads, runtime: Runtime[RunContext]) -> WatchWrites:
    """Count the finding since its release. Reads `request`, writes the ledger and `watched`."""
    ws = await open_workspace(runtime)
    thread, release_id = thread_of(runtime), state["request"]["release"]
    done = await asyncio.to_thread(ws.ledger.steps.get, thread, f"watch:{release_id}")
    if done is None:
        release = await asyncio.to_thread(ws.ledger.effects.release, release_id)
        source = open_source(ws)
        since = TraceQuery(start=release.at, end=ws.ledger.db.clock())
        known, said = await asyncio.to_thread(_before, ws)
        analysis = await analyze(source, since, project=ws.project, known=known, choices=said)
        done = await asyncio.to_thread(_count, ws, thread, release, analysis)
    return {"watched": str(done["watched"])}


def _before(ws: Workspace) -> tuple[list[Finding], Choices]:
    """The same names and merges as in the analysis that found it: only then are counts alike."""
    known = [stored.finding for stored in ws.ledger.knowledge.findings()]
    return known, choices_of(ws.ledger.choices.listed())


def _count(ws: Workspace, thread: str, release: Release, analysis: Analysis) -> JsonObject:
    proposal = ws.ledger.proposals.latest(release.proposal).proposal
    finding = ws.ledger.knowledge.finding(proposal.finding_id).finding
    now = next((f for f in analysis.findings if f.signature == finding.signature), None)
    result = counted(finding, now, analysis.units_total, analysis.unit)

    def write(tx: Connection) -> dict[str, Json]:
        del tx
        return result

    return ws.ledger.steps.once(thread, f"watch:{release.id}", write)


def counted(before: Finding, after: Finding | None, units_after: int, unit: str) -> dict[str, Json]:
    """The numbers before and after with 95 % intervals, and what may be said. A pure function."""
    failures = after.units if after is not None else 0
    if units_after < FEW:
        watched, note = "too_few", f"{units_after} units since the release are too few to tell."
    elif failures / units_after < before.units / before.units_total:
        watched = "fell"
        note = (
            "No claim is made: the window before is the one that raised the finding, and such a "
            "rate falls by itself."
        )
    else:
        watched, note = "not_fallen", "The rate did not fall; consider taking the release back."
    return {
        "watched": watched, "note": note, "unit": unit, "p": None,
        "before": _side(before.units, before.units_total),
        "after": _side(failures, units_after),
    }  # fmt: skip


def _side(failures: int, runs: int) -> dict[str, Json]:
    """Counts with a rate and its interval; without a run there is no rate, and that is not zero."""
    low, middle, high = rate_interval(failures, runs) if runs else (None, None, None)
    return {"failures": failures, "runs": runs, "rate": middle, "low": low, "high": high}


async def after_watch(
    state: WatchWrites, runtime: Runtime[RunContext]
) -> Literal["learn", "apply", "plan"]:
    """On to the lesson. Undoing by itself, and the card that asks, come with staged releases."""
    del state, runtime
    return "learn"
