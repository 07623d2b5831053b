"""What `doctor` checks: the installation, the settings, and what the project needs to run."""

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from connectors.models.chat import open_model
from contracts.errors import TracemendError
from graph.cli.session import one_line, which_project
from memory.cases import load_cases
from memory.workspace import Workspace, open_project
from nodes.ports import open_harness, open_source

PACKAGES = ("contracts", "configs", "memory", "connectors", "nodes", "graph")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One line of `doctor`."""

    name: str
    ok: bool
    detail: str


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
    yield _guarded("traces", lambda: _traces(ws))
    yield _guarded("cases", lambda: _cases(ws))
    yield _guarded("probe", lambda: _probe(ws))
    yield _guarded("models", lambda: _models(ws))


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


def _harness(ws: Workspace) -> tuple[bool, str]:
    snapshot = asyncio.run(open_harness(ws).read())
    if not snapshot.files:
        return False, f"harness.include matches no file under {ws.root}"
    return True, f"{len(snapshot.files)} files, revision {snapshot.revision[:12]}"


def _traces(ws: Workspace) -> tuple[bool, str]:
    info = asyncio.run(open_source(ws).check())
    return info.reachable, f"{info.reader}: {info.detail}"


def _cases(ws: Workspace) -> tuple[bool, str]:
    cases = load_cases(ws.root, ws.settings.cases)
    sealed = len({case.family for case in cases if "sealed" in case.tags})
    more = "" if sealed >= 30 else "; 30 sealed families are needed before a gate can accept"
    return True, f"{len(cases)} in files, {sealed} sealed families{more}"


def _probe(ws: Workspace) -> tuple[bool, str]:
    spec = ws.settings.probe
    if spec is None:
        return False, "none configured: findings are shown, but nothing can be tested or applied"
    return True, " ".join(spec.command)


def _models(ws: Workspace) -> tuple[bool, str]:
    """Opens the editor, without a call: a missing package or key shows here, not in a run."""
    named = {k: v for k, v in ws.settings.models.model_dump().items() if v}
    if not named:
        return True, "none configured; rules and playbooks work without"
    said = []
    if editor := ws.settings.models.editor:
        open_model(editor, root=ws.root)
        said.append(f"editor {editor} drafts edits, playbooks where it fails")
    said += [f"{role} {name} (not used yet)" for role, name in named.items() if role != "editor"]
    return True, "; ".join(said)
