"""`tracemend profile`: what the agent calls, how long that takes, what it costs, where it waits."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from contracts.protocols import TraceSource
    from contracts.traces import ReadReport, TraceQuery
    from graph.cli.adhoc import Asked
    from nodes.insights.profile import Profile

SCHEMA = "tracemend.profile/1"


def profile(
    traces: Annotated[
        list[str] | None,
        typer.Option(help="File, folder or pattern; `-` is standard input. Needs no project then."),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="Of --traces; detected when not given.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="A backend: langfuse, langsmith or phoenix.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Of the backend.")] = None,
    tracing_project: Annotated[str | None, typer.Option(help="The backend's project.")] = None,
    environment: Annotated[str | None, typer.Option(help="Only traces of this one.")] = None,
    since: Annotated[
        str | None, typer.Option(help="How far back, such as 24h; default: the project's window.")
    ] = None,
    within: Annotated[str, typer.Option(help="The most that reading may take.")] = "15m",
    project: Annotated[str | None, typer.Option(help="Project slug.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Profile the agent, also when nothing fails: calls, errors, time, tokens, cost, waits.

    Without --traces or --source the window of the project is read. Exit 2 when nothing can be read,
    6 when it was read in part.
    """
    from graph.cli.adhoc import Asked
    from graph.cli.profile_lines import profile_lines
    from graph.cli.session import print_json, run_async
    from nodes.insights.profile import profile_of
    from nodes.insights.profile_report import profile_json
    from nodes.insights.report import read_json

    asked = Asked(
        traces=tuple(traces or ()), baseline=(), form=form, source=source, base_url=base_url,
        project=tracing_project, environment=environment, since=since, compare=None, within=within,
    )  # fmt: skip

    async def work() -> "tuple[Profile, ReadReport]":
        with _opened(asked, project) as (where, query):
            return await profile_of(where, query)

    found, read = run_async(work)
    document = {"schema": SCHEMA, "read": read_json(read), **profile_json(found)}
    if as_json:
        print_json(document)
    else:
        for line in profile_lines(document):
            typer.echo(line)
    if read.status == "partial":
        raise typer.Exit(6)


def _opened(
    asked: "Asked", project: str | None
) -> "AbstractContextManager[tuple[TraceSource, TraceQuery]]":
    """The source and window that were named, else those of the project."""
    from contextlib import contextmanager
    from dataclasses import replace

    from contracts.traces import TraceQuery
    from graph.cli.adhoc import adhoc_source, length
    from graph.cli.session import which_project
    from memory.workspace import open_project
    from nodes.ports import open_source

    @contextmanager
    def opened() -> "Iterator[tuple[TraceSource, TraceQuery]]":
        if asked.traces or asked.source:
            with adhoc_source(asked) as given:
                yield given.source, given.window
            return
        home, slug = which_project(project)
        ws = open_project(home, slug)
        end = ws.ledger.db.clock()
        back = length("--since", asked.since) if asked.since else ws.settings.analysis.window
        query = TraceQuery(start=end - back, end=end)
        if asked.environment:
            query = replace(query, environment=asked.environment)
        yield open_source(ws), query

    return opened()
