"""`tracemend memory …`: what is remembered of findings and lessons, and how it is searched."""

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.json_types import Json

if TYPE_CHECKING:
    from memory.knowledge import StoredFinding
    from memory.semantic import SemanticMemory, Standing
    from memory.workspace import Workspace
    from nodes.insights.tried import Tried

app = typer.Typer(help="Findings and lessons by meaning.", no_args_is_help=True)

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.command("status")
def status(project: _Project = None, as_json: _Json = False) -> None:
    """Say how many findings and lessons can be recalled, and whether an index is used."""
    from graph.cli.session import print_json

    ws, memory = _open(project)
    standing = memory.status() if memory is not None else []
    if as_json:
        print_json(_document("tracemend.memory-status/1", ws, standing))
    elif memory is None:
        typer.echo("memory is off (memory.embedder: off): findings are recalled by signature alone")
    for line in [] if as_json else _lines(ws, standing):
        typer.echo(line)


@app.command("reindex")
def reindex(project: _Project = None, as_json: _Json = False) -> None:
    """Make every vector that is missing or stale, and the index anew. Safe to kill and repeat."""
    from graph.cli.session import print_json

    ws, memory = _must(project)

    def said(kind: str, done: int) -> None:
        typer.echo(f"indexed {done} {kind}s", err=True)

    standing = memory.reindex(said)
    if as_json:
        print_json(_document("tracemend.memory-reindex/1", ws, standing))
    for line in [] if as_json else _lines(ws, standing):
        typer.echo(line)


@app.command("search")
def search(
    text: Annotated[str, typer.Argument(help="In your own words.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Of each kind.")] = 5,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Search findings, and what was tried before, by meaning."""
    from graph.cli.session import one_line, print_json
    from memory.semantic_keep import findings_of, lessons_of
    from nodes.insights.tried import tries

    ws, memory = _must(project)
    found = memory.search(text, kind="finding", limit=limit)
    learned = memory.search(text, kind="lesson", limit=4 * limit)
    near = {one.id: round(one.likeness, 4) for one in (*found.near, *learned.near)}
    known = {str(one.finding.id): one for one in findings_of(ws.ledger, [n.id for n in found.near])}
    listed = [known[one.id] for one in found.near if one.id in known]
    lessons = lessons_of(ws.ledger, [one.id for one in learned.near])
    by_finding = {one.id: near[one.id] for one in lessons}
    tried = sorted(tries(lessons), key=lambda one: -by_finding.get(one.lesson, 0.0))[:limit]
    if as_json:
        document: dict[str, Json] = {
            "schema": "tracemend.memory-search/1", "project": ws.project, "text": text,
            "findings": [_finding_json(one, near[one.finding.id]) for one in listed],
            "tried": [_tried_json(one, by_finding.get(one.lesson)) for one in tried],
            "how": [found.how, learned.how], "missing": found.missing + learned.missing,
        }  # fmt: skip
        print_json(document)
        return
    for stored in listed:
        f = stored.finding
        typer.echo(f"{near[f.id]:.2f}  {f.id}  {stored.state:<9} {one_line(f.title)}")
    for one in tried:
        typer.echo(f"{by_finding.get(one.lesson, 0.0):.2f}  {one.lesson}  {one_line(one.sentence)}")
        typer.echo(f"      for {one.signature} [{one.finding_id}]")
    if not listed and not tried:
        typer.echo("nothing like it is remembered")
    typer.echo(f"({found.how}; {learned.how})", err=True)
    if found.missing + learned.missing:
        late = found.missing + learned.missing
        typer.echo(f"{late} are not in memory yet: `tracemend memory reindex`", err=True)


def _finding_json(stored: "StoredFinding", likeness: float) -> dict[str, Json]:
    found = stored.finding
    return {
        "id": found.id, "title": found.title, "state": stored.state,
        "signature": found.signature, "likeness": likeness,
    }  # fmt: skip


def _tried_json(tried: "Tried", likeness: float | None) -> dict[str, Json]:
    return {
        "lesson": tried.lesson, "finding": tried.finding_id, "signature": tried.signature,
        "what": tried.sentence, "worth": tried.worth, "times": tried.times,
        "at": tried.at.isoformat(), "likeness": likeness,
    }  # fmt: skip


@app.command("forget")
def forget(
    lesson: Annotated[str, typer.Argument(help="Its id, as `memory search` shows it.")],
    by: Annotated[str | None, typer.Option("--as", help="Who asks; the OS user if absent.")] = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Delete one lesson: from the ledger, its vectors, and the index with its files."""
    from graph.cli.session import print_json

    ws, memory = _must(project)
    clean = memory.forget(lesson, by=by or getpass.getuser())
    if as_json:
        print_json(
            {"schema": "tracemend.memory-forget/1", "lesson": lesson, "index_rebuilt": clean}
        )
        return
    typer.echo(f"{lesson} is forgotten")
    if not clean:
        typer.echo(
            "its vector is still in files of the index, which another process owns: run "
            "`tracemend memory reindex` when that has ended", err=True,
        )  # fmt: skip
    del ws


def _open(project: str | None) -> "tuple[Workspace, SemanticMemory | None]":
    from graph.cli.session import which_project
    from memory.workspace import open_project
    from nodes.ports import open_memory

    home, slug = which_project(project)
    ws = open_project(home, slug)
    return ws, open_memory(ws)


def _must(project: str | None) -> "tuple[Workspace, SemanticMemory]":
    """The memory.

    Raises:
        ConfigError: it is turned off.
    """
    from contracts.errors import ConfigError

    ws, memory = _open(project)
    if memory is None:
        raise ConfigError("memory.embedder: off; set `hash` or `minilm` to use the memory")
    return ws, memory


def _document(schema: str, ws: "Workspace", standing: "list[Standing]") -> dict[str, Json]:
    kinds: list[Json] = [
        {
            "kind": one.kind, "documents": one.documents, "vectors": one.vectors,
            "stale": one.stale, "indexed": one.indexed,
        }
        for one in standing
    ]  # fmt: skip
    spec = ws.settings.memory
    return {
        "schema": schema, "project": ws.project, "embedder": spec.embedder,
        "chroma_url": spec.chroma_url, "kinds": kinds,
    }  # fmt: skip


def _lines(ws: "Workspace", standing: "list[Standing]") -> list[str]:
    lines = []
    for one in standing:
        index = "compared exactly" if one.indexed is None else f"{one.indexed} in the index"
        stale = f", {one.stale} to be made: `tracemend memory reindex`" if one.stale else ""
        lines.append(f"{one.documents} {one.kind}s: {one.vectors} vectors, {index}{stale}")
    if standing:
        lines.append(f"embedder: {ws.settings.memory.embedder}")
    return lines
