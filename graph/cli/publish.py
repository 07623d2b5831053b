"""`tracemend publish`: findings and gate runs back into the tool that the traces came from."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from connectors.publishing.opening import Vendor
    from contracts.json_types import Json

app = typer.Typer(
    no_args_is_help=True,
    help="Write findings and gate runs into Langfuse or LangSmith. Only when you ask for it.",
)
_To = Annotated[str, typer.Option("--to", metavar="langfuse|langsmith", help="Where to.")]
_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
_Dry = Annotated[bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")]
As = Literal["scores", "comments"]


@app.command("findings")
def findings(
    to: _To,
    finding: Annotated[str | None, typer.Argument(help="One finding; default: all open.")] = None,
    as_: Annotated[As, typer.Option("--as", help="Scores, or comments.")] = "scores",
    dry_run: _Dry = False,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Mark the exemplar traces of findings. Safe to repeat: ids are made of what they name.

    Scores of ours begin with `tracemend.` and are never read as evidence. In LangSmith feedback
    would move a trace to the extended, billed retention: it is sent so that it does not.
    Exit 6: the vendor cannot be reached; what was written stays, a second call writes the rest.
    """
    from graph.cli.cases import open_workspace
    from nodes.ports import open_publishing
    from nodes.publishing import marks_of

    vendor = _vendor(to)
    ws = open_workspace(project)
    marks = marks_of(ws, finding)
    publisher = open_publishing(ws, vendor)
    written = 0
    if marks and not dry_run:
        call = publisher.scores if as_ == "scores" else publisher.comments
        written = asyncio.run(call(marks))
    said: dict[str, Json] = {
        "schema": "tracemend.publish-findings/1", "place": publisher.place, "as": as_,
        "marks": len(marks), "written": written, "dry_run": dry_run,
        "names": sorted({mark.name for mark in marks}),
    }  # fmt: skip
    lines = [f"{mark.trace_id}  {mark.name}  {mark.text}" for mark in marks] if dry_run else []
    _show(said, lines, f"{written} of {len(marks)} {as_} written to {publisher.place}", as_json)


@app.command("gate")
def gate(
    proposal: Annotated[str, typer.Argument(help="Proposal whose gate has a verdict.")],
    to: _To,
    dataset: Annotated[
        str | None, typer.Option(help="LangSmith: the dataset that `cases export` wrote.")
    ] = None,
    dry_run: _Dry = False,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Write a gate's runs as two experiments, baseline and candidate, without sealed cases.

    Each run is marked as ours (`tracemend.run_id`, environment tracemend-gate), so that it is never
    read as evidence. The times are of the gate, not of its single runs. Runs that could not be
    observed are there without a score. What the vendor bills for traces, it bills for these.
    """
    from graph.cli.cases import open_workspace
    from nodes.ports import open_publishing
    from nodes.publishing import experiments_of

    vendor = _vendor(to)
    ws = open_workspace(project)
    arms = experiments_of(ws, proposal)
    publisher = open_publishing(ws, vendor, dataset=dataset)
    written = 0
    if not dry_run:
        written = asyncio.run(_all([publisher.experiment(one) for one in arms]))
    runs = sum(len(one.runs) for one in arms)
    said: dict[str, Json] = {
        "schema": "tracemend.publish-gate/1", "place": publisher.place,
        "experiments": [{"id": one.id, "name": one.name, "runs": len(one.runs)} for one in arms],
        "written": written, "dry_run": dry_run,
    }  # fmt: skip
    lines = [f"{one.name}: {len(one.runs)} runs" for one in arms]
    _show(said, lines, f"{written} of {runs} runs written to {publisher.place}", as_json)


async def _all(calls: "Sequence[Coroutine[object, object, int]]") -> int:
    """One after the other: each opens connections of its own."""
    return sum([await call for call in calls])


def _vendor(to: str) -> "Vendor":
    from connectors.publishing.opening import VENDORS
    from contracts.errors import UsageError

    found = next((one for one in VENDORS if one == to), None)
    if found is None:
        raise UsageError(f"--to {to}: needs one of {', '.join(VENDORS)}")
    return found


def _show(said: "dict[str, Json]", lines: "Sequence[str]", last: str, as_json: bool) -> None:
    import json

    if as_json:
        typer.echo(json.dumps(said, ensure_ascii=False))
        return
    for line in lines:
        typer.echo(line)
    typer.echo(last)
