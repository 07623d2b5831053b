"""`tracemend history FILE`: which release put each line of a harness file there."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nodes.attribution.history import History

SCHEMA = "tracemend.history/1"


def history(
    file: Annotated[str, typer.Argument(help="A file of the harness, by its path there.")],
    at: Annotated[
        str | None, typer.Option("--at", metavar="RELEASE", help="As this release left it.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Project slug.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Line by line: which release, for which finding, approved by whom, with which gate result.

    Lines that no release put there were written by hand, before Tracemend or since.
    """
    from contracts.codec import to_json
    from graph.cli.history_lines import show_history
    from graph.cli.session import print_json

    found = _read(project, file, at)
    if as_json:
        print_json({"schema": SCHEMA, **to_json(found)})
        return
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    show_history(found)


def _read(project: str | None, file: str, at: str | None) -> "History":
    from graph.cli.session import run_async, which_project
    from memory.workspace import open_project
    from nodes.attribution.history import history_of, read_target

    home, slug = which_project(project)
    ws = open_project(home, slug)
    try:
        target = run_async(lambda: read_target(ws)) if at is None else None
        return history_of(ws, file, target, at=at)
    finally:
        ws.ledger.close()
