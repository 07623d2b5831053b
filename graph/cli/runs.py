"""`tracemend analyze`, `improve`, `resume` and `status`: from traces to a card that waits."""

from typing import Annotated

import typer

from contracts.json_types import Json

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def analyze(
    traces: Annotated[
        list[str],
        typer.Option("--traces", help="A file, a folder or a glob; may be given several times."),
    ],
    baseline: Annotated[
        list[str] | None, typer.Option(help="What to compare with; the same kinds of paths.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Read traces and print what keeps failing, and why. Needs no project and stores nothing.

    Exit 2 when nothing there can be read, 6 when it was read in part.
    """
    from connectors.traces.files import FilesSource
    from contracts.traces import TraceQuery
    from graph.cli.listing import analysis_lines
    from graph.cli.session import print_json, run_async
    from nodes.insights.analyze import Analysis
    from nodes.insights.analyze import analyze as run
    from nodes.insights.report import analysis_json

    async def work() -> Analysis:
        everything = TraceQuery()
        before = (FilesSource([*baseline]), everything) if baseline else None
        return await run(FilesSource([*traces]), everything, project="adhoc", baseline=before)

    found = run_async(work)
    if as_json:
        print_json(analysis_json(found))
    else:
        for line in analysis_lines(found):
            typer.echo(line)
    if found.read.status != "complete":
        raise typer.Exit(6)


def improve(
    finding: Annotated[str | None, typer.Option(help="Work on this known finding.")] = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Analyse the last window (or take up a finding), draft an edit, and wait for a person."""
    from graph.cli.listing import ran_lines, show_card
    from graph.cli.session import first_resume, open_session, print_json, ran_json, run_async
    from graph.service import Ran

    request: dict[str, Json] = {"kind": "improve", "finding": finding}

    async def work() -> Ran:
        async with open_session(project, quiet=as_json) as session:
            await first_resume(session)
            ran = await session.service.start(request)
            if not as_json and ran.state == "waiting" and ran.proposal is not None:
                show_card(session.ws, ran.proposal)
            return ran

    ran = run_async(work)
    if as_json:
        print_json({"schema": "tracemend.improve/1", "runs": [ran_json(ran)]})
    else:
        for line in ran_lines(ran):
            typer.echo(line)


def resume(project: _Project = None, as_json: _Json = False) -> None:
    """Go on with every unfinished run, close cards that expired, start what is ready."""
    from graph.cli.listing import ran_lines
    from graph.cli.session import fail, open_session, print_json, ran_json, run_async
    from graph.service import Ran

    async def work() -> list[Ran]:
        async with open_session(project, quiet=as_json) as session:
            return await session.service.reconcile()

    ran = run_async(work)
    if as_json:
        print_json({"schema": "tracemend.resume/1", "runs": [ran_json(one) for one in ran]})
    else:
        for one in ran:
            for line in ran_lines(one):
                typer.echo(line)
        if not ran:
            typer.echo("nothing was unfinished")
    problem = next((one.problem for one in ran if one.problem is not None), None)
    if problem is not None:
        raise fail(problem)


def status(project: _Project = None, as_json: _Json = False) -> None:
    """List findings, proposals, releases and hand-offs. Drives nothing."""
    from graph.cli.listing import status_json, status_lines
    from graph.cli.session import print_json, which_project
    from memory.workspace import open_project

    home, slug = which_project(project)
    ws = open_project(home, slug)
    if as_json:
        print_json(status_json(ws))
    else:
        for line in status_lines(ws):
            typer.echo(line)


def card(
    proposal: Annotated[str, typer.Argument(help="Proposal id.")],
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Show the newest card of a proposal."""
    from graph.cli.listing import show_card
    from graph.cli.session import print_json, which_project
    from memory.workspace import open_project
    from nodes.showing import newest_card

    home, slug = which_project(project)
    ws = open_project(home, slug)
    if as_json:
        print_json({"schema": "tracemend.card/1", **newest_card(ws, proposal).view})
    else:
        show_card(ws, proposal)
