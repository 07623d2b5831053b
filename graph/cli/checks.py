"""What `doctor` checks: the installation, the settings, what the project needs, how ready it is."""

import asyncio
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from configs.gate_settings import ProbeSettings
from connectors.harness.git import GitHarness
from connectors.models.chat import open_model
from connectors.probe.command import can_start
from connectors.probe.local import LOCAL, isolation_refused
from contracts.errors import TracemendError
from contracts.json_types import Json
from contracts.protocols import Harness
from contracts.traces import SourceInfo
from graph.cli.prompts import loading_line
from graph.cli.readiness import readiness
from graph.cli.session import one_line, which_project
from graph.server.cron import check_schedules
from memory.workspace import DATABASE_VARIABLE, Workspace, open_project
from nodes.casebook import read_casebook
from nodes.evolution.outside import SHORT_LOOK, map_of
from nodes.ports import open_harness, open_source_at
from nodes.readiness.properties import State

PACKAGES = ("contracts", "configs", "memory", "connectors", "nodes", "graph")


MAX_CLOCK_OFFSET_S = 60
"""Windows are cut by the minute; a backend whose clock is further off gives other traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One line of `doctor`. Only what is not `ok` keeps the project from working (exit 2)."""

    name: str
    ok: bool
    detail: str
    state: State = "ok"
    """How it stands where it can be used all the same: "warn", a property's "no", "unknown"."""
    advice: str = ""
    readiness: bool = False
    """One of the eight properties, not a check of something that must be there."""

    @property
    def mark(self) -> str:
        """Four characters in front of the line."""
        if not self.ok:
            return "BAD "
        return {"ok": "ok  ", "warn": "warn", "no": "no  ", "unknown": "?   "}[self.state]

    @property
    def line(self) -> str:
        """The whole line."""
        return (
            f"{self.mark}  {self.name}: {self.detail}{f' -> {self.advice}' if self.advice else ''}"
        )


def checks_json(checks: Iterable[Checked]) -> dict[str, Json]:
    """The document of `doctor --json`."""
    done = list(checks)
    return {
        "schema": "tracemend.doctor/1",
        "ok": all(check.ok for check in done),
        "checks": [
            {
                "name": c.name,
                "state": c.state if c.ok else "bad",
                "detail": c.detail,
                "advice": c.advice,
            }
            for c in done
            if not c.readiness
        ],
        "readiness": [
            {"name": c.name, "state": c.state, "evidence": c.detail, "advice": c.advice}
            for c in done
            if c.readiness
        ],
    }


def run_checks(project: str | None) -> Iterator[Checked]:
    """Every check; one that fails does not hide the others where they can still run."""
    yield Checked(name="python", ok=sys.version_info >= (3, 11), detail=sys.version.split()[0])
    yield _packages()
    try:
        home, slug = which_project(project)
        ws = open_project(home, slug)
    except TracemendError as error:
        yield Checked(name="project", ok=False, detail=one_line(str(error)))
        return
    yield Checked(name="project", ok=True, detail=f"{slug} in {ws.root}, home {home}")
    yield _guarded("audit log", lambda: _audit(ws))
    yield _guarded("harness", lambda: _harness(ws))
    yield _guarded("changes", lambda: _changes(ws))
    yield _guarded("prompt map", lambda: _prompt_map(ws))
    infos: list[SourceInfo] = []
    yield from _sources(ws, infos)
    yield _guarded("cases", lambda: _cases(ws))
    yield _guarded("probe", lambda: probe_check(ws.settings.probe, ws.root))
    yield _guarded("models", lambda: _models(ws))
    if ws.settings.schedules:
        yield _guarded("schedules", lambda: _schedules(ws))
    if os.environ.get(DATABASE_VARIABLE):
        yield _cluster(ws)
    yield from _readiness(ws, max((i.newest for i in infos if i.newest), default=None))


def _packages() -> Checked:
    """Our top-level names must be ours: another package named `memory` would win silently."""
    here = Path(__file__).resolve().parents[2]
    foreign = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None or not origin.is_relative_to(here):
            foreign.append(f"{name} is {origin}")
    detail = "; ".join(foreign) or f"{len(PACKAGES)} packages resolve inside {here}"
    return Checked(name="packages", ok=not foreign, detail=detail)


def _guarded(name: str, check: Callable[[], tuple[bool, str]]) -> Checked:
    try:
        ok, detail = check()
    except TracemendError as error:
        return Checked(name=name, ok=False, detail=one_line(str(error)))
    return Checked(name=name, ok=ok, detail=detail)


def _audit(ws: Workspace) -> tuple[bool, str]:
    state = ws.ledger.audit.verify()
    return state.ok, f"{state.entries} entries, whole" if state.ok else str(state.why)


def _changes(ws: Workspace) -> tuple[bool, str]:
    """Whether some change of the harness was begun and has no end."""
    begun = ws.ledger.effects.unfinished()
    if not begun:
        return True, "none is half-applied"
    what = "; ".join(sorted({f"{one.kind} of {one.target}" for one in begun}))
    return False, f"begun and not finished: {what}: `tracemend resume` goes on from there"


def _harness(ws: Workspace) -> tuple[bool, str]:
    opened = open_harness(ws)
    snapshot = asyncio.run(opened.read())
    left_out = [line for place in opened.places for line in _left_out(place.harness)]
    if not snapshot.files and not left_out:
        return False, f"harness.include matches no file under {ws.root}"
    told = f"{len(snapshot.files)} files, revision {snapshot.revision[:12]}"
    places = open_harness(ws).places
    gits = [place.harness for place in places if isinstance(place.harness, GitHarness)]
    stands = [asyncio.run(git.standing_line()) for git in gits]
    whole = not left_out and all(ok for ok, _ in stands)
    return whole, "; ".join([told, *(line for _, line in stands), *left_out])


def _left_out(harness: Harness) -> list[str]:
    """What the settings name of a vendor's prompts and the last read could not take."""
    names: dict[str, str] = getattr(harness, "left_out", {})
    return [f"{one_line(name)[:80]!r} is left out: {one_line(why)}" for name, why in names.items()]


def _prompt_map(ws: Workspace) -> tuple[bool, str]:
    """How many harness files nothing loads, as far as a short look over the repository tells."""
    snapshot = asyncio.run(open_harness(ws).read())
    return True, loading_line(map_of(ws, snapshot, SHORT_LOOK))


def _sources(ws: Workspace, infos: list[SourceInfo]) -> Iterator[Checked]:
    """One line a source; what each said is added to `infos`."""
    if not ws.settings.traces:
        why = "none configured; add `{kind: files, path: traces/}`"
        yield Checked(name="traces", ok=False, detail=why)
    for at in range(len(ws.settings.traces)):
        place = f"traces.{at}"
        try:
            info = asyncio.run(open_source_at(ws, at).check())
        except TracemendError as error:
            said = one_line(str(error))
            name = "traces" if said.startswith(place) else place
            yield Checked(name=name, ok=False, detail=said)
            continue
        infos.append(info)
        yield source_line(place, info, now=datetime.now(UTC), window=ws.settings.analysis.window)


def source_line(place: str, info: SourceInfo, *, now: datetime, window: timedelta) -> Checked:
    """What a source said of itself, and what is odd about it."""
    if not info.reachable:
        why = one_line(info.detail) or f"{info.source} cannot be read"
        return Checked(name=place, ok=False, detail=why)
    limits = f"rate limit: {info.limits}" if info.limits else ""
    said = [f"{info.source} by {info.reader}", info.detail, limits]
    warnings = []
    if info.newest is not None:
        said.append(f"newest trace {info.newest.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
        if now - info.newest > window:
            warnings.append(f"nothing newer than the window of {window}: is the agent traced?")
    if info.clock_offset_s is not None:
        side = "ahead" if info.clock_offset_s > 0 else "behind"
        said.append(f"clock {abs(info.clock_offset_s):.1f} s {side}")
        if abs(info.clock_offset_s) > MAX_CLOCK_OFFSET_S:
            warnings.append("the clocks differ: windows would be cut at another time")
    if info.can_write is not None:
        said.append("the key can write" if info.can_write else "the key can only read")
        if info.can_write:
            warnings.append(
                "reading needs no right to write: make a key that only reads where the vendor has "
                "such keys, else keep this one where nothing but Tracemend runs"
            )
    return Checked(
        name=place, ok=True, state="warn" if warnings else "ok",
        detail=one_line("; ".join(part for part in said if part)),
        advice="; ".join(warnings),
    )  # fmt: skip


def _readiness(ws: Workspace, newest: datetime | None) -> Iterator[Checked]:
    for found in asyncio.run(readiness(ws, newest)):
        yield Checked(
            name=found.name, ok=True, state=found.state, detail=one_line(found.evidence),
            advice=found.advice, readiness=True,
        )  # fmt: skip


def _cases(ws: Workspace) -> tuple[bool, str]:
    cases = read_casebook(ws).cases
    sealed = len({case.family for case in cases if "sealed" in case.tags})
    more = "" if sealed >= 30 else "; 30 sealed families are needed before a gate can accept"
    return True, f"{len(cases)}, in files and mined, {sealed} sealed families{more}"


def probe_check(spec: ProbeSettings | None, root: Path) -> tuple[bool, str]:
    """Whether runs can be started here as the settings ask. Starts at most an idle process."""
    if spec is None:
        return False, "none configured: findings are shown, but nothing can be tested or applied"
    if spec.kind not in LOCAL:
        return True, f"{spec.kind} at {str(spec.url).partition('?')[0]}"
    said = f"{spec.kind} `{shlex.join(spec.command)}`"
    if not can_start(spec.command[0], root):
        return False, f"{said}: no program {spec.command[0]!r} is found here"
    if (refused := isolation_refused(spec.limits, network=spec.network)) is not None:
        return False, f"{said}: {refused}"
    limits = spec.limits
    bounds = [("memory", limits.memory_mb, " MB"), ("processes", limits.processes, "")]
    kept = [f"{name} limit {most}{unit}" for name, most, unit in bounds if most is not None]
    return True, "; ".join([said, *([] if spec.network else ["network off"]), *kept])


def _cluster(ws: Workspace) -> Checked:
    """Several replicas may work here: what only one machine has cannot be every one's."""
    only_here = []
    if ws.settings.harness.folders:
        only_here.append(f"the harness is a folder ({ws.root})")
    if ws.settings.probe is not None and ws.settings.probe.kind in LOCAL:
        only_here.append("the probe is a command of this machine")
    if not only_here:
        return Checked(name="cluster", ok=True, detail="nothing is on one machine only")
    return Checked(
        name="cluster", ok=False, detail="; ".join(only_here),
        advice=f"with {DATABASE_VARIABLE} several replicas may serve this project, and another one "
        "may have another disk: run one replica, or replicas on one machine only",
    )  # fmt: skip


def _schedules(ws: Workspace) -> tuple[bool, str]:
    """Only a running server fires them; that one runs is not for `doctor` to say."""
    schedules = ws.settings.schedules
    check_schedules(schedules)
    said = (f"{s.name}: {s.run} at {s.cron} {s.timezone}" for s in schedules)
    return True, "; ".join(said)


_ROLES = {
    "editor": "drafts edits, playbooks where it fails",
    "analyst": "is asked for causes, rules where it fails",
    "router": "decides what free text asks for, and reads traces where models.screen_traces is set",
}


def _models(ws: Workspace) -> tuple[bool, str]:
    """Opens each model, without a call: a missing package or key shows here, not in a run."""
    named = {role: getattr(ws.settings.models, role) for role in _ROLES}
    said = []
    for role, name in named.items():
        if name is not None:
            open_model(name, key=f"models.{role}", root=ws.root)
            said.append(f"{role} {name} {_ROLES[role]}")
    return True, "; ".join(said) or "none configured; rules and playbooks work without"
