"""`tracemend analyze`, `improve`, `resume`, `retry` and `status`: from traces to a card."""

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
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that read files; all cores when more than 50 MB."),
    ] = None,
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
            return await run(
                given.source, given.window, project="adhoc", baseline=given.baseline, jobs=jobs
            )

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
    from graph.outcomes import Ran

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
    """Go on with every unfinished run, close cards that expired, start what is ready.

    Quarantined runs are left alone, and named; `tracemend retry` puts them back.
    """
    from graph.cli.listing import quarantined_lines, ran_lines
    from graph.cli.session import fail, open_session, print_json, ran_json, run_async
    from graph.outcomes import Ran
    from memory.incidents import Incident

    async def work() -> tuple[list[Ran], list[Incident]]:
        async with open_session(project, quiet=as_json) as session:
            ran = await session.service.reconcile()
            return ran, session.ws.ledger.incidents.listed(state="quarantined")

    ran, quarantined = run_async(work)
    if as_json:
        left: list[Json] = [incident.thread for incident in quarantined]
        runs: list[Json] = [ran_json(one) for one in ran]
        print_json({"schema": "tracemend.resume/1", "runs": runs, "quarantined": left})
    else:
        for one in ran:
            for line in ran_lines(one):
                typer.echo(line)
        for line in quarantined_lines(quarantined):
            typer.echo(line)
        if not ran and not quarantined:
            typer.echo("nothing was unfinished")
    problem = next((one.problem for one in ran if one.problem is not None), None)
    if problem is not None:
        raise fail(problem)


def retry(
    thread: Annotated[str | None, typer.Argument(help="Thread of a quarantined run.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every quarantined run.")] = False,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Put a quarantined run back, once what it failed at is mended.

    A running server goes on with it at once; without one `tracemend resume` does.
    """
    from contracts.errors import UsageError
    from graph.cli.session import print_json, which_project
    from graph.recovery import Recovery
    from memory.workspace import open_project

    if (thread is None) != every:
        raise UsageError("name one thread, or give --all; `tracemend status` lists them")
    home, slug = which_project(project)
    ws = open_project(home, slug)
    listed = [run.thread for run in ws.ledger.incidents.listed(state="quarantined")]
    wanted = listed if thread is None else [thread]
    put_back: list[Json] = [one for one in wanted if Recovery(ws).retry(one)]
    if as_json:
        print_json({"schema": "tracemend.retry/1", "threads": put_back})
    elif put_back:
        for one in put_back:
            typer.echo(f"{one} is tried again: by the server, or by `tracemend resume`")
    else:
        typer.echo("nothing is quarantined" if thread is None else f"{thread} is not quarantined")


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
