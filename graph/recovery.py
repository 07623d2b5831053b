"""What becomes of a run that failed: tried again later, paused with its backend, or quarantined."""

import random
import re
from collections.abc import Collection
from datetime import datetime, timedelta

from configs.redaction import redact_head
from contracts.errors import (
    ConnectorError,
    LeaseLost,
    ProjectMismatch,
    TracemendError,
    TracesLate,
    UsageError,
)
from contracts.json_types import Json
from graph.drive import Busy
from memory.circuits import Circuit
from memory.database import rfc3339
from memory.incidents import Incident
from memory.workspace import Workspace

MAX_TRIES = 6
"""Failed tries in a row after which a person must look: about twenty minutes."""
FIRST_WAIT = timedelta(seconds=5)
LONGEST_WAIT = timedelta(minutes=15)
GROWTH = 4
"""Each wait is so many times the one before."""
JITTER = 0.2
"""A wait is shortened by up to this share, so that runs which failed together part."""
LATE_AGAIN = timedelta(seconds=30)
"""How soon a window whose traces are late is read again, at most."""
PROBE_FOR = timedelta(minutes=2)
"""How long the one run that tries a paused backend has it for itself."""
LONGEST_PROBLEM = 300
"""Characters of the line that says why a run failed."""
LONGEST_READ = 10_000
"""Characters of an error that are looked at."""
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Colours would hide where a secret begins."""

PROBE = "worker"
"""The backend that runs the agent under test; the others are needed to read traces, or always."""
SERVER = "server"
"""The backend that drives threads which a foreign server owns."""


def backoff(tries: int, rng: random.Random) -> timedelta:
    """How long to wait after so many failed tries in a row: 5 s, 20 s … 15 min, less jitter."""
    grown: float = FIRST_WAIT.total_seconds() * GROWTH ** (tries - 1)
    longest = min(grown, LONGEST_WAIT.total_seconds())
    return timedelta(seconds=longest * (1 - JITTER * rng.random()))


def problem_line(error: BaseException) -> str:
    """The error as one masked line; of an error that is not ours also its kind."""
    text = str(error) if isinstance(error, TracemendError) else f"{type(error).__name__}: {error}"
    flat = " ".join(_TERMINAL.sub(" ", text[:LONGEST_READ]).split())
    plain = "".join(c if c.isprintable() else " " for c in flat)
    return redact_head(plain, LONGEST_PROBLEM)


class Recovery:
    """Failures of the runs of one project."""

    def __init__(self, ws: Workspace, rng: random.Random | None = None) -> None:
        self._ws = ws
        self._ledger = ws.ledger
        self._rng = rng or random.Random()  # noqa: S311  # jitter

    def failed(self, thread: str, error: Exception) -> None:
        """Note a failure, and when the run is tried again, if it is."""
        if isinstance(error, Busy | LeaseLost):
            return  # it goes on elsewhere
        incident = self._ledger.incidents.find(thread)
        if incident is None or incident.state in ("closed", "quarantined"):
            return
        if isinstance(error, TracesLate):
            self._late(incident, error)
        elif isinstance(error, ProjectMismatch):
            self._stop(incident, error, "closed")
        elif isinstance(error, UsageError):
            self._stop(incident, error, "quarantined")
        else:
            self._again(incident, error)

    def _late(self, incident: Incident, error: Exception) -> None:
        late = self._ws.settings.alerts.late
        due = self._ledger.db.clock() + min(LATE_AGAIN, late / 10)
        self._ledger.incidents.set_state(
            incident.thread, "running", due_at=rfc3339(due), tries=incident.tries,
            problem=problem_line(error),
        )  # fmt: skip

    def _again(self, incident: Incident, error: Exception) -> None:
        tries = incident.tries + 1
        now = self._ledger.db.clock()
        due = now + backoff(tries, self._rng)
        if isinstance(error, ConnectorError):
            circuit = self._ledger.circuits.failed(
                error.backend, incident.thread, problem_line(error), now
            )
            if circuit.open_until is not None:
                due = max(due, datetime.fromisoformat(circuit.open_until))
                tries = min(tries, MAX_TRIES - 1)  # an outage is nothing that a person mends here
        if tries >= MAX_TRIES:
            self._stop(incident, error, "quarantined")
            return
        self._ledger.incidents.set_state(
            incident.thread, "running", due_at=rfc3339(due), tries=tries,
            problem=problem_line(error),
        )  # fmt: skip

    def _stop(self, incident: Incident, error: Exception, state: str) -> None:
        line, thread = problem_line(error), incident.thread
        with self._ledger.db.write() as tx:
            if state == "closed":
                self._ledger.incidents.note(tx, thread, "closed", problem=line)
            else:
                self._ledger.incidents.note(
                    tx, thread, "quarantined", tries=incident.tries + 1, problem=line
                )
            said: dict[str, Json] = {
                "thread": thread,
                "tries": incident.tries + 1,
                "error": type(error).__name__,
            }
            self._ledger.audit.append(tx, f"incident.{state}", said)

    def retry(self, thread: str) -> bool:
        """Put a quarantined run back; it is due at once, with all its tries.

        Raises:
            ProjectMismatch: this project has no such thread.
        """
        with self._ledger.db.write() as tx:
            incident = self._ledger.incidents.get(thread)
            if incident.state != "quarantined":
                return False
            self._ledger.incidents.note(tx, thread, "running")
            self._ledger.audit.append(tx, "incident.retried", {"thread": thread})
        return True

    def needs(self, incident: Incident) -> frozenset[str]:
        """Backends held against which something is, and that this run needs for its next step."""
        listed = {circuit.backend for circuit in self._ledger.circuits.listed()}
        needed = listed & {SERVER}
        if PROBE in listed and self._probes(incident):
            needed.add(PROBE)
        sources = listed - {SERVER, PROBE}
        if sources and self._reads(incident):
            needed |= sources
        return frozenset(needed)

    def _reads(self, incident: Incident) -> bool:
        """Whether the run is not past its read of traces."""
        if incident.kind == "undo":
            return False
        release = incident.request.get("release")
        step = f"watch:{release}" if incident.kind == "watch" else "insights"
        return self._ledger.steps.get(incident.thread, step) is None

    def _probes(self, incident: Incident) -> bool:
        """Whether the run is in its gate."""
        stored = self._ledger.proposals.open()
        return (
            stored is not None
            and stored.proposal.thread == incident.thread
            and stored.state in ("approved", "gating")
        )

    def worked(self, incident: Incident, used: Collection[str]) -> None:
        """The run got past what it needed these backends for: they answer again."""
        still = self.needs(incident) - {SERVER} if used else frozenset()
        for backend in used:
            if backend not in still:
                self._ledger.circuits.worked(backend)

    def held(self, incident: Incident) -> Circuit | None:
        """The paused backend that this run must wait for; None: it may be driven now.

        The first run that asks after a pause is let through; the others wait until it is known
        what became of it.
        """
        now = self._ledger.db.clock()
        needed = self.needs(incident)
        for circuit in self._ledger.circuits.listed() if needed else ():
            if circuit.backend not in needed or circuit.open_until is None:
                continue
            if circuit.open_until > rfc3339(now):
                return circuit
            if not self._ledger.circuits.probe(circuit, now + PROBE_FOR):
                return self._held_again(circuit.backend)
        return None

    def _held_again(self, backend: str) -> Circuit | None:
        return next((c for c in self._ledger.circuits.listed() if c.backend == backend), None)

    def wait_for(self, incident: Incident, circuit: Circuit) -> None:
        """Put a run off until its backend is tried again; no try is counted."""
        self._ledger.incidents.set_state(
            incident.thread, incident.state, due_at=circuit.open_until, tries=incident.tries,
            problem=f"waits for {circuit.backend}: {circuit.problem}",
        )  # fmt: skip
