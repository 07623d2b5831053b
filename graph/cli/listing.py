"""Findings, runs, proposals and releases as lines and as JSON."""

from collections.abc import Iterable, Iterator

from rich.console import Console

from connectors.review.card import ReviewCard
from connectors.review.terminal import plain, render
from contracts.codec import from_json
from contracts.findings import Finding
from contracts.json_types import Json
from contracts.traces import ReadReport
from graph.cli.session import one_line, release_json
from graph.outcomes import Ran
from memory.incidents import Incident
from memory.workspace import Workspace
from nodes.insights.analyze import Analysis
from nodes.insights.report import analysis_json
from nodes.showing import newest_card

SKIPPED_SHOWN = 10
CONTRASTS_SHOWN = 3
TEMPLATE_SHOWN = 100
MERGES_SHOWN = 3


def analysis_lines(analysis: Analysis) -> Iterator[str]:
    """An analysis for a person."""
    yield from _read_lines("read", analysis.read)
    if analysis.baseline_read is not None:
        yield from _read_lines("compared with", analysis.baseline_read)
    if not analysis.findings:
        so_far = " that were read" if analysis.status == "partial" else ""
        yield f"nothing kept failing in the {analysis.units_total} {analysis.unit}s{so_far}"
    for finding in analysis.findings:
        yield from finding_lines(finding, analysis.unit)
    yield from _left_out_lines(analysis)


def _left_out_lines(analysis: Analysis) -> Iterator[str]:
    """What the counts leave out, where they do."""
    if analysis.one_in > 1:
        yield f"counted in one of {analysis.one_in} {analysis.unit}s, drawn by hash"
    rest = analysis.rest
    if rest is not None:
        yield (
            f"{rest.signatures} rare signatures in {rest.units} {analysis.unit}s are put together "
            "as various"
        )


def analysis_document(analysis: Analysis) -> dict[str, Json]:
    """The document of `analyze --json`; `baseline` also says how much of it was read."""
    document = analysis_json(analysis)
    baseline, read = document["baseline"], analysis.baseline_read
    if isinstance(baseline, dict) and read is not None:
        document["baseline"] = {**baseline, "read": {"traces": read.traces, "status": read.status}}
    return document


def _read_lines(how: str, read: ReadReport) -> Iterator[str]:
    """What one read saw, and what of it is missing."""
    yield (
        f"{how} {read.traces} traces, {read.spans} spans ({read.format}): {read.status}; "
        f"{read.excluded_own} own runs and {read.pending} still open left out, "
        f"{len(read.skipped)} skipped"
    )
    if read.why:
        yield f"  {one_line(read.why)}"
    if read.marks:
        odd = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in read.marks.items())
        yield f"  kept and marked: {odd}"
    for skipped in read.skipped[:SKIPPED_SHOWN]:
        yield f"  skipped {one_line(skipped.path)}: {one_line(skipped.why)}"
    if len(read.skipped) > SKIPPED_SHOWN:
        yield f"  and {len(read.skipped) - SKIPPED_SHOWN} more, in --json"


def finding_lines(finding: Finding, unit: str) -> Iterator[str]:
    """A finding in four lines, and one for each thing that sets its failing units apart."""
    low, middle, high = finding.rate
    yield f"{finding.id}  {one_line(finding.title)}"
    yield (
        f"  {finding.units} of {finding.units_total} {unit}s, rate {middle:.3f} "
        f"[{low:.3f}, {high:.3f}], {finding.change}, {finding.severity}; "
        f"cause {finding.diagnosis.cause}, remedy {finding.remedy}"
    )
    state = "actionable" if finding.actionable else f"left alone: {finding.why_not}"
    first = f", such as trace {finding.exemplars[0][0]}" if finding.exemplars else ""
    yield f"  {finding.signature}: {state}{first}"
    if finding.templates:
        yield f"  says: {one_line(finding.templates[0])[:TEMPLATE_SHOWN]}"
    for contrast in finding.contrasts[:CONTRASTS_SHOWN]:
        yield f"  {one_line(contrast.sentence)}"
    for merge in finding.merged[:MERGES_SHOWN]:
        by = "by likeness" if merge.by == "similar" else f"by {one_line(merge.by)}"
        yield f"  with {merge.units} of {merge.signature}, merged {by}"


def ran_lines(ran: Ran) -> Iterator[str]:
    """A run for a person."""
    if ran.problem is not None:
        yield f"{ran.kind} {ran.thread}: {one_line(str(ran.problem))}"
        return
    if ran.proposal is not None and ran.state is not None:
        why = f": {one_line(str(ran.values['why']))}" if ran.values.get("planned") is False else ""
        yield f"{ran.kind}: proposal {ran.proposal} is {ran.state}{why}"
        if ran.state == "waiting":
            yield f"  decide: tracemend approve {ran.proposal}"
            yield f"      or: tracemend reject {ran.proposal} --reason wrong_fix"
        return
    what = ran.values.get("why") or ran.values.get("reply") or "ended"
    which = f" (finding {ran.finding})" if ran.finding else ""
    yield f"{ran.kind}: {one_line(str(what))}{which}"


def show_card(ws: Workspace, proposal: str) -> None:
    """The newest card of a proposal on stdout."""
    view = from_json(ReviewCard, newest_card(ws, proposal).view)
    console = Console(highlight=False)
    if console.is_terminal and not console.no_color:
        render(view, console)
    else:
        console.print(plain(view), markup=False, soft_wrap=True)


def status_json(ws: Workspace) -> dict[str, Json]:
    """Everything that is known of a project, in short."""
    findings: list[Json] = [
        {
            "id": s.finding.id, "signature": s.finding.signature, "state": s.state,
            "units": s.finding.units, "units_total": s.finding.units_total,
            "actionable": s.finding.actionable, "read": _read_status(ws, s.finding),
        }
        for s in ws.ledger.knowledge.findings()
    ]  # fmt: skip
    proposals: list[Json] = [
        {
            "id": s.proposal.id, "revision": s.proposal.revision, "state": s.state,
            "finding": s.proposal.finding_id, "hash": s.proposal.hash,
        }
        for s in ws.ledger.proposals.all_latest()
    ]  # fmt: skip
    releases: list[Json] = [
        {**(release_json(r) or {}), "undoes": r.undoes, "undone_by": r.undone_by}
        for r in ws.ledger.effects.releases()
    ]
    handoffs: list[Json] = [
        {
            "finding": t.finding, "where": t.body["where"], "title": t.body["title"],
            "state": t.state,
        }
        for t in ws.ledger.handoffs.listed()
    ]  # fmt: skip
    return {
        "schema": "tracemend.status/1", "project": ws.project, "findings": findings,
        "proposals": proposals, "releases": releases, "handoffs": handoffs,
        "runs": [_run_json(run) for run in _told(ws)],
        "paused": [
            {"backend": c.backend, "until": c.open_until, "problem": c.problem}
            for c in ws.ledger.circuits.paused(ws.ledger.db.clock())
        ],
    }  # fmt: skip


def _told(ws: Workspace) -> list[Incident]:
    """Runs that are not closed, whoever drives them."""
    return ws.ledger.incidents.unfinished(drivers=("local", "foreign"))


def _run_json(run: Incident) -> dict[str, Json]:
    return {
        "thread": run.thread, "kind": run.kind, "state": run.state, "fired": run.fired,
        "recovered_at": run.recovered_at, "due_at": run.due_at, "tries": run.tries,
        "problem": run.problem,
    }  # fmt: skip


def _run_line(run: Incident) -> str:
    """One run for a person: what it is, how often it fired, whether it recovered, what failed."""
    said: list[str] = [run.state]
    if run.fired > 1:
        said.append(f"fired {run.fired} times")
    if run.recovered_at is not None:
        said.append(f"recovered {run.recovered_at[:19]}Z")
    if run.tries and run.state == "running":
        said.append(f"failed tries: {run.tries}, again from {(run.due_at or 'now')[:19]}")
    why = f": {one_line(run.problem)}" if run.problem else ""
    return f"{run.kind:<8}  {run.thread}  {', '.join(said)}{why}"


def quarantined_lines(runs: Iterable[Incident]) -> Iterator[str]:
    """Runs that failed too often: what failed, and how they are put back."""
    for run in runs:
        yield _run_line(run)
        yield f"  mend that, then: tracemend retry {run.thread}"


def _read_status(ws: Workspace, finding: Finding) -> Json:
    """How much was read when the finding was counted; None where nothing was kept of it."""
    return ws.ledger.knowledge.evidence(finding.id).get("read")


def status_lines(ws: Workspace) -> Iterator[str]:
    """The same for a person."""
    for stored in ws.ledger.knowledge.findings():
        f = stored.finding
        part = "  (read in part)" if _read_status(ws, f) == "partial" else ""
        counts = f"{f.units} of {f.units_total}"
        yield f"finding   {f.id}  {stored.state:<9} {counts}  {f.signature}{part}"
    for kept in ws.ledger.proposals.all_latest():
        p = kept.proposal
        yield f"proposal  {p.id} r{p.revision}  {kept.state}  for {p.finding_id}"
    for release in ws.ledger.effects.releases():
        undone = f", undone by {release.undone_by}" if release.undone_by else ""
        what = f"undoes {release.undoes}" if release.undoes else f"applied {release.proposal}"
        yield f"release   {release.id}  {what}{undone}"
    for run in _told(ws):
        if run.state == "quarantined":
            yield from quarantined_lines([run])
        else:
            yield f"run       {_run_line(run)}"
    for circuit in ws.ledger.circuits.paused(ws.ledger.db.clock()):
        why = one_line(circuit.problem or "it failed")
        yield f"paused    {circuit.backend} until {(circuit.open_until or '')[:19]}Z: {why}"
    for ticket in ws.ledger.handoffs.listed():
        where, title = ticket.body["where"], one_line(str(ticket.body["title"]))
        closed = "  (closed)" if ticket.state == "closed" else ""
        yield f"hand-off  {ticket.finding}  {where}: {title}{closed}"
