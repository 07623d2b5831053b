"""`tracemend findings …`: what keeps failing, and what a person says of it."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from graph.findings import Said
    from memory.workspace import Workspace
    from nodes.decide import Person

app = typer.Typer(help="What keeps failing, worst first, and what you say of it.")

SCHEMA = "tracemend.findings/1"

_Finding = Annotated[str, typer.Argument(help="Id of a finding, or its signature.")]
_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_As = Annotated[str | None, typer.Option("--as", help="Who says so; default: the OS user.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
_All = Annotated[bool, typer.Option("--all", help="Closed and merged ones too.")]


@app.callback(invoke_without_command=True)
def _findings(
    context: typer.Context, every: _All = False, project: _Project = None, as_json: _Json = False
) -> None:
    """What keeps failing, worst first; `findings show ID` tells all of one."""
    if context.invoked_subcommand is None:
        list_findings(every=every, project=project, as_json=as_json)


@app.command("list")
def list_findings(every: _All = False, project: _Project = None, as_json: _Json = False) -> None:
    """Every finding that is not closed, worst first. Drives nothing."""
    from graph.cli.finding_lines import list_lines
    from graph.cli.session import print_json
    from graph.finding_views import list_document

    ws = _open(project)
    found = list_document(ws, every=every)
    if as_json:
        print_json({"schema": SCHEMA, "project": ws.project, "findings": found})
        return
    for line in list_lines(found):
        typer.echo(line)
    if not found:
        typer.echo("nothing was found yet, or everything is closed (--all); `tracemend improve`")


@app.command("show")
def show(finding: _Finding, project: _Project = None, as_json: _Json = False) -> None:
    """Everything that is known of a finding: evidence, contrasts, what was tried, who said what."""
    from graph.cli.finding_lines import show_lines
    from graph.cli.session import print_json
    from graph.finding_views import show_document

    ws = _open(project)
    found = show_document(ws, finding)
    if as_json:
        print_json({"schema": SCHEMA, "project": ws.project, "finding": found})
        return
    for line in show_lines(found):
        typer.echo(line)


@app.command("merge")
def merge(
    finding: _Finding,
    into: Annotated[str, typer.Argument(help="The finding that it is put into.")],
    name: _As = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Put a finding into another one: counted together from the next analysis on.

    Later signatures of the same kind, code and words, at a place of a like name, follow it.
    """
    from graph.findings import merge as say

    _said(lambda ws, who: say(ws, finding, into, who), name, project, as_json=as_json)


@app.command("split")
def split(
    finding: Annotated[str, typer.Argument(help="What was merged away, by id or signature.")],
    wording: Annotated[
        str | None,
        typer.Option(help="Mark of one message of the finding, as `show` prints it."),
    ] = None,
    name: _As = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Take a finding out of the one it was put into; or, with --wording, one message out of it."""
    from graph.findings import split as say

    _said(
        lambda ws, who: say(ws, finding, who, wording=wording), name, project, as_json=as_json
    )  # fmt: skip


@app.command("rename")
def rename(
    finding: _Finding,
    title: Annotated[str, typer.Argument(help="What it shall be called.")],
    name: _As = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Give a finding a title of your own."""
    from graph.findings import rename as say

    _said(lambda ws, who: say(ws, finding, title, who), name, project, as_json=as_json)


@app.command("close")
def close(
    finding: _Finding,
    reason: Annotated[str, typer.Option(help="Why it is left alone.")],
    name: _As = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Leave a finding alone until its rate is above what it is now."""
    from graph.findings import close as say

    _said(lambda ws, who: say(ws, finding, reason, who), name, project, as_json=as_json)


@app.command("reopen")
def reopen(
    finding: _Finding,
    reason: Annotated[str, typer.Option(help="Why it is taken up again.")] = "by hand",
    name: _As = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Take a closed finding up again."""
    from graph.findings import reopen as say

    _said(lambda ws, who: say(ws, finding, who, reason), name, project, as_json=as_json)


@app.command("choices")
def choices(project: _Project = None, as_json: _Json = False) -> None:
    """What people said of findings and what stands, oldest first."""
    from graph.cli.finding_lines import choice_line
    from graph.cli.session import print_json
    from graph.finding_views import choice_json

    ws = _open(project)
    standing = [choice_json(one) for one in ws.ledger.choices.listed()]
    if as_json:
        print_json({"schema": SCHEMA, "project": ws.project, "choices": standing})
        return
    for one in standing:
        typer.echo(choice_line(one))
    if not standing:
        typer.echo("nobody said anything of a finding yet")


@app.command("revoke")
def revoke(
    choice: Annotated[str, typer.Argument(help="Id, as `tracemend findings choices` shows it.")],
    name: _As = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Take a choice back, and what it did to its finding."""
    from graph.findings import Said
    from graph.findings import revoke as say

    _said(
        lambda ws, who: Said(choice=say(ws, choice, who), first=True),
        name, project, as_json=as_json, revoked=True,
    )  # fmt: skip


def _open(project: str | None) -> "Workspace":
    from graph.cli.session import which_project
    from memory.workspace import open_project

    home, slug = which_project(project)
    return open_project(home, slug)


def _said(
    say: "Callable[[Workspace, Person], Said]",
    name: str | None,
    project: str | None,
    *,
    as_json: bool,
    revoked: bool = False,
) -> None:
    """Enter what a person says, and print it."""
    from graph.cli.finding_lines import choice_line
    from graph.cli.session import person, print_json
    from graph.finding_views import choice_json

    ws = _open(project)
    said = say(ws, person(name))
    document = choice_json(said.choice)
    if as_json:
        print_json(
            {
                "schema": SCHEMA, "project": ws.project, "choice": document,
                "first": said.first, "revoked": revoked,
            }
        )  # fmt: skip
        return
    before = "taken back: " if revoked else "" if said.first else "stood already: "
    typer.echo(f"{before}{choice_line(document)}")
