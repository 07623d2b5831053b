"""`tracemend handoffs …`: tickets for what text cannot fix."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contracts.json_types import Json
    from memory.workspace import Workspace

app = typer.Typer(help="Tickets for findings that text cannot fix.")

SCHEMA = "tracemend.handoffs/1"

_Finding = Annotated[str, typer.Argument(help="Id of the finding that it is about.")]
_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_As = Annotated[str | None, typer.Option("--as", help="Who says so; default: the OS user.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.callback(invoke_without_command=True)
def _handoffs(context: typer.Context, project: _Project = None, as_json: _Json = False) -> None:
    """Tickets, oldest first, and whether they were taken."""
    if context.invoked_subcommand is None:
        list_handoffs(project=project, as_json=as_json)


@app.command("list")
def list_handoffs(project: _Project = None, as_json: _Json = False) -> None:
    """Every ticket: open or closed, sent or why not. Drives nothing."""
    from graph.cli.finding_lines import handoff_line
    from graph.cli.session import print_json
    from graph.finding_views import handoff_json

    ws = _open(project)
    listed: list[Json] = [handoff_json(ticket) for ticket in ws.ledger.handoffs.listed()]
    if as_json:
        print_json({"schema": SCHEMA, "project": ws.project, "handoffs": listed})
        return
    for one in listed:
        if isinstance(one, dict):
            typer.echo(handoff_line(one))
    if not listed:
        typer.echo("no hand-off: nothing was found yet that only others can fix")
    elif ws.settings.handoffs.webhook is None:
        typer.echo("none is sent anywhere: handoffs.webhook is not set (tracemend.yaml)", err=True)


@app.command("show")
def show(finding: _Finding, project: _Project = None, as_json: _Json = False) -> None:
    """One ticket as Markdown, ready for a tracker."""
    from graph.cli.finding_lines import handoff_standing
    from graph.cli.session import print_json
    from graph.finding_views import handoff_json
    from graph.handoffs import ticket_of
    from nodes.handoff import ticket_text

    ws = _open(project)
    ticket = ticket_of(ws, finding)
    standing = handoff_json(ticket) or {}
    text = ticket_text(ticket.body)
    if as_json:
        document: dict[str, Json] = {**standing, "ticket": ticket.body, "text": text}
        print_json({"schema": SCHEMA, "project": ws.project, "handoff": document})
        return
    typer.echo(f"{ticket.finding}  {handoff_standing(standing)}", err=True)
    typer.echo(text)


@app.command("send")
def send(finding: _Finding, project: _Project = None, as_json: _Json = False) -> None:
    """Send one ticket to the webhook now, sent before or not. Exit 6: it was not taken."""
    from graph.cli.session import one_line, print_json, run_async
    from graph.deliveries import deliver

    ws = _open(project)
    done = run_async(lambda: deliver(ws, finding))
    if as_json:
        print_json(
            {
                "schema": SCHEMA, "project": ws.project, "finding": done.finding,
                "sent": done.problem is None, "problem": done.problem,
            }
        )  # fmt: skip
    elif done.problem is None:
        typer.echo(f"{done.finding} was taken by the webhook")
    else:
        typer.echo(f"tracemend: {one_line(done.problem)}; it is tried again later", err=True)
    if done.problem is not None:
        raise typer.Exit(6)


@app.command("close")
def close(
    finding: _Finding,
    reason: Annotated[str, typer.Option(help="What was done, or why nothing will be.")],
    name: _As = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Close a ticket. It is filed again when the rate rises above what it is now."""
    from graph.cli.finding_lines import handoff_line
    from graph.cli.session import person, print_json
    from graph.finding_views import handoff_json
    from graph.handoffs import close_ticket

    ws = _open(project)
    closed = handoff_json(close_ticket(ws, finding, reason, person(name))) or {}
    if as_json:
        print_json({"schema": SCHEMA, "project": ws.project, "handoff": closed})
    else:
        typer.echo(handoff_line(closed))


def _open(project: str | None) -> "Workspace":
    from graph.cli.session import which_project
    from memory.workspace import open_project

    home, slug = which_project(project)
    return open_project(home, slug)
