"""Releases and undo, findings, runs, and whether the audit log is whole."""

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from contracts.errors import StaleBase, UsageError
from contracts.json_types import Json
from contracts.proposals import Release
from graph.findings import standing, title_of
from graph.server.deps import DispatcherDep, InstallationDep, PrincipalDep, door_holding, doors_of
from graph.server.problems import Problem
from graph.server.views import (
    AuditAnswer,
    AuditView,
    Changed,
    FindingPage,
    IncidentPage,
    IncidentView,
    ProblemView,
    ReleasePage,
    ReleaseView,
    StoryView,
    UndoAnswer,
    finding_view,
    incident_view,
    release_view,
    story_view,
)
from memory.incidents import Incident, IncidentState
from memory.knowledge import FindingState
from memory.ledger import Ledger
from nodes.attribution.story import story_of
from nodes.decide import Person

router = APIRouter()

Project = Annotated[str | None, Query(description="One project; default: all of yours.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most, newest first.")]


@router.get("/releases")
async def list_releases(
    installation: InstallationDep, caller: PrincipalDep, project: Project = None,
    limit: Limit = 100,
) -> ReleasePage:  # fmt: skip
    """What was applied and what was taken back, newest first."""
    found: list[ReleaseView] = []
    for door in await doors_of(installation, caller, project):
        releases = await asyncio.to_thread(door.ws.ledger.effects.releases)
        found += [release_view(release, door.ws.project) for release in releases]
    return ReleasePage(releases=sorted(found, key=lambda one: one.at, reverse=True)[:limit])


@router.get("/releases/{release}")
async def read_release(
    release: str, installation: InstallationDep, caller: PrincipalDep
) -> ReleaseView:
    """One release."""
    door, found = await door_holding(installation, caller, "read", "release", _release(release))
    return release_view(found, door.ws.project)


@router.get("/releases/{release}/story")
async def read_story(
    release: str, installation: InstallationDep, caller: PrincipalDep
) -> StoryView:
    """The whole story of a release, from its alert to what came of it."""
    door, _ = await door_holding(installation, caller, "read", "release", _release(release))
    return story_view(await asyncio.to_thread(story_of, door.ws, release))


@router.post(
    "/releases/{release}/undo",
    responses={
        202: {"model": UndoAnswer, "description": "The undo has started, in this thread."},
        412: {"model": Changed, "description": "Somebody changed the files since."},
    },
)
async def undo(
    release: str,
    installation: InstallationDep,
    dispatcher: DispatcherDep,
    caller: PrincipalDep,
    response: Response,
) -> UndoAnswer:
    """Restore the exact bytes from before a release. Asked again, it answers what was done."""
    door, _ = await door_holding(installation, caller, "decide", "release", _release(release))
    person = Person(name=caller.name, via="api", authenticated=True)
    try:
        done = await door.service.request_undo(release, person)
    except StaleBase as error:
        changed: list[Json] = list(error.changed)
        raise Problem(412, str(error), more={"changed": changed}) from error
    if not isinstance(done, str):
        shown = release_view(done.release, door.ws.project)
        return UndoAnswer(release=shown, first=done.first, thread=None)
    dispatcher.wake()
    response.status_code = 202
    return UndoAnswer(release=None, first=True, thread=done)


@router.get("/findings")
async def list_findings(
    installation: InstallationDep, caller: PrincipalDep, project: Project = None,
    state: FindingState | None = None,
) -> FindingPage:  # fmt: skip
    """What keeps failing, in the order in which it was found."""
    found = []
    for door in await doors_of(installation, caller, project):
        kept = await asyncio.to_thread(door.ws.ledger.knowledge.findings)
        said = await asyncio.to_thread(standing, door.ws)
        found += [
            finding_view(stored, door.ws.project, title_of(stored.finding, said))
            for stored in kept
            if state in (None, stored.state)
        ]
    return FindingPage(findings=found)


@router.get("/incidents")
async def list_incidents(
    installation: InstallationDep, caller: PrincipalDep, project: Project = None,
    state: IncidentState | None = None, limit: Limit = 100,
) -> IncidentPage:  # fmt: skip
    """Runs: where each stands, how often its alert fired, what stopped it."""
    found: list[IncidentView] = []
    for door in await doors_of(installation, caller, project):
        runs = await asyncio.to_thread(_runs(door.ws.ledger, state))
        found += [incident_view(run) for run in runs]
    return IncidentPage(incidents=sorted(found, key=lambda one: one.at, reverse=True)[:limit])


@router.get("/incidents/{thread}")
async def read_incident(
    thread: str, installation: InstallationDep, caller: PrincipalDep
) -> IncidentView:
    """One run."""
    _, found = await door_holding(installation, caller, "read", "incident", _incident(thread))
    return incident_view(found)


@router.post(
    "/incidents/{thread}/retry",
    responses={409: {"model": ProblemView, "description": "It is not quarantined."}},
)
async def retry(
    thread: str, installation: InstallationDep, dispatcher: DispatcherDep, caller: PrincipalDep
) -> IncidentView:
    """Put a quarantined run back among those that are driven."""
    door, found = await door_holding(installation, caller, "run", "incident", _incident(thread))
    if not await door.service.retry(thread):
        raise Problem(409, f"the run is {found.state}, not quarantined; there is nothing to retry")
    dispatcher.wake()
    return incident_view(await asyncio.to_thread(door.ws.ledger.incidents.get, thread))


@router.get("/audit/verify")
async def verify_audit(
    installation: InstallationDep, caller: PrincipalDep, project: Project = None
) -> AuditAnswer:
    """Walk the audit chain of each project; `ok` is false when one of them is broken."""
    found = []
    for door in await doors_of(installation, caller, project):
        state = await asyncio.to_thread(door.ws.ledger.audit.verify)
        fields = {name: getattr(state, name) for name in ("ok", "entries", "head", "first_bad")}
        found.append(AuditView(project=door.ws.project, why=state.why, **fields))
    return AuditAnswer(ok=all(one.ok for one in found), projects=found)


def _release(release: str) -> Callable[[Ledger], Release]:
    def find(ledger: Ledger) -> Release:
        return ledger.effects.release(release)

    return find


def _incident(thread: str) -> Callable[[Ledger], Incident]:
    def find(ledger: Ledger) -> Incident:
        found = ledger.incidents.find(thread)
        if found is None:
            raise UsageError(f"no thread {thread}")
        return found

    return find


def _runs(ledger: Ledger, state: IncidentState | None) -> Callable[[], list[Incident]]:
    def listed() -> list[Incident]:
        return ledger.incidents.listed(state=state)

    return listed
