"""Read the window, find what keeps failing, keep it in the ledger, decide what to work on."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NotRequired, cast

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from connectors.review.card import EvidenceLine
from contracts.codec import from_json, to_json
from contracts.context import RunContext
from contracts.errors import TracesLate, UsageError
from contracts.findings import Finding
from contracts.json_types import Json, JsonObject, canonical_json
from contracts.traces import ReadReport, TraceQuery
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.ask.gather import window_of
from nodes.handoff import file_ticket, why_text_cannot
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.by_models import ByModels, add_models, by_reading
from nodes.insights.choices import Choices, choices_of
from nodes.insights.kept import kept_of
from nodes.insights.late import Waiting, concluded, waits_until
from nodes.insights.lifecycle import Standing, standing_after, write_standing
from nodes.insights.mined import keep_targets, mined_targets
from nodes.insights.recall import prepare
from nodes.insights.saved import Saved
from nodes.insights.sketch import sketch_json
from nodes.ports import open_source
from nodes.router import Request, triage
from nodes.showing import evidence_json

CONDENSED = "condensed"
"""Kind of artifact under which exemplar traces are kept."""

SYMPTOMS_KEPT = 5_000
"""Of all symptoms of a window; a finding's own samples are kept beside them."""

SHOWN = 3
"""Failing spans quoted on a card; the finding's other exemplars are listed by id."""

IN_PART = "; the traces were read in part, and what was not read may say otherwise"
"""Follows the reason for whatever is concluded from a partial read."""

InsightsNext = Literal["answer", "evolution", "handoff", "end"]


class InsightsReads(TypedDict):
    """What insights reads."""

    request: Request


class InsightsWrites(TypedDict):
    """What insights writes: where to go and why, and a few numbers of the analysis."""

    next: InsightsNext
    why: str | None
    analysis: dict[str, Json]
    finding: NotRequired[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """The window of an analysis, and the time before it that it is compared with."""

    window: TraceQuery
    baseline: TraceQuery


def queries(ws: Workspace, request: Request) -> Queries:
    """What to read for a request.

    Raises:
        UsageError: the alert names a window that is none.
    """
    spec = ws.settings.analysis
    named = request["alert"].get("window") if request["kind"] == "alert" else None
    if named:
        start, end = _moment(named, "start"), _moment(named, "end")
        if start >= end:
            raise UsageError("alert.window: start must be before end")
    else:
        end = ws.ledger.db.clock()
        start = end - spec.window
    if request["kind"] == "question":
        asked = window_of(ws, request.get("text", ""), end)
        start, end = asked.start, asked.end
    return Queries(
        window=TraceQuery(start=start, end=end),
        baseline=TraceQuery(start=start - spec.baseline, end=start),
    )


def _moment(window: Mapping[str, Json], key: str) -> datetime:
    value = window.get(key)
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(f"alert.window.{key}: got {value!r}, needs an RFC 3339 time with a zone")
    return moment


async def insights(state: InsightsReads, runtime: Runtime[RunContext]) -> InsightsWrites:
    """Find, count, compare, diagnose; the last step is the triage.

    Reads `request`; writes findings, target cases and hand-offs to the ledger, and `next`.
    """
    ws = await open_workspace(runtime)
    request, thread = state["request"], thread_of(runtime)
    done = await asyncio.to_thread(ws.ledger.steps.get, thread, "insights")
    if done is not None:
        await asyncio.to_thread(ws.ledger.reads.clear, thread)  # killed just before it was cleared
        return cast("InsightsWrites", done)
    if request.get("about") == "status":
        return {"next": "answer", "why": None, "analysis": {}}
    asked = request.get("finding") if request["kind"] == "improve" else None
    if asked is not None:
        return await asyncio.to_thread(_take_up, ws, thread, asked)
    read = await asyncio.to_thread(_queries_once, ws, thread, request)
    source = open_source(ws)
    until = await asyncio.to_thread(waits_until, ws, thread, request)
    known, said = await asyncio.to_thread(_before, ws)
    try:
        analysis = await analyze(
            source, read.window, project=ws.project, baseline=(source, read.baseline),
            chronic_floor=ws.settings.analysis.chronic_floor, log=_LedgerLog(ws, thread),
            max_symptoms_kept=SYMPTOMS_KEPT, seen=Waiting(ws, source.name, until),
            known=known, choices=said, scores=ws.settings.analysis.scores,
        )  # fmt: skip
    except TracesLate:
        # The next look at the same window reads it anew.
        await asyncio.to_thread(ws.ledger.reads.clear, thread)
        raise
    resting = (await asyncio.to_thread(_standing, ws, analysis)).resting
    told = await add_models(
        ws, thread, source, analysis, resting=resting, asked=request["kind"] != "question"
    )
    written = await asyncio.to_thread(_keep, ws, thread, request, told)
    await asyncio.to_thread(ws.ledger.reads.clear, thread)
    return written


def _before(ws: Workspace) -> tuple[list[Finding], Choices]:
    """Findings of earlier analyses, and what people said of them."""
    known = [stored.finding for stored in ws.ledger.knowledge.findings()]
    return known, choices_of(ws.ledger.choices.listed())


def _queries_once(ws: Workspace, thread: str, request: Request) -> Queries:
    """The windows as they were when the run first came here: a run that goes on reads the same."""

    def write(_: Connection) -> dict[str, Json]:
        asked = queries(ws, request)
        return {"window": to_json(asked.window), "baseline": to_json(asked.baseline)}

    kept = ws.ledger.steps.once(thread, "insights.window", write)
    return Queries(
        window=from_json(TraceQuery, cast("JsonObject", kept["window"])),
        baseline=from_json(TraceQuery, cast("JsonObject", kept["baseline"])),
    )


@dataclass(frozen=True, slots=True)
class _LedgerLog:
    """Keeps the standing of a read in the ledger; implements `saved.ReadLog`."""

    ws: Workspace
    thread: str

    async def load(self, part: str) -> Saved | None:
        found = await asyncio.to_thread(self.ws.ledger.reads.get, self.thread, part)
        if found is None:
            return None
        read = from_json(ReadReport, cast("JsonObject", found.body["read"]))
        return Saved(cursor=found.cursor, read=read, tally=cast("JsonObject", found.body["tally"]))

    async def save(self, part: str, saved: Saved) -> None:
        body: dict[str, Json] = {"read": to_json(saved.read), "tally": saved.tally}
        put = self.ws.ledger.reads.put
        await asyncio.to_thread(put, self.thread, part, saved.cursor, body)


def _take_up(ws: Workspace, thread: str, finding_id: str) -> InsightsWrites:
    """A finding that is known already: its cases become targets again, and it is worked on."""
    stored = ws.ledger.knowledge.finding(finding_id)
    open_now = ws.ledger.proposals.open()
    chosen = triage(
        [stored.finding], asked=finding_id,
        open_for=open_now.proposal.finding_id if open_now is not None else None,
    )  # fmt: skip

    def write(tx: Connection) -> dict[str, Json]:
        if chosen.next == "evolution":
            ws.ledger.knowledge.training_to_targets(tx, finding_id)
            ws.ledger.knowledge.set_finding(tx, finding_id, "open")
        elif chosen.next == "end" and open_now is not None and chosen.why.startswith("ready"):
            ws.ledger.knowledge.set_finding(tx, finding_id, "ready")
        return {"next": chosen.next, "why": chosen.why, "analysis": {}, "finding": finding_id}

    return cast("InsightsWrites", ws.ledger.steps.once(thread, "insights", write))


def _standing(ws: Workspace, analysis: Analysis) -> Standing:
    """What the analysis does to findings that are known."""
    return standing_after(
        ws.ledger.knowledge.findings(), analysis.findings, choices_of(ws.ledger.choices.listed())
    )


def _keep(ws: Workspace, thread: str, request: Request, told: ByModels) -> InsightsWrites:
    """Everything that this analysis leaves in the ledger, in one transaction."""
    analysis = told.analysis
    standing = _standing(ws, analysis)
    working = [f for f in analysis.findings if f.id not in standing.resting]
    open_now = ws.ledger.proposals.open()
    chosen = triage(
        working, open_for=open_now.proposal.finding_id if open_now is not None else None
    )
    mined = mined_targets(ws, analysis)
    side = [f for f in working if f.actionable and not f.text_fixable and f.id != chosen.finding]
    question = request["kind"] == "question"
    quotes = {finding.id: _evidence(finding, analysis) for finding in analysis.findings}
    seen_before = prepare(ws, analysis.findings, mined)

    def write(tx: Connection) -> dict[str, Json]:
        for finding in analysis.findings:
            ws.ledger.knowledge.put_finding(tx, finding)
            evidence = {**quotes[finding.id], **told.kept.get(finding.id, {})}
            if finding.id in mined:
                keep_targets(ws, tx, finding.id, mined[finding.id])
                evidence |= {"cases": [*mined[finding.id].notes]}
                evidence |= {"condensed": _condensed(ws, tx, finding, analysis)}
            evidence |= {"recalled": seen_before.json_of(finding.id)}
            ws.ledger.knowledge.put_evidence(tx, finding.id, evidence)
        ws.ledger.vectors.put(tx, seen_before.vectors)
        write_standing(
            ws.ledger, tx, standing, analysis.findings, analysis.units_total,
            complete=analysis.read.status != "partial",
        )  # fmt: skip
        if question:
            return {"next": "answer", "why": None, "analysis": _summary(told)}
        for finding in side:
            quoted = cast("Sequence[JsonObject]", quotes[finding.id]["evidence"])
            file_ticket(ws.ledger, tx, finding, why_text_cannot(finding), quoted)
        if chosen.finding is not None and chosen.next == "evolution":
            # An earlier proposal of this finding made its targets training cases.
            ws.ledger.knowledge.training_to_targets(tx, chosen.finding)
        if chosen.finding is not None and chosen.why.startswith("ready"):
            ws.ledger.knowledge.set_finding(tx, chosen.finding, "ready")
        why = chosen.why + (IN_PART if analysis.status == "partial" else "") + by_reading(told)
        if request["kind"] == "alert":
            why += concluded(ws, thread, request, analysis)
        result: dict[str, Json] = {
            "next": chosen.next, "why": why, "analysis": _summary(told),
        }  # fmt: skip
        if chosen.finding is not None:
            result["finding"] = chosen.finding
        return result

    return cast("InsightsWrites", ws.ledger.steps.once(thread, "insights", write))


def _condensed(ws: Workspace, tx: Connection, finding: Finding, analysis: Analysis) -> list[Json]:
    """Keep the finding's exemplar traces, condensed and masked; their names as artifacts."""
    exemplars = {trace for trace, _ in finding.exemplars}
    return [
        ws.ledger.artifacts.put_text(
            tx, CONDENSED, canonical_json(sketch_json(sketch)).decode("utf-8", "replace")
        )
        for sketch in analysis.evidence[finding.id].failing
        if sketch.trace_id in exemplars
    ]


def _evidence(finding: Finding, analysis: Analysis) -> dict[str, Json]:
    """Three quotes of failing spans and one step that went well, for cards."""
    at = {(s.trace_id, s.span_id): s for s in analysis.symptoms if s.signature == finding.signature}
    failing = [at[place] for place in finding.exemplars if place in at][:SHOWN]
    lines = [
        EvidenceLine(trace_id=s.trace_id, span_id=s.span_id, quote=s.evidence.quote)
        for s in failing
    ]
    place = finding.signature.split(":")[1] if ":" in finding.signature else ""
    for sketch in analysis.evidence[finding.id].passing:
        call = next((c for c in sketch.calls if c.tool == place and c.ok), None)
        if call is not None:
            well = EvidenceLine(
                trace_id=sketch.trace_id, span_id=call.span_id, quote=call.note, failed=False
            )
            lines.append(well)
            break
    beside = kept_of(finding, analysis)
    return {
        "evidence": evidence_json(lines), "unit": analysis.unit, "read": analysis.status, **beside,
    }  # fmt: skip


def _summary(told: ByModels) -> dict[str, Json]:
    """A few numbers and ids for the thread's state; the findings themselves are in the ledger."""
    analysis = told.analysis
    read = to_json(analysis.read)
    models: dict[str, Json] = {} if told.report is None else {"models": told.report}
    return {
        **models,
        "read": {k: v for k, v in read.items() if k != "skipped"},
        "status": analysis.status,
        "skipped": len(analysis.read.skipped),
        "unit": analysis.unit,
        "units_total": analysis.units_total,
        "findings": [finding.id for finding in analysis.findings[:20]],
    }


async def after_insights(
    state: InsightsWrites, runtime: Runtime[RunContext]
) -> Literal["answer", "evolution", "handoff", "__end__"]:
    """Where the triage sends the run."""
    del runtime
    chosen = state["next"]
    return "__end__" if chosen == "end" else chosen
