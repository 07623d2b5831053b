"""`tracemend gate …`: what a gate found, and what the gate finds about itself."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from contracts.gate import GatePlan, GateReport
    from contracts.json_types import Json
    from memory.workspace import Workspace

app = typer.Typer(help="What a gate found, and what the gate finds about itself.")

SCHEMA = "tracemend.gate/1"

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
_Format = Annotated[
    Literal["terminal", "markdown", "json"],
    typer.Option("--format", help="markdown: for a pull request or a chat."),
]


@app.command("show")
def show(
    proposal: Annotated[str, typer.Argument(help="Id of a proposal, as `tracemend status` lists.")],
    project: _Project = None,
    form: _Format = "terminal",
    as_json: _Json = False,
) -> None:
    """The newest report of a proposal's gate: claims, cases that got worse, what it would take."""
    from graph.cli.session import print_json

    ws = _open(project)
    try:
        revision, plan, report, digest = _newest(ws, proposal)
    finally:
        ws.ledger.close()
    if as_json or form == "json":
        print_json(_document(ws.project, proposal, revision, plan, report, digest))
    elif form == "markdown":
        from connectors.review.markdown import gate_markdown

        typer.echo(gate_markdown(plan, report), nl=False)
    else:
        from rich.console import Console

        from connectors.review.terminal import gate_lines

        gate_lines(plan, report, Console())


def _newest(ws: "Workspace", proposal: str) -> "tuple[int, GatePlan, GateReport, str]":
    """The last revision whose gate has a verdict, with its plan, report and the report's hash.

    Raises:
        UsageError: no gate of the proposal has one yet.
    """
    from contracts.codec import from_json
    from contracts.errors import UsageError
    from contracts.gate import GatePlan
    from contracts.proposals import ProposalId

    for stored in reversed(ws.ledger.proposals.revisions(ProposalId(proposal))):
        found = ws.ledger.gate.report(stored.proposal.hash)
        if found is not None:
            plan = from_json(GatePlan, stored.proposal.plan)
            return stored.proposal.revision, plan, found[0], found[1]
    state = ws.ledger.proposals.latest(ProposalId(proposal)).state
    raise UsageError(
        f"{proposal} is {state}: no gate of it has a verdict yet; `tracemend status` says what it "
        "waits for"
    )


def _document(  # what the document is made of
    project: str, proposal: str, revision: int, plan: "GatePlan", report: "GateReport", digest: str
) -> "dict[str, Json]":
    from contracts.codec import to_json

    return {
        "schema": SCHEMA, "project": project, "proposal": proposal, "revision": revision,
        "report_hash": digest, "report": to_json(report),
        "plan": {
            "profile": plan.profile, "purpose": plan.purpose, "seed": plan.seed,
            "alpha": plan.alpha, "use": plan.use, "uses": plan.uses, "margin": plan.margin,
            "margin_asked": plan.margin_asked, "discordance": plan.discordance,
            "targets": [case.case for case in plan.targets], "sealed": len(plan.sealed),
            "critical": [case.case for case in plan.critical],
            "guards": [case.case for case in plan.guards], "notes": list(plan.notes),
        },
    }  # fmt: skip


@app.command("judge")
def judge(project: _Project = None, as_json: _Json = False) -> None:
    """Compare the judge model with people's labels; only while it agrees do its grades count.

    Exit code 5: it may not grade, and the line says why.
    """
    from graph.cli.progress import Progress
    from graph.cli.session import print_json, run_async
    from nodes.gate.calibrate import Calibration, calibrate, calibration_json

    ws = _open(project)

    async def work() -> Calibration:
        with Progress(quiet=as_json) as progress:
            return await calibrate(ws, lambda done, of: progress.count("judge", done, of))

    try:
        found = run_async(work)
    finally:
        ws.ledger.close()
    if as_json:
        body = calibration_json(found)
        print_json({"schema": "tracemend.gate-judge/1", "judge": found.subject, **body})
    else:
        agreed = found.agreement
        typer.echo(
            f"{found.subject}: agrees with people on {agreed.agree} of {agreed.labels} labels"
        )
        if agreed.kappa is not None and agreed.lower is not None:
            typer.echo(f"kappa {agreed.kappa:.2f}, at least {agreed.lower:.2f} (95 %)")
        typer.echo(f"graded again: {found.flipped} of {found.regraded} changed")
        if agreed.unanswered:
            typer.echo(f"{agreed.unanswered} labels got no grade: it was down or could not tell")
        if found.disagreed:
            lines = ", ".join(str(line) for line in found.disagreed[:10])
            typer.echo(f"graded otherwise than its person: lines {lines}")
        said = "may grade" if found.problem is None else f"may not grade: {found.problem}"
        typer.echo(said)
    if found.problem is not None:
        raise typer.Exit(5)


def _open(project: str | None) -> "Workspace":
    from graph.cli.session import which_project
    from memory.workspace import open_project

    home, slug = which_project(project)
    return open_project(home, slug)
