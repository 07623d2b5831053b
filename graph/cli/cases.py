"""`tracemend cases …`: what the agent is tested on. This file lists, opens and adds."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from graph.cli import cases_exchange, cases_run, cases_sealed

if TYPE_CHECKING:
    from contracts.gate import Case
    from contracts.json_types import Json, JsonObject
    from memory.sealed import SealedCase
    from memory.workspace import Workspace
    from nodes.cases.adding import Added
    from nodes.cases.listing import Listed

app = typer.Typer(
    help="Cases: inputs with assertions that the gate runs your agent on.", no_args_is_help=True
)
app.command("import")(cases_exchange.import_cases)
app.command("export")(cases_exchange.export_cases)
app.command("split")(cases_sealed.split)
app.command("stats")(cases_sealed.stats)
app.command("check")(cases_run.check)
app.command("run")(cases_run.run)

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
_Tags = Annotated[list[str] | None, typer.Option("--tag", help="May be given several times.")]


@app.command("list")
def list_cases(
    tag: _Tags = None,
    sealed: Annotated[
        bool, typer.Option("--sealed", help="The sealed cases, by fingerprint; opens none.")
    ] = False,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            "--open", metavar="FINGERPRINT",
            help="Show one sealed case. That retires it: it proves nothing any more.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", help="Who opens it; default: the OS user.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before opening.")] = False,
    project: _Project = None,
    as_json: _Json = False,
) -> None:  # fmt: skip
    """All cases, from files and from traces, with what each is for now.

    Sealed ones are shown by count and fingerprint only.
    """
    from graph.cli.session import print_json
    from nodes.cases.listing import list_all

    ws = open_workspace(project)
    if fingerprint is not None:
        _open_one(ws, fingerprint, name, yes=yes, as_json=as_json)
        return
    tags = cases_exchange.known_tags(tag)
    listed = list_all(ws)
    rows = [row for row in listed.rows if not tags or tags & row.case.tags]
    if as_json:
        print_json(_list_json(ws, listed, [row.json for row in rows], sealed=sealed))
        return
    for row in [] if sealed else rows:
        typer.echo(row.line)
    for line in listed.manifest if sealed else ():
        typer.echo(_manifest_line(line))
    typer.echo(listed.summary)
    for note in listed.notes:
        typer.echo(f"note: {note}", err=True)


def _list_json(
    ws: "Workspace", listed: "Listed", rows: "Sequence[JsonObject]", *, sealed: bool
) -> "JsonObject":
    lines: list[Json] = [
        {
            "fingerprint": line.fingerprint, "epoch": line.epoch, "uses": line.uses,
            "sealed_at": line.sealed_at, "retired_at": line.retired_at, "why": line.why,
        }
        for line in listed.manifest
    ]  # fmt: skip
    return {
        "schema": "tracemend.cases-list/1", "project": ws.project, "revision": listed.revision,
        "cases": [*rows],
        "sealed": {
            "cases": listed.sealed_cases, "families": listed.sealed_families,
            "epoch": listed.epoch, "manifest": listed.manifest_hash,
            **({"listed": lines} if sealed else {}),
        },
        "notes": [*listed.notes],
    }  # fmt: skip


def _manifest_line(line: "SealedCase") -> str:
    state = f"retired {line.retired_at[:10]}: {line.why}" if line.retired_at else "sealed"
    return f"{line.fingerprint[:12]}  epoch {line.epoch}  {line.uses} uses  {state}"


def _open_one(
    ws: "Workspace", fingerprint: str, name: str | None, *, yes: bool, as_json: bool
) -> None:
    from contracts.errors import UsageError
    from graph.cli.session import person, print_json
    from memory.cases import fingerprint as mark_of
    from nodes.cases.sealing import open_sealed, sealed_case

    case = sealed_case(ws, fingerprint)
    who = person(name).name or "somebody"
    if not yes:
        said = f"Opening {mark_of(case)[:12]} retires it for good: it only trains from now on."
        if not sys.stdin.isatty():
            raise UsageError(f"{said} Say so with --yes")
        typer.confirm(f"{said} Open it?", abort=True, err=True)
    siblings = open_sealed(ws, case, who)
    if as_json:
        document: dict[str, Json] = {
            "schema": "tracemend.cases-list/1", "project": ws.project,
            "opened": {**_case_json(case), "by": who, "siblings_retired": siblings},
        }  # fmt: skip
        print_json(document)
        return
    typer.echo(_case_text(case))
    also = f", and {siblings} more of its family with it" if siblings else ""
    typer.echo(f"{case.id} is retired{also}: opened by {who}", err=True)


def _case_json(case: "Case") -> "JsonObject":
    from memory.case_writing import entry_of
    from memory.cases import fingerprint

    return {"fingerprint": fingerprint(case), **entry_of(case), "origin": case.origin}


def _case_text(case: "Case") -> str:
    """As its file would hold it: what it says is data, so it is quoted."""
    from memory.case_writing import appended, entry_of

    return appended("", "case.yaml", [entry_of(case)]).rstrip("\n")


@app.command("add")
def add(
    case_input: Annotated[
        str | None,
        typer.Option("--input", help="JSON, or @FILE with JSON, or - for standard input."),
    ] = None,
    assertions: Annotated[
        list[str] | None,
        typer.Option(
            "--assert", metavar="KIND=ARGUMENT", help='Such as contains=queued, not_empty, or '
            'tool_called={"name": "refund"}. May be given several times; all must hold.',
        ),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="What it is for; default: training.")
    ] = None,
    family: Annotated[str | None, typer.Option(help="Where near copies are not enough.")] = None,
    issue: Annotated[
        str | None, typer.Option(help="Signature of the finding that it once failed with.")
    ] = None,
    case_id: Annotated[
        str | None, typer.Option("--id", help="Default: made of the input.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="From tracemend.yaml on; default: cases/added.yaml.")
    ] = None,
    from_traces: Annotated[
        int | None,
        typer.Option(
            "--from-traces", metavar="N", min=1, help="Seal N ordinary requests, drawn at random."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="With --from-traces: how far back, such as 7d.")
    ] = None,
    seed: Annotated[int, typer.Option(help="With --from-traces: of the draw.")] = 0,
    project: _Project = None,
    as_json: _Json = False,
) -> None:  # fmt: skip
    """Add cases to a file of yours; the same input twice is one case.

    Without --input, whole cases are read from standard input, as files hold them (YAML or JSON
    lines). With --from-traces nothing is written to a file: the ledger keeps what was drawn.
    """
    from contracts.errors import UsageError

    ws = open_workspace(project)
    single = (case_input, assertions, tag, family, issue, case_id)
    if from_traces is not None:
        if any(one is not None for one in (*single, file)):
            raise UsageError("--from-traces makes its own cases; give only --since and --seed")
        cases_exchange.add_from_traces(ws, from_traces, since, seed, as_json=as_json)
        return
    if since is not None:
        raise UsageError("--since goes with --from-traces")
    from nodes.cases.adding import add_cases, chosen_file, new_case, new_cases

    path = chosen_file(ws, file)
    if case_input is None:
        if any(one is not None for one in single):
            raise UsageError("--input is missing: JSON, @FILE, or - for standard input")
        text = _standard_input("cases")
        found = new_cases(text, "standard input", lines=text.lstrip().startswith("{"))
        if not found:
            raise UsageError("no case was given: --input and --assert, or cases on standard input")
        cases_exchange.show_added(ws, add_cases(ws, path, found), "add", as_json=as_json)
        return
    entry = _entry(case_input, assertions, tag, family=family, issue=issue, case_id=case_id)
    done = add_cases(ws, path, [new_case(entry, "case")])
    cases_exchange.show_added(ws, done, "add", as_json=as_json)
    _refuse_other(done)


def _refuse_other(done: "Added") -> None:
    from contracts.errors import UsageError

    if done.differ:
        earlier = done.differ[0]
        named = "a sealed case" if "sealed" in earlier.tags else f"{earlier.id} ({earlier.origin})"
        raise UsageError(f"that input is {named} already, with other assertions: nothing was added")


def _entry(
    case_input: str,
    assertions: "Sequence[str] | None",
    tags: "Sequence[str] | None",
    **named: str | None,
) -> "dict[str, object]":
    from contracts.errors import UsageError
    from nodes.cases.adding import parse_assertion, parse_input

    if not assertions:
        raise UsageError("--assert is missing: what must hold, such as --assert contains=queued")
    text = case_input
    if case_input == "-":
        text = _standard_input("an input")
    elif case_input.startswith("@"):
        text = _file_text(case_input[1:])
    entry: dict[str, object] = {
        "input": parse_input(text, "--input"),
        "assert": [parse_assertion(one) for one in assertions],
    }
    if tags:
        entry["tags"] = list(tags)
    names = {"family": named["family"], "issue": named["issue"], "id": named["case_id"]}
    return entry | {key: value for key, value in names.items() if value is not None}


def _standard_input(what: str) -> str:
    from contracts.errors import UsageError

    if sys.stdin.isatty():
        raise UsageError(f"standard input is a terminal; pipe {what} into it, or give --input")
    return sys.stdin.read()


def _file_text(name: str) -> str:
    from pathlib import Path

    from contracts.errors import UsageError

    try:
        return Path(name).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--input @{name}: cannot be read: {error}") from error


def open_workspace(project: str | None) -> "Workspace":
    """The project that a command works on."""
    from graph.cli.session import which_project
    from memory.workspace import open_project

    home, slug = which_project(project)
    return open_project(home, slug)
