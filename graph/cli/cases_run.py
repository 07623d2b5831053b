"""`tracemend cases run` and `cases check`: for the operator's own CI."""

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from contracts.gate import Case
    from contracts.json_types import Json
    from graph.cli.progress import Progress
    from memory.workspace import Workspace
    from nodes.cases.check import Checked
    from nodes.cases.run import CasesRun

_Project = Annotated[str | None, typer.Option(help="Project slug.")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
_LISTED = 50  # cases that did not pass and are printed


def run(
    ids: Annotated[list[str] | None, typer.Argument(help="Cases; default: all.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Cases with this tag; several times.")
    ] = None,
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Sealed cases too, by fingerprint; opens none.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, max=100, help="Runs of each case.")] = 1,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML to this file.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of cases that must pass; default: every one."),
    ] = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Run cases on the agent with the harness as it is now, and grade them.

    Exit 0: all passed. 5: some failed. 6: none failed, but some could not be observed or were
    never run, which is no pass. Each run is kept; ten of them tell which cases pass stably. No run
    starts once gate.max_seconds or gate.max_usd is spent. Ctrl-C keeps what is done.
    """
    from graph.cli.cases import open_workspace
    from graph.cli.progress import Progress
    from graph.cli.session import print_json
    from nodes.cases.run import exit_code

    ws = open_workspace(project)
    cases = _chosen(ws, ids, tag, sealed=sealed)
    with Progress(quiet=False) as progress:
        done = _run(ws, cases, repeat, progress)
    if junit is not None:
        _write_junit(ws, done, junit)
    if as_json:
        print_json(_run_json(ws, done))
    else:
        _show(done)
    code = 130 if done.interrupted else exit_code(done, fail_under)
    if done.stopped is not None:
        typer.echo(f"tracemend: stopped: {done.stopped}", err=True)
    if code:
        sys.exit(code)


def _chosen(
    ws: "Workspace", ids: "Sequence[str] | None", tags: "Sequence[str] | None", *, sealed: bool
) -> "Sequence[Case]":
    from contracts.errors import UsageError
    from graph.cli.cases_exchange import known_tags
    from nodes.casebook import read_casebook

    wanted = known_tags(tags)
    book = read_casebook(ws)
    open_to = [case for case in book.cases if sealed or "sealed" not in case.tags]
    unknown = sorted(set(ids or ()) - {case.id for case in open_to})
    if unknown:
        raise UsageError(f"{unknown[0]}: no such case; sealed ones need --sealed")
    found = [
        case
        for case in open_to
        if (not ids or case.id in ids) and (not wanted or wanted & case.tags)
    ]
    if not found:
        held = len(book.cases) - len(open_to)
        more = f"; {held} sealed ones need --sealed" if held else ""
        raise UsageError(f"no case to run{more}")
    return found


def _run(ws: "Workspace", cases: "Sequence[Case]", repeat: int, progress: "Progress") -> "CasesRun":
    import asyncio

    from nodes.cases.run import open_run, run_cases

    made, harness = asyncio.run(open_run(ws, cases, repeat=repeat))
    session = f"{made.started_at.isoformat()} {secrets.token_hex(6)}"
    try:
        asyncio.run(run_cases(ws, made, harness, session=session, say=progress.event))
    except KeyboardInterrupt:
        made.stopped, made.interrupted = "by Ctrl-C; what is done is kept", True
    return made


def _write_junit(ws: "Workspace", done: "CasesRun", file: Path) -> None:
    from contracts.errors import UsageError
    from nodes.cases.junit import junit_xml

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(junit_xml(done, ws.project))
    except OSError as error:
        raise UsageError(f"--junit {file}: cannot be written: {error.strerror}") from error


def _run_json(ws: "Workspace", done: "CasesRun") -> "dict[str, Json]":
    from contracts.codec import to_json

    return {
        "schema": "tracemend.cases-run/1", "project": ws.project, "revision": done.revision,
        "started_at": done.started_at.isoformat(), "repeat": done.asked,
        "passed": done.count("passed"), "failed": done.count("failed"),
        "missing": done.count("missing"), "not_run": done.count("not_run"),
        "skipped": done.count("skipped"), "stopped": done.stopped,
        "spent_usd": done.spent_usd,
        "cases": [
            {
                "case": None if one.sealed else one.case.id, "name": one.name,
                "sealed": one.sealed, "standing": one.standing,
                "runs": [to_json(graded) for graded in one.runs],
            }
            for one in done.results
        ],
    }  # fmt: skip


def _show(done: "CasesRun") -> None:
    from nodes.cases.junit import summary

    words = {"failed": "FAIL", "missing": "LOST", "not_run": "----", "skipped": "skip"}
    bad = [one for one in done.results if one.standing in words]
    for one in bad[:_LISTED]:
        typer.echo(f"{words[one.standing]}  {one.name}  {summary(one)}")
    if len(bad) > _LISTED:
        typer.echo(f"      and {len(bad) - _LISTED} more; --junit or --json has them all")
    parts = {
        "failed": "failed", "missing": "could not be observed", "not_run": "were never run",
        "skipped": "skipped",
    }  # fmt: skip
    said = [f"{done.count('passed')} of {len(done.results)} cases passed"]
    said += [f"{n} {word}" for name, word in parts.items() if (n := done.count(name))]  # type: ignore[arg-type]  # names of standings
    spent = done.spent_usd
    cost = f"; ${spent:.2f}" if spent else ""
    runs = f"; {done.asked} runs of each" if done.asked > 1 else ""
    typer.echo(f"{', '.join(said)}{runs}{cost}")


def check(
    traces: Annotated[
        bool, typer.Option("--traces", help="Hold assertions against recorded runs as well.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(help="With --traces: how far back; default: analysis.window.")
    ] = None,
    project: _Project = None,
    as_json: _Json = False,
) -> None:
    """Look for what is wrong with the cases, one line a problem. Runs no agent.

    Files that cannot be read, one input under two ids, sealed cases that stand in the harness,
    judges without a model. With --traces also assertions that clean runs do not satisfy, and cases
    that do not fail on the run that they were made of. Exit 2 when something must be mended;
    remarks alone are 0.
    """
    from contracts.errors import UsageError
    from graph.cli.cases import open_workspace
    from graph.cli.session import one_line, print_json

    ws = open_workspace(project)
    if since is not None and not traces:
        raise UsageError("--since goes with --traces")
    found = _checked(ws, since, traces=traces)
    if as_json:
        document: dict[str, Json] = {
            "schema": "tracemend.cases-check/1", "project": ws.project, "cases": found.cases,
            "ok": not found.problems,
            "problems": [{"where": one.where, "what": one.what} for one in found.problems],
            "remarks": [{"where": one.where, "what": one.what} for one in found.remarks],
        }  # fmt: skip
        print_json(document)
    else:
        for one in found.problems:
            typer.echo(one_line(f"BAD   {one.where}: {one.what}"))
        for one in found.remarks:
            typer.echo(one_line(f"note  {one.where}: {one.what}"))
        typer.echo(
            f"{found.cases} cases, {len(found.problems)} problems, {len(found.remarks)} remarks"
        )
    if found.problems:
        sys.exit(2)


def _checked(ws: "Workspace", since: str | None, *, traces: bool) -> "Checked":
    from contracts.traces import TraceQuery
    from graph.cli.adhoc import length
    from graph.cli.session import run_async
    from nodes.casebook import read_casebook
    from nodes.cases.check import check_cases, file_problems
    from nodes.cases.recorded import check_recorded
    from nodes.ports import open_harness, open_source

    async def look() -> "Checked":
        harness = await open_harness(ws).read()
        if not traces or file_problems(ws):
            return check_cases(ws, harness)
        back = length("--since", since) if since else ws.settings.analysis.window
        end = ws.ledger.db.clock()
        recorded = await check_recorded(
            read_casebook(ws).cases, open_source(ws), TraceQuery(start=end - back, end=end),
            scores=ws.settings.analysis.scores,
        )  # fmt: skip
        return check_cases(ws, harness, recorded)

    return run_async(look)
