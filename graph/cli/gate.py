"""`tracemend gate …`: what a gate found, and what the gate finds about itself."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from contracts.gate import GatePlan, GateReport
    from contracts.json_types import Json
    from memory.workspace import Workspace
    from nodes.gate.trial import Say

T = TypeVar("T")

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


@app.command("selftest")
def selftest(
    live: Annotated[
        bool, typer.Option("--live", help="Run the harness of now against itself, in every phase.")
    ] = False,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Does the gate claim too often what is not there? Exit code 5: it does, and is off.

    Without --live no agent runs: stored results of past gates are dealt anew at random.
    """
    from contracts.codec import to_json
    from graph.cli.gate_lines import live_lines, selftest_lines
    from graph.cli.session import print_json
    from nodes.gate.checks import BackToBack, back_to_back, self_test
    from nodes.gate.selftest import SelfTest

    async def work(ws: "Workspace", say: "Say") -> SelfTest | BackToBack:
        if not live:
            return await self_test(ws)
        from nodes.ports import open_probe

        async with open_probe(ws) as probe:
            return await back_to_back(ws, probe, say)

    found = _checked(project, work, quiet=as_json)
    if as_json:
        print_json({"schema": "tracemend.gate-selftest/1", "live": live, **to_json(found)})
    else:
        lines = selftest_lines(found) if isinstance(found, SelfTest) else live_lines(found)
        for line in lines:
            typer.echo(line)
    if found.off is not None:
        raise typer.Exit(5)


@app.command("planted")
def planted(project: _Project = None, as_json: _Json = False) -> None:
    """Run the edits of `gate.planted`, whose verdict is known, through the gate of this release.

    They are your own text, committed by a person. Exit code 5: some verdict is not the expected.
    """
    from contracts.codec import to_json
    from graph.cli.gate_lines import planted_line
    from graph.cli.session import print_json
    from nodes.gate.planted import PlantedResult
    from nodes.gate.planted import planted as run_planted
    from nodes.ports import open_probe

    async def work(ws: "Workspace", say: "Say") -> tuple[PlantedResult, ...]:
        async with open_probe(ws) as probe:
            return await run_planted(ws, probe, say)

    found = _checked(project, work, quiet=as_json)
    if as_json:
        listed: list[Json] = [to_json(one) for one in found]
        print_json({"schema": "tracemend.gate-planted/1", "edits": listed})
    else:
        for one in found:
            typer.echo(planted_line(one))
    if not all(one.ok for one in found):
        raise typer.Exit(5)


@app.command("anchor")
def anchor(
    revision: Annotated[
        str,
        typer.Argument(help="One that was live once; its first characters are enough."),
    ],
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """How much may have been lost since an older revision? A report; it decides nothing.

    Every accept may hide a loss below the margin, and they add up. Spends a use of the sealed set.
    """
    from contracts.codec import to_json
    from graph.cli.gate_lines import anchor_lines
    from graph.cli.session import print_json
    from nodes.gate.checks import Anchor
    from nodes.gate.checks import anchor as run_anchor
    from nodes.ports import open_probe

    async def work(ws: "Workspace", say: "Say") -> Anchor:
        async with open_probe(ws) as probe:
            return await run_anchor(ws, probe, revision, say)

    found = _checked(project, work, quiet=as_json)
    if as_json:
        print_json({"schema": "tracemend.gate-anchor/1", **to_json(found)})
        return
    for line in anchor_lines(found):
        typer.echo(line)


@app.command("edits")
def edits(project: _Project = None, as_json: _Json = False) -> None:
    """Every edit that a gate has decided, and which "no harm" stands when all are looked at."""
    from graph.cli.gate_lines import anchor_due, edit_json, edit_line
    from graph.cli.session import print_json
    from nodes.gate.checks import accepts_since_anchor
    from nodes.gate.portfolio import portfolio

    ws = _open(project)
    try:
        decided = [
            (stored, found[0])
            for latest in ws.ledger.proposals.all_latest()
            for stored in ws.ledger.proposals.revisions(latest.proposal.id)
            if (found := ws.ledger.gate.report(stored.proposal.hash)) is not None
        ]
        accepts = accepts_since_anchor(ws)
    finally:
        ws.ledger.close()
    together = portfolio(
        {f"{one.proposal.id} r{one.proposal.revision}": of.e_value for one, of in decided}
    )
    rows = [edit_json(one, of) for one, of in decided]
    if as_json:
        listed: list[Json] = [*rows]
        kept: list[Json] = [*together.survive]
        said: dict[str, Json] = {"edits": listed, "together": kept}
        print_json({"schema": "tracemend.gate-edits/1", **said, "accepts_since_anchor": accepts})
        return
    for row in rows:
        typer.echo(edit_line(row, together.survive))
    typer.echo(together.in_words())
    due = anchor_due(accepts)
    if due is not None:
        typer.echo(due)


def _checked(
    project: str | None,
    work: "Callable[[Workspace, Say], Coroutine[object, object, T]]",
    *,
    quiet: bool,
) -> T:
    """Run one check of the gate in an open project, with its progress on stderr."""
    from graph.cli.progress import Progress
    from graph.cli.session import run_async

    ws = _open(project)
    try:
        with Progress(quiet=quiet) as progress:
            return run_async(lambda: work(ws, progress.event))
    finally:
        ws.ledger.close()


def _open(project: str | None) -> "Workspace":
    from graph.cli.session import which_project
    from memory.workspace import open_project

    home, slug = which_project(project)
    return open_project(home, slug)
