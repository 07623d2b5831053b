"""What every command shares: the project's service, one JSON document, one line for an error."""

import asyncio
import getpass
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson
import typer

from contracts.codec import to_json
from contracts.errors import ConfigError, TracemendError
from contracts.gate import GateReport
from contracts.json_types import Json, JsonObject
from contracts.proposals import Decision, Release
from graph.cli.progress import Progress
from graph.installation import open_installation
from graph.service import Ran, Service
from memory.workspace import (
    Workspace,
    find_home,
    find_root,
    open_project,
    read_registry,
)
from nodes.decide import Person

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One project, opened for one command."""

    ws: Workspace
    service: Service
    progress: Progress


def which_project(named: str | None) -> tuple[Path, str]:
    """The installation's home and the project that a command works for.

    Raises:
        ConfigError: no project was named and none is near.
    """
    home = find_home()
    if named is not None:
        return home, named
    known = read_registry(home)
    try:
        root = find_root()
    except ConfigError:
        if len(known) == 1:
            return home, next(iter(known))
        raise
    for slug, folder in known.items():
        if folder == root:
            return home, slug
    raise ConfigError(f"{root} is not in {home / 'projects.yaml'}; `tracemend init` enters it")


@asynccontextmanager
async def open_session(project: str | None, *, quiet: bool) -> AsyncIterator[Session]:
    """Open the project's workspace and what drives its threads; both are closed at the end."""
    home, slug = which_project(project)
    ws = open_project(home, slug)
    try:
        with Progress(quiet=quiet) as progress:
            async with open_installation(home) as installation:
                driver = installation.door(slug).driver
                service = Service(ws, driver, progress.event)
                yield Session(ws=ws, service=service, progress=progress)
    finally:
        ws.ledger.close()


async def first_resume(session: Session) -> None:
    """Unfinished runs go on before anything new; a run that fails again is said and left."""
    for ran in await session.service.reconcile():
        if ran.problem is not None:
            session.progress.say(f"thread {ran.thread}: {ran.problem}")


def run_async(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a command's coroutine; Ctrl-C says that nothing is lost."""
    try:
        return asyncio.run(work())
    except KeyboardInterrupt:
        typer.echo("stopped; nothing is lost, `tracemend resume` goes on from here", err=True)
        raise typer.Exit(130) from None


def person(name: str | None) -> Person:
    """Who decides: `--as`, else the OS user. Who can run this owns the files."""
    if name is not None and not name.strip():
        raise ConfigError("--as: needs a name")
    return Person(name=(name or getpass.getuser()).strip(), via="cli", authenticated=True)


def print_json(document: Mapping[str, Json]) -> None:
    """The one document of `--json` on stdout."""
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")
    sys.stdout.flush()


def fail(error: TracemendError) -> typer.Exit:
    """One clear line on stderr and the exit code of the error."""
    typer.echo(f"tracemend: {one_line(str(error))}", err=True)
    return typer.Exit(error.exit_code)


def one_line(text: str) -> str:
    """Text of unknown origin as one printable line."""
    flat = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in flat)


def decision_json(decision: Decision | None) -> JsonObject | None:
    """`decision` of docs/cli.md."""
    if decision is None:
        return None
    return {
        "type": decision.type, "by": decision.by, "via": decision.via,
        "at": decision.at.isoformat(), "reason": decision.reason,
    }  # fmt: skip


def gate_json(report: tuple[GateReport, str] | None) -> JsonObject | None:
    """`gate` of docs/cli.md."""
    if report is None:
        return None
    found, digest = report
    claims: dict[str, Json] = {
        claim.name: {k: v for k, v in to_json(claim).items() if k != "name"}
        for claim in found.claims
    }
    return {
        "verdict": found.verdict, "reason": found.reason, "claims": claims, "runs": found.runs,
        "report_hash": digest,
    }  # fmt: skip


def release_json(release: Release | None) -> JsonObject | None:
    """`release` of docs/cli.md."""
    if release is None:
        return None
    return {"id": release.id, "before": release.before, "after": release.after}


def ran_json(ran: Ran) -> JsonObject:
    """One run of `improve` and `resume`."""
    problem = None if ran.problem is None else one_line(str(ran.problem))
    return {
        "thread": ran.thread, "finding": ran.finding, "proposal": ran.proposal,
        "state": ran.state, "problem": problem,
    }  # fmt: skip
