"""`tracemend playbooks …`: which there are, whether one is sound, what they say to a finding."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from configs.playbooks import Playbook
    from contracts.json_types import Json, JsonObject
    from memory.workspace import Workspace
    from nodes.evolution.playbook_try import Ground, Tried

app = typer.Typer(help="Edits that known causes call for. Nothing here writes anything.")

SCHEMA = "tracemend.playbooks/1"

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
_File = Annotated[Path, typer.Argument(help="A playbook file.")]
_Finding = Annotated[str, typer.Argument(help="Id of a finding.")]


@app.callback(invoke_without_command=True)
def _playbooks(context: typer.Context, project: _Project = None, as_json: _Json = False) -> None:
    """Every playbook by its cause, packaged ones and your own."""
    if context.invoked_subcommand is None:
        list_playbooks(project=project, as_json=as_json)


@app.command("list")
def list_playbooks(project: _Project = None, as_json: _Json = False) -> None:
    """Every playbook by its cause: what it can serve, and where it comes from."""
    from configs.playbooks import load_playbooks
    from graph.cli.session import print_json

    ws = _near(project)
    folders = _folders(ws)
    packaged = {book.id: book for book in load_playbooks()}
    listed: list[Json] = [
        _row(book, own=packaged.get(book.id) != book)
        for book in sorted(load_playbooks(folders), key=lambda b: (b.when.cause, b.id))
    ]
    if as_json:
        name = None if ws is None else ws.project
        print_json({"schema": SCHEMA, "project": name, "playbooks": listed})
        return
    for one in listed:
        if isinstance(one, dict):
            typer.echo(f"{one['cause']:<22} {one['id']:<30} {one['remedy']:<20} {one['from']}")
    if ws is None:
        typer.echo("no project is near: only packaged ones are listed", err=True)


@app.command("check")
def check(file: _File, project: _Project = None, as_json: _Json = False) -> None:
    """Read a file and try it on the harness with a made finding.

    Exit 2: it is no playbook, or names what no diagnosis gives. Exit 7: its edit has no place, or
    breaks a rule of the policy.
    """
    from configs.playbooks import load_playbooks, read_playbook
    from contracts.errors import ConfigError, PolicyRefused
    from graph.cli.session import print_json
    from nodes.evolution.playbook_try import made_finding, try_playbook

    book = read_playbook(file)
    ws = _near(project)
    try:
        finding = made_finding(book)
    except ConfigError as error:
        raise ConfigError(f"{error} ({file.name})") from None
    done = try_playbook(book, finding, _ground(ws))
    replaces = book.id in {one.id for one in load_playbooks()}
    if as_json:
        document: dict[str, Json] = {
            "schema": SCHEMA, "project": None if ws is None else ws.project,
            "playbook": _row(book, own=True), "replaces": replaces, "tried": _json(done),
        }  # fmt: skip
        print_json(document)
    elif done.problem is None:
        where = "a plain harness; no project is near" if ws is None else f"project {ws.project}"
        typer.echo(f"{book.id}: sound; tried on {where}, with made values")
        if replaces:
            typer.echo("it takes the place of the packaged playbook of that id")
        _lines(done)
    if done.problem is not None:
        raise PolicyRefused(f"{book.id}: {done.problem} ({file.name})")


@app.command("try")
def try_finding(finding: _Finding, project: _Project = None, as_json: _Json = False) -> None:
    """What each playbook for a finding's cause would propose now, or why it does not."""
    from configs.playbooks import load_playbooks
    from graph.cli.session import print_json, which_project
    from memory.workspace import open_project
    from nodes.evolution.playbook_try import try_all

    ws = open_project(*which_project(project))
    found = ws.ledger.knowledge.finding(finding).finding
    books = load_playbooks(_folders(ws))
    tried = try_all(books, found, _ground(ws))
    cause = found.diagnosis.cause
    if as_json:
        rows: list[Json] = [_json(one) for one in tried]
        print_json(
            {
                "schema": SCHEMA, "project": ws.project, "finding": found.id, "cause": cause,
                "parameters": dict(found.diagnosis.parameters), "tried": rows,
            }
        )  # fmt: skip
        return
    typer.echo(f"{found.id}  cause {cause}, {_parameters(found.diagnosis.parameters)}")
    for one in tried:
        said = "would be offered" if one.problem is None else one.problem
        typer.echo(f"{one.playbook}: {said}")
        if one.problem is None:
            _lines(one)
    if not tried:
        typer.echo(f"no playbook is for cause {cause}")


def _near(project: str | None) -> "Workspace | None":
    """The project that was named or is near; None: none is, and none was named."""
    from contracts.errors import ConfigError
    from graph.cli.session import which_project
    from memory.workspace import open_project

    try:
        home, slug = which_project(project)
    except ConfigError:
        if project is not None:
            raise
        return None
    return open_project(home, slug)


def _folders(ws: "Workspace | None") -> list[Path]:
    return [] if ws is None else [ws.root / folder for folder in ws.settings.playbooks]


def _ground(ws: "Workspace | None") -> "Ground":
    """The project's harness as it is now, with what releases put there; else a plain one."""
    from graph.cli.session import run_async
    from nodes.evolution.items_kept import ours
    from nodes.evolution.playbook_try import Ground
    from nodes.ports import open_harness

    if ws is None:
        return Ground()
    places = open_harness(ws)
    snapshot = run_async(places.read)
    spec = ws.settings.harness
    return Ground(
        snapshot=snapshot, include=spec.include, invariants=spec.invariants,
        known=ours(ws, snapshot).known, provenance=ws.settings.drafting.provenance,
    )  # fmt: skip


def _row(book: "Playbook", *, own: bool) -> "dict[str, Json]":
    return {
        "id": book.id, "cause": book.when.cause, "remedy": ", ".join(book.when.remedy),
        "from": "own" if own else "packaged",
    }  # fmt: skip


def _json(one: "Tried") -> "dict[str, Json]":
    return {
        "playbook": one.playbook, "problem": one.problem, "diff": list(one.diff),
        "why": one.draft.why if one.draft is not None else None,
    }  # fmt: skip


def _lines(one: "Tried") -> None:
    for line in one.diff:
        typer.echo(f"  {line}")


def _parameters(facts: "JsonObject") -> str:
    from connectors.review.clean import one_line
    from contracts.json_types import canonical_json

    return one_line(canonical_json(facts).decode("utf-8", "replace"), 400)
