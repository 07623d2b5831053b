"""`tracemend analyze`, `improve`, `resume` and `status`: from traces to a card that waits."""

from typing import Annotated

import typer

from contracts.json_types import Json

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def analyze(
    traces: Annotated[
        list[str] | None,
        typer.Option(
            "--traces",
            help="A file, a folder, a glob, or - for standard input; may be given several times.",
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None, typer.Option(help="What to compare with; the same kinds of paths.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="Read only this format; see docs/sources.md.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="In place of --traces: langfuse, langsmith or phoenix; keys by environment."
        ),
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="With --source: its address.")] = None,
    tracing_project: Annotated[
        str | None, typer.Option(help="With --source: the project's name at LangSmith or Phoenix.")
    ] = None,
    environment: Annotated[str | None, typer.Option(help="Only traces of this one.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only traces of the last 24h, 7d ...; with --source 24h.")
    ] = None,
    compare: Annotated[
        str | None, typer.Option(help="Also read this long before --since, and compare.")
    ] = None,
    within: Annotated[str, typer.Option(help="Wall clock for reading from a --source.")] = "15m",
    as_json: _Json = False,
) -> None:
    """Read traces and print what keeps failing, and why. Needs no project and stores nothing.

    The format of files is detected, and said. Exit 2 when nothing there can be read, 6 when it was
    read in part or the source cannot be reached.
    """
    from graph.cli.adhoc import Asked, adhoc_source
    from graph.cli.listing import analysis_document, analysis_lines
    from graph.cli.session import print_json, run_async
    from nodes.insights.analyze import Analysis
    from nodes.insights.analyze import analyze as run

    asked = Asked(
        traces=tuple(traces or ()), baseline=tuple(baseline or ()), form=form, source=source,
        base_url=base_url, project=tracing_project, environment=environment, since=since,
        compare=compare, within=within,
    )  # fmt: skip

    async def work() -> Analysis:
        with adhoc_source(asked) as given:
            return await run(given.source, given.window, project="adhoc", baseline=given.baseline)

    found = run_async(work)
    if as_json:
        print_json(analysis_document(found))
    else:
        for line in analysis_lines(found):
            typer.echo(line)
    if found.status == "partial":
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
