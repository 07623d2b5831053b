"""Start runs and drive them until a person is asked or they end; go on with what was unfinished.

Nodes write the ledger; this only starts and resumes runs by it.
"""

import asyncio
from typing import cast
from uuid import NAMESPACE_URL, uuid4, uuid5

from contracts.errors import ConnectorError, TracemendError, UsageError
from contracts.json_types import JsonObject
from graph.deliveries import Delivered, deliver_due
from graph.drive import Busy, Driver, OnEvent, Standing
from graph.outcomes import Ran, answered, expiry_of, not_driven, ran_to, stored_answer
from graph.recovery import Recovery
from memory.incidents import Incident
from memory.workspace import Workspace
from nodes.router import Request, alert_key, checked_request, incident_key

FOLLOW_SECONDS = 0.2
"""How often a run that another process drives is looked at."""


def thread_for(project: str, kind: str, key: str) -> str:
    """The one thread of equal requests."""
    return str(uuid5(NAMESPACE_URL, f"{project}|{kind}|{key}"))


def _ignore(_event: JsonObject) -> None:
    """For callers that show no progress."""


class Runs:
    """The runs of one project."""

    def __init__(self, ws: Workspace, driver: Driver, on_event: OnEvent = _ignore) -> None:
        self._ws = ws
        self._ledger = ws.ledger
        self._driver = driver
        self._on_event = on_event
        self.recovery = Recovery(ws)

    async def start(self, value: object) -> Ran:
        """Start a run for a request, or go on with the one that equal requests have already.

        Raises:
            UsageError: the request is not one, or the run that it has is quarantined.
        """
        request = checked_request(value)
        thread = await asyncio.to_thread(self._bind, request)
        try:
            ran = await self._advance(thread)
        except TracemendError:
            if request["kind"] in ("improve", "question", "text"):
                # A person is there to ask again; an alert stays unfinished and is tried again.
                await asyncio.to_thread(self._give_up, thread)
            raise
        await self.deliver_handoffs()
        return ran

    async def deliver_handoffs(self) -> list[Delivered]:
        """Send the hand-offs that are due; one that is not taken is noted and raises nothing."""
        return await deliver_due(self._ws)

    async def enqueue(self, value: object) -> str:
        """Bind a request to its thread and leave the driving to the dispatcher.

        Raises:
            UsageError: the request is not one.
        """
        return await asyncio.to_thread(self._bind, checked_request(value))

    async def advance(self, thread: str) -> Ran:
        """Drive a run until it waits for a person or ends.

        Raises:
            Busy: another living process drives it.
            UsageError: it is quarantined.
        """
        return await self._advance(thread, follow=False)

    def _give_up(self, thread: str) -> None:
        """Close a run that failed before it had a proposal."""
        found = self._ledger.incidents.find(thread)
        if found is None or found.state == "quarantined":
            return
        if not any(p.proposal.thread == thread for p in self._ledger.proposals.all_latest()):
            self._ledger.reads.clear(thread)  # the next run has a thread of its own
            self._ledger.incidents.set_state(thread, "closed")

    def _bind(self, request: Request) -> str:
        kind, key = request["kind"], incident_key(request)
        if kind in ("question", "text"):
            key = uuid4().hex
        elif kind == "improve":
            key = self._improve_key(request.get("finding"))
        thread = thread_for(self._ws.project, kind, key)
        body = cast("JsonObject", request)
        if kind == "alert":
            alert = request["alert"]
            thread = self._ledger.incidents.claim_alert(
                source=alert["source"], key=alert_key(alert), thread=thread, body=body
            )
        self._ledger.incidents.open(thread, kind=kind, key=key, request=body, driver="local")
        return thread

    def _improve_key(self, finding: str | None) -> str:
        """The finding, how many proposals it has had, and how many runs ended without one."""
        if finding is None:
            return f"next:{uuid4().hex}"
        key = f"{finding}:{self._ledger.proposals.count_for(finding)}"
        ended = 0
        while self._ledger.incidents.closed(
            thread_for(self._ws.project, "improve", f"{key}:{ended}")
        ):
            ended += 1
        return f"{key}:{ended}"

    async def _advance(self, thread: str, *, follow: bool = True) -> Ran:
        """Drive a run until it waits for a person or ends; `follow` one that is driven elsewhere.

        A run that was closed is not started: its trouble was over before, or it is long done.
        """
        incident = await asyncio.to_thread(self._ledger.incidents.get, thread)
        if incident.state == "quarantined":
            raise UsageError(
                f"thread {thread} is quarantined: {incident.problem}; mend that, then "
                f"`tracemend retry {thread}`"
            )
        used = await asyncio.to_thread(self.recovery.needs, incident)
        while True:
            standing = await self._drive(incident, follow=follow)
            if not standing.started:
                return not_driven(thread, incident.kind)
            if await asyncio.to_thread(self._note, thread, standing):
                break
        await asyncio.to_thread(self.recovery.worked, incident, used)
        return await asyncio.to_thread(ran_to, self._ledger, thread, incident.kind, standing)

    async def _drive(self, incident: Incident, *, follow: bool) -> Standing:
        """Steps until the run waits or ends."""
        standing = await self._driver.standing(incident.thread)
        if not standing.started and incident.state == "closed":
            return standing
        while not standing.finished:
            try:
                moved = await self._step(incident, standing)
            except Busy:
                if not follow:
                    raise
                await asyncio.sleep(FOLLOW_SECONDS)
                moved = await self._driver.standing(incident.thread)
            if moved is None:
                break
            standing = moved
        return standing

    def _note(self, thread: str, standing: Standing) -> bool:
        """Note where the run stands. False: its card was answered meanwhile, so it goes on.

        In one transaction with the look for an answer: whoever answers later finds a run that is
        noted as waiting, and wakes it in the answer's own transaction.
        """
        note = self._ledger.incidents.note
        due_at = None if standing.finished else expiry_of(self._ledger, standing)
        with self._ledger.db.write() as tx:
            if standing.finished:
                note(tx, thread, "closed")
            elif answered(self._ws, standing):
                return False
            else:
                note(tx, thread, "waiting", due_at=due_at)
        return True

    async def _step(self, incident: Incident, standing: Standing) -> Standing | None:
        """One call of the driver; None when the run waits for a person."""
        thread = incident.thread
        if not standing.started:
            return await self._driver.start(thread, incident.request, self._on_event)
        if not standing.pending:
            return await self._driver.go_on(thread, self._on_event)
        pending = standing.pending[0]
        answer = await asyncio.to_thread(stored_answer, self._ws, pending)
        if answer is None:
            return None
        return await self._driver.resume(thread, pending.id, answer, self._on_event)

    async def retry(self, thread: str) -> bool:
        """Put a quarantined run back among those that are driven. False: it is not quarantined.

        Raises:
            ProjectMismatch: this project has no such thread.
        """
        return await asyncio.to_thread(self.recovery.retry, thread)

    def due(self) -> list[str]:
        """Threads that there is something to do for now, oldest first."""
        ledger = self._ledger
        found = ledger.incidents.due(ledger.db.now(), drivers=self._driver.drives)
        return [incident.thread for incident in found]

    def may_be_driven(self, thread: str) -> bool:
        """Whether it is due and waits for no paused backend; where it does, that is noted."""
        incident = self._ledger.incidents.find(thread)
        if incident is None or incident.state not in ("running", "waiting"):
            return False
        if incident.due_at is None and incident.state == "waiting":
            return False
        if incident.due_at is not None and incident.due_at > self._ledger.db.now():
            return False
        circuit = self.recovery.held(incident)
        if circuit is not None:
            self.recovery.wait_for(incident, circuit)
        return circuit is None

    async def start_ready(self) -> str | None:
        """Start the finding that has waited longest, when no proposal is open; its thread.

        It is left to the dispatcher to drive. A run of it that is under way is not started twice.
        """
        ready = await asyncio.to_thread(self._next_ready)
        if ready is None:
            return None
        return await self.enqueue({"kind": "improve", "finding": ready})

    def _next_ready(self) -> str | None:
        """The finding whose turn it is; None while a proposal is open or its run is under way."""
        ready = self._ledger.knowledge.oldest_ready()
        if ready is None or self._ledger.proposals.open() is not None:
            return None
        finding = ready.finding.id
        thread = thread_for(self._ws.project, "improve", self._improve_key(finding))
        return finding if self._ledger.incidents.find(thread) is None else None

    async def reconcile(self) -> list[Ran]:
        """Go on with every unfinished run, expire old cards, start what is ready, send hand-offs.

        A run that fails again is reported with its problem and does not stop the others; one that
        is quarantined, or whose time has not come, is left alone.
        """
        drivers = self._driver.drives
        unfinished = await asyncio.to_thread(
            lambda: self._ledger.incidents.unfinished(drivers=drivers)
        )
        ran = [await self._reconciled(incident) for incident in unfinished]
        ready = await asyncio.to_thread(self._next_ready)
        if ready is not None:
            ran.append(await self.start({"kind": "improve", "finding": ready}))
        await self.deliver_handoffs()
        return ran

    async def _reconciled(self, incident: Incident) -> Ran:
        thread, kind = incident.thread, incident.kind
        ahead = (incident.due_at or "") > self._ledger.db.now()
        if ahead and incident.state == "running" and not incident.tries:
            # Its window settles, or its traces are late; a run that failed is tried again at once.
            why = f": {incident.problem}" if incident.problem else ""
            return not_driven(thread, kind, why=f"waits until {incident.due_at}{why}")
        circuit = await asyncio.to_thread(self.recovery.held, incident)
        if circuit is not None:
            why = f"{circuit.backend} is paused after failures until {circuit.open_until}"
            paused = ConnectorError(why, backend=circuit.backend, operation="paused")
            return not_driven(thread, kind, paused)
        try:
            return await self._advance(thread)
        except TracemendError as problem:
            if incident.state != "quarantined":
                await asyncio.to_thread(self.recovery.failed, thread, problem)
            return not_driven(thread, kind, problem)
