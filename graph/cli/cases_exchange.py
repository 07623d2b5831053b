"""`tracemend cases import`, `export`, and `add --from-traces`: cases from and to other places."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contracts.gate import Case, CaseTag
    from contracts.json_types import Json
    from memory.workspace import Workspace
    from nodes.cases.adding import Added
    from nodes.cases.exchange import Imported

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
_SHOWN = 20  # refused items that are named; all of them are counted


def import_cases(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|langfuse:NAME|langsmith:NAME",
            help="A file of cases, a .jsonl file of dataset items, or a dataset.",
        ),
    ],
    file: Annotated[
        str | None, typer.Option(help="Where they go; default: cases/added.yaml.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="What all of them are for; default: what each says itself."),
    ] = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:  # fmt: skip
    """Read cases from elsewhere into a file of yours. Safe to repeat: known inputs add nothing.

    Items without assertions of ours are graded by their expected output; those that have none are
    refused and named. Exit 6: the dataset cannot be read.
    """
    from dataclasses import replace

    from graph.cli.cases import open_workspace
    from nodes.cases.adding import add_cases, chosen_file

    ws = open_workspace(project)
    path = chosen_file(ws, file)
    tags = known_tags(tag)
    found = _imported(ws, source, tags)
    cases = [replace(case, tags=tags) for case in found.cases] if tags else list(found.cases)
    done = add_cases(ws, path, cases)
    show_added(ws, done, "import", as_json=as_json, refused=found.refused)
    if found.changed:
        typer.echo(
            f"{len(found.changed)} cases were changed there since they were written; where an input"
            " is known here, the case here stays as it is", err=True,
        )  # fmt: skip


def known_tags(tags: "Sequence[str] | None") -> "frozenset[CaseTag] | None":
    """The tags of the command line; None: none were given.

    Raises:
        UsageError: there is no such tag.
    """
    from nodes.cases.adding import new_case

    if not tags:
        return None
    return new_case({"input": 0, "assert": [{"not_empty": True}], "tags": list(tags)}, "--tag").tags


def _imported(ws: "Workspace", source: str, tags: "frozenset[CaseTag] | None") -> "Imported":
    """The cases of a file of cases, or of a dataset's items."""
    from connectors.datasets.opening import is_vendors, open_dataset
    from contracts.datasets import DatasetItem
    from contracts.errors import UsageError
    from graph.cli.session import run_async
    from nodes.cases.adding import new_cases
    from nodes.cases.exchange import Imported, cases_of

    address = source
    if not is_vendors(source):
        path = Path(source)
        if not path.is_file():
            raise UsageError(f"{source}: there is no such file")
        if path.suffix != ".jsonl" or _holds_cases(path):
            text = _text(path, source)
            cases = new_cases(text, path.name, lines=path.suffix == ".jsonl")
            return Imported(cases=cases, refused=(), changed=())
        address = str(path.resolve())

    async def read() -> list[DatasetItem]:
        return [item async for item in open_dataset(address, ws.root, ws.settings.traces).read()]

    return cases_of(run_async(read), source, tags=tags)


def _holds_cases(path: Path) -> bool:
    """Whether the first line is a case of ours, and no item of a dataset."""
    import json

    first = next((line for line in _text(path, str(path)).split("\n") if line.strip()), "")
    try:
        value = json.loads(first)
    except ValueError:
        return True  # read as cases, the message names the line
    return isinstance(value, dict) and "assert" in value


def _text(path: Path, name: str) -> str:
    from contracts.errors import UsageError

    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: cannot be read: {error}") from error


def show_added(
    ws: "Workspace",
    done: "Added",
    command: str,
    *,
    as_json: bool,
    refused: "Sequence[tuple[str, str]]" = (),
) -> None:
    """What was added, what was there, and what is no case."""
    from graph.cli.session import one_line, print_json

    if as_json:
        document: dict[str, Json] = {
            "schema": f"tracemend.cases-{command}/1", "project": ws.project, "file": done.file,
            "added": [_named(case) for case in done.added],
            "known": [_named(case) for case in done.known],
            "differ": [_named(case) for case in done.differ], "unsealed": done.unsealed,
            "refused": [{"item": item, "why": why} for item, why in refused],
        }  # fmt: skip
        print_json(document)
        return
    if len(done.added) == 1:
        typer.echo(f"added {_named(done.added[0])} to {done.file}")
    elif done.added or not done.known:
        typer.echo(f"added {len(done.added)} cases to {done.file}")
    for case in done.known[:_SHOWN] if len(done.known) <= _SHOWN else ():
        other = "; it asserts something else, and stays as it is" if case in done.differ else ""
        typer.echo(f"there already: {_named(case)} ({case.origin}){other}")
    if len(done.known) > _SHOWN:
        differ = f", {len(done.differ)} of them with other assertions" if done.differ else ""
        typer.echo(f"there already: {len(done.known)} cases{differ}")
    for item, why in refused[:_SHOWN]:
        typer.echo(f"refused: {one_line(item)}: {one_line(why)}")
    if len(refused) > _SHOWN:
        typer.echo(f"refused: {len(refused)} items in all")
    if done.unsealed:
        typer.echo(
            f"{done.unsealed} sealed cases only train from now on: a new case is a near copy of"
            " them; take it out again, or tag it sealed, to keep them", err=True,
        )  # fmt: skip


def _named(case: "Case") -> str:
    """Its id; of a sealed one the beginning of its fingerprint."""
    from memory.cases import fingerprint

    return f"sealed {fingerprint(case)[:12]}" if "sealed" in case.tags else str(case.id)


def export_cases(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|langfuse:NAME|langsmith:NAME",
            help="A .yaml or .jsonl file of cases, or a dataset.",
        ),
    ],
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only cases with this tag; several times.")
    ] = None,
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Sealed cases too; whoever drafts must not see them.")
    ] = False,
    project: _Project = None,
    as_json: _Json = False,
) -> None:  # fmt: skip
    """Write cases, mined ones too, to a file or a dataset. Safe to repeat: each is written once.

    What goes to a vendor is masked by the project's redaction rules first. Exit 6: the dataset
    refused, or cannot be reached; what was written stays.
    """
    from connectors.datasets.opening import is_vendors
    from contracts.errors import UsageError
    from graph.cli.cases import open_workspace
    from nodes.casebook import read_casebook

    ws = open_workspace(project)
    wanted = known_tags(tag) or frozenset()
    if "sealed" in wanted and not sealed:
        raise UsageError("--tag sealed: sealed cases are written with --sealed only")
    cases = [case for case in read_casebook(ws).cases if not wanted or wanted & case.tags]
    held = [case for case in cases if "sealed" in case.tags and not sealed]
    cases = [case for case in cases if case not in held]
    if is_vendors(target):
        _to_vendor(ws, target, cases, len(held), as_json=as_json, sealed=sealed)
    else:
        _to_file(ws, target, cases, len(held), as_json=as_json)
    count = sum("sealed" in case.tags for case in cases)
    if count:
        typer.echo(
            f"{count} sealed cases are in {target}: keep it from whoever drafts edits", err=True
        )


def _to_vendor(
    ws: "Workspace", target: str, cases: "Sequence[Case]", held: int, *, as_json: bool, sealed: bool
) -> None:
    from connectors.datasets.opening import open_dataset
    from graph.cli.session import run_async
    from nodes.cases.exchange import items_of

    made = items_of(cases, sealed=sealed)
    dataset = open_dataset(target, ws.root, ws.settings.traces)
    added = run_async(lambda: dataset.add(made.items))
    known = len(made.items) - added
    _show_exported(ws, target, added, known, held, as_json=as_json, masked=made.masked)


def _to_file(
    ws: "Workspace", target: str, cases: "Sequence[Case]", held: int, *, as_json: bool
) -> None:
    from contracts.errors import ConfigError, UsageError
    from memory.case_files import parse_entries
    from memory.case_writing import appended, entry_of, write_text

    path = Path(target)
    if path.suffix not in (".yaml", ".yml", ".jsonl"):
        raise UsageError(f"{target}: name a .yaml or .jsonl file, langfuse:NAME or langsmith:NAME")
    before = path.read_bytes() if path.exists() else None
    text = "" if before is None else _text(path, target)
    try:
        there = {
            entry["id"]
            for entry in parse_entries(text, path.name)
            if isinstance(entry, dict) and "id" in entry
        }
    except ConfigError as error:
        raise UsageError(str(error)) from error
    new = [case for case in cases if case.id not in there]
    write_text(path, before, appended(text, path.name, [entry_of(case) for case in new]))
    _show_exported(ws, target, len(new), len(cases) - len(new), held, as_json=as_json)


def _show_exported(
    ws: "Workspace",
    target: str,
    added: int,
    known: int,
    held: int,
    *,
    as_json: bool,
    masked: int = 0,
) -> None:
    from graph.cli.session import print_json

    if as_json:
        document: dict[str, Json] = {
            "schema": "tracemend.cases-export/1", "project": ws.project, "target": target,
            "added": added, "known": known, "held_back": held, "masked": masked,
        }  # fmt: skip
        print_json(document)
        return
    typer.echo(f"wrote {added} cases to {target}; {known} were there already")
    if held:
        typer.echo(f"{held} sealed cases were held back (--sealed writes them too)")
    if masked:
        typer.echo(f"something was masked in {masked} of them")


def add_from_traces(
    ws: "Workspace", n: int, since: str | None, seed: int, *, as_json: bool
) -> None:
    """Draw ordinary requests of the window, and seal them in the ledger."""
    from contracts.errors import UsageError
    from contracts.traces import TraceQuery
    from graph.cli.adhoc import length
    from graph.cli.session import one_line, print_json, run_async
    from memory.cases import fingerprint
    from nodes.cases.mine import MOST, keep_ordinary, mine_ordinary
    from nodes.ports import open_source

    if n > MOST:
        raise UsageError(f"--from-traces {n}: {MOST} at most in one draw")
    end = ws.ledger.db.clock()
    back = length("--since", since) if since else ws.settings.analysis.window
    query = TraceQuery(start=end - back, end=end)
    mined = run_async(lambda: mine_ordinary(ws, open_source(ws), query, n, seed))
    with ws.ledger.db.write() as tx:
        new = keep_ordinary(ws, tx, mined)
    if as_json:
        document: dict[str, Json] = {
            "schema": "tracemend.cases-add/1", "project": ws.project, "asked": n, "seed": seed,
            "drawn": len(mined.cases), "new": new, "units": mined.units,
            "left_out": dict(mined.left_out), "status": mined.status,
            "fingerprints": [fingerprint(case) for case in mined.cases],
        }  # fmt: skip
        print_json(document)
    else:
        out = ", ".join(f"{count} {why}" for why, count in sorted(mined.left_out.items()))
        typer.echo(
            f"sealed {new} ordinary requests ({len(mined.cases)} drawn, {n} asked), out of"
            f" {mined.units} that were looked at" + (f"; left out: {out}" if out else "")
        )
    if mined.status == "partial":
        typer.echo(
            f"tracemend: the window was read in part: {one_line(mined.read.why or '')}", err=True
        )
        raise typer.Exit(6)
