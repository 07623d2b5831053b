"""`tracemend cases split` and `cases stats`: the sealed set, and what it can prove."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contracts.json_types import Json
    from nodes.cases.split import Split

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def split(
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Of the families, how many to seal in all.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="Of the draw; the same seed draws the same.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would do.")] = False,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Seal a share of the training cases, family by family, before anything is drafted.

    Their tags change in their files, nothing else does. Cases that whoever drafts edits may have
    seen are never sealed, nor their near copies. Running it again seals no more.
    """
    from graph.cli.cases import open_workspace
    from graph.cli.session import print_json
    from nodes.cases.sealing import seal_share

    ws = open_workspace(project)
    done = seal_share(ws, share=share, seed=seed, write=not dry_run)
    manifest = ws.ledger.sealed.manifest_hash()
    if as_json:
        document: dict[str, Json] = {
            "schema": "tracemend.cases-split/1", "project": ws.project, "dry_run": dry_run,
            "share": share, "seed": seed, "cases": len(done.chosen),
            "families": done.chosen_families, "sealed_before": done.sealed_before,
            "free": done.free, "shown": done.shown, "manifest": manifest,
        }  # fmt: skip
        print_json(document)
        return
    typer.echo(_split_line(done, dry_run=dry_run))
    typer.echo(
        f"families: {done.sealed_before + done.chosen_families * (not dry_run)} sealed,"
        f" {done.free + done.chosen_families * dry_run} not, {done.shown} may not be"
        f" (shown to who drafts, or retired); manifest {manifest[:12]}"
    )


def _split_line(done: "Split", *, dry_run: bool) -> str:
    if not done.chosen:
        return "nothing to seal: that share is sealed already, or nothing else may be"
    verb = "would seal" if dry_run else "sealed"
    return f"{verb} {len(done.chosen)} cases in {done.chosen_families} families"


def stats(project: _Project = None, as_json: _Json = False) -> None:
    """Say what the sealed cases can prove, and how many more it would take.

    The first line is for everybody; the others are counts, uses and the row of margins of
    docs/gate.md for so many cases.
    """
    from graph.cli.cases import open_workspace
    from graph.cli.session import print_json
    from nodes.cases.listing import stats_now
    from nodes.cases.stats import first_line, lines

    ws = open_workspace(project)
    found, notes = stats_now(ws)
    if as_json:
        values = {key: value for key, value in asdict(found).items() if key != "row"}
        document: dict[str, Json] = {
            "schema": "tracemend.cases-stats/1", "project": ws.project,
            "line": first_line(found), **values, "tags": dict(found.tags),
            "margin": found.margin if found.margin < 1.0 else None, "more": found.more,
            "row": [
                {
                    "discordance": psi, "margin_05": a if a < 1.0 else None,
                    "margin_01": b if b < 1.0 else None,
                }
                for psi, a, b in found.row
            ],
            "notes": [*notes],
        }  # fmt: skip
        print_json(document)
        return
    typer.echo(first_line(found))
    for line in lines(found):
        typer.echo(line)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
