"""Start, decide, undo, reconcile: what every door of ours does. Ledger + driver, nothing else.

Nodes write the ledger; this only starts and resumes runs, inserts decisions by the same rule that
the decide node uses, and reads.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from uuid import NAMESPACE_URL, uuid4, uuid5

from contracts.errors import PolicyRefused, StaleBase, TracemendError, UsageError
from contracts.gate import GateReport
from contracts.json_types import Json, JsonObject, content_id
from contracts.proposals import (
    CardKind,
    Decision,
    DecisionId,
    Proposal,
    ProposalState,
    Release,
    ReleaseId,
)
from graph.drive import Busy, Driver, OnEvent, Pending, Standing
from memory.database import rfc3339
from memory.proposals import StoredProposal
from memory.workspace import Workspace
from nodes.decide import Entered, Person, enter, expired, seats_needed, settled
from nodes.ports import open_harness
from nodes.router import Request, alert_key, checked_request, incident_key

FOLLOW_SECONDS = 0.2
"""How often a run that another process drives is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run after it was driven as far as it goes now."""

    thread: str
    kind: str
    finding: str | None
    proposal: str | None
    state: ProposalState | None
    waiting: bool
    values: JsonObject
    problem: TracemendError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a decision, and of everything it led to."""

    decision: Decision | None
    first: bool
    state: ProposalState
    proposal: Proposal
    """The newest revision: after a moved base, the one that waits now."""
    changed: tuple[str, ...]
    report: tuple[GateReport, str] | None
    release: Release | None
    refused: str | None = None
    """Why the newest revision has no plan, when its plan was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The release that took another one back."""

    release: Release
    first: bool
    """False: it was taken back before; this is that answer."""


def thread_for(project: str, kind: str, key: str) -> str:
    """The one thread of equal requests."""
    return str(uuid5(NAMESPACE_URL, f"{project}|{kind}|{key}"))


def _ignore(_event: JsonObject) -> None:
    """For callers that show no progress."""


class Service:
    """The doors of one project."""

    def __init__(self, ws: Workspace, driver: Driver, on_event: OnEvent = _ignore) -> None:
        self._ws = ws
        self._ledger = ws.ledger
        self._driver = driver
        self._on_event = on_event

    async def start(self, value: object) -> Ran:
        """Start a run for a request, or go on with the one that equal requests have already.

        Raises:
            UsageError: the request is not one.
        """
        request = checked_request(value)
        thread = await asyncio.to_thread(self._bind, request)
        try:
            return await self._advance(thread)
        except TracemendError:
            if request["kind"] in ("improve", "question"):
                # A person is there to ask again; an alert stays unfinished and is tried again.
                await asyncio.to_thread(self._give_up, thread)
            raise

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
        """
        return await self._advance(thread, follow=False)

    def _give_up(self, thread: str) -> None:
        """Close a run that failed before it had a proposal."""
        if not any(p.proposal.thread == thread for p in self._ledger.proposals.all_latest()):
            self._ledger.reads.clear(thread)  # the next run has a thread of its own
            self._ledger.incidents.set_state(thread, "closed")

    def _bind(self, request: Request) -> str:
        kind, key = request["kind"], incident_key(request)
        if kind == "question":
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

        A card that was answered between the look at it and the note that the run waits is seen by
        the second look: the answer's own transaction wakes only a run that is noted as waiting.
        """
        incident = await asyncio.to_thread(self._ledger.incidents.get, thread)
        while True:
            standing = await self._drive(thread, incident.request, follow=follow)
            await asyncio.to_thread(self._note, thread, standing)
            if standing.finished or not await asyncio.to_thread(self._answered, standing):
                return await asyncio.to_thread(self._ran, thread, incident.kind, standing)

    async def _drive(self, thread: str, request: JsonObject, *, follow: bool) -> Standing:
        """Steps until the run waits or ends."""
        standing = await self._driver.standing(thread)
        while not standing.finished:
            try:
                moved = await self._step(thread, request, standing)
            except Busy:
                if not follow:
                    raise
                await asyncio.sleep(FOLLOW_SECONDS)
                moved = await self._driver.standing(thread)
            if moved is None:
                break
            standing = moved
        return standing

    def _note(self, thread: str, standing: Standing) -> None:
        if standing.finished:
            self._ledger.incidents.set_state(thread, "closed")
        else:
            self._ledger.incidents.set_state(thread, "waiting", due_at=self._expiry(standing))

    def _answered(self, standing: Standing) -> bool:
        return bool(standing.pending) and self._stored_answer(standing.pending[0]) is not None

    def _expiry(self, standing: Standing) -> str | None:
        """When the card that a run waits at expires, RFC 3339 UTC."""
        if not standing.pending:
            return None
        stored, card = self._shown(standing.pending[0])
        shown = self._ledger.proposals.card(stored.proposal.id, stored.proposal.revision, card)
        return rfc3339(shown.expires_at) if shown is not None else None

    async def _step(self, thread: str, request: JsonObject, standing: Standing) -> Standing | None:
        """One call of the driver; None when the run waits for a person."""
        if not standing.started:
            return await self._driver.start(thread, request, self._on_event)
        if not standing.pending:
            return await self._driver.go_on(thread, self._on_event)
        pending = standing.pending[0]
        answer = await asyncio.to_thread(self._stored_answer, pending)
        if answer is None:
            return None
        return await self._driver.resume(thread, pending.id, answer, self._on_event)

    def _stored_answer(self, pending: Pending) -> JsonObject | None:
        """The answer that the ledger holds for this interrupt; None: it waits for a person."""
        stored, card = self._shown(pending)
        proposal = stored.proposal
        needed = seats_needed(proposal.risk, self._ws.settings.review.second_person)
        decisions = self._ledger.proposals.decisions(proposal.id, proposal.revision, card)
        counted = settled(decisions, needed) or expired(self._ws, stored, card)
        if counted is not None:
            return _answer(counted)
        if stored.state in ("stale", "drafting"):
            # Nothing is left to answer: the base moved, or an edit made the next revision. The
            # decide node enters no decision in these states and routes on by the ledger.
            return {"decisions": [{"type": "approve"}], "by": None}
        return None

    def _shown(self, pending: Pending) -> tuple[StoredProposal, CardKind]:
        """The newest revision of the proposal that an interrupt is about, and its kind of card."""
        requests = cast("Sequence[JsonObject]", pending.payload["action_requests"])
        args = cast("JsonObject", requests[0]["args"])
        card = cast("JsonObject", pending.payload["card"])
        stored = self._ledger.proposals.latest(str(args["proposal_id"]))
        return stored, cast("CardKind", card["kind"])

    def _ran(self, thread: str, kind: str, standing: Standing) -> Ran:
        proposal = standing.values.get("proposal")
        finding = standing.values.get("finding")
        stored = self._ledger.proposals.latest(str(proposal)) if proposal else None
        return Ran(
            thread=thread, kind=kind, finding=str(finding) if finding else None,
            proposal=str(proposal) if proposal else None,
            state=stored.state if stored else None, waiting=not standing.finished,
            values=standing.values,
        )  # fmt: skip

    async def decide(
        self,
        proposal_id: str,
        said: JsonObject,
        person: Person,
        *,
        expected_hash: str | None = None,
    ) -> Outcome:
        """Enter a person's answer and drive what it leads to.

        Args:
            proposal_id: which proposal; its newest revision is meant.
            said: `{type, message?, edited_action?}`.
            person: who says it.
            expected_hash: the hash of the card that the person saw; a newer revision refuses.

        Raises:
            UsageError: there is no such proposal, or it does not wait for a decision.
            StaleBase: the person saw another revision than the newest.
            PolicyRefused: the answer makes no decision, and why.
        """
        stored = await asyncio.to_thread(self._ledger.proposals.latest, proposal_id)
        shown = stored.proposal
        entered = await self.enter_decision(proposal_id, said, person, expected_hash=expected_hash)
        if entered.decision is not None and not entered.first:
            return await asyncio.to_thread(self._outcome, proposal_id, entered.decision, False, ())
        await self._advance(shown.thread)
        return await asyncio.to_thread(
            self._outcome, proposal_id, entered.decision, entered.first, entered.changed
        )

    async def enter_decision(
        self,
        proposal_id: str,
        said: JsonObject,
        person: Person,
        *,
        expected_hash: str | None = None,
    ) -> Entered:
        """Enter a person's answer in the ledger, by the rule of the decide node; drives nothing.

        The insert wakes the run that waits, whoever drives it.

        Raises:
            UsageError: there is no such proposal.
            StaleBase: the person saw another revision than the newest.
            PolicyRefused: the answer makes no decision, and why.
        """
        stored = await asyncio.to_thread(self._ledger.proposals.latest, proposal_id)
        shown = stored.proposal
        if expected_hash is not None and expected_hash != shown.hash:
            raise StaleBase(
                f"{proposal_id}: you saw another text than r{shown.revision}, which waits now; "
                "read it and decide again"
            )
        card: CardKind = "override" if await self._has_override(shown) else "approve"
        answer: JsonObject = {"decisions": [dict(said)], "by": person.name}
        entered = await enter(self._ws, stored, card, answer, person)
        if entered.problem is not None:
            raise PolicyRefused(entered.problem)
        return entered

    async def _has_override(self, proposal: Proposal) -> bool:
        found = await asyncio.to_thread(
            self._ledger.proposals.card, proposal.id, proposal.revision, "override"
        )
        return found is not None

    def _outcome(
        self, proposal_id: str, decision: Decision | None, first: bool, changed: tuple[str, ...]
    ) -> Outcome:
        stored = self._ledger.proposals.latest(proposal_id)
        decided = stored.proposal
        if decision is not None and decision.proposal_hash != decided.hash:
            earlier = self._ledger.proposals.by_hash(decision.proposal_hash)
            decided = earlier.proposal if earlier is not None else decided
        return Outcome(
            decision=decision, first=first, state=stored.state, proposal=stored.proposal,
            changed=changed or self._changed(decided),
            report=self._ledger.gate.report(decided.hash),
            release=self._ledger.effects.release_of(decided.hash),
            refused=self._refused(stored.proposal),
        )  # fmt: skip

    def _refused(self, proposal: Proposal) -> str | None:
        done = self._ledger.steps.get(proposal.thread, f"plan:{proposal.revision}:approve") or {}
        reason = done.get("why")
        return str(reason) if reason else None

    def _changed(self, proposal: Proposal) -> tuple[str, ...]:
        """What somebody changed between the yes and the write, when that stopped the write."""
        effect = self._ledger.effects.find(kind="apply", proposal_hash=proposal.hash)
        if effect is None or effect.state not in ("aborted", "stuck"):
            return ()
        return (effect.reason or "the harness changed",)

    async def undo(self, release_id: str, person: Person) -> Undone:
        """Take a release back: a decision of a named person and a run of its own.

        Raises:
            UsageError: no such release, or it is an undo itself.
            StaleBase: somebody changed the files since; nothing was written, nothing recorded.
        """
        release = await asyncio.to_thread(self._ledger.effects.release, release_id)
        if release.undoes is not None:
            raise UsageError(f"{release_id} is an undo itself; the edit can be proposed again")
        there = await asyncio.to_thread(self._ledger.effects.undo_of, release.id)
        if there is not None:
            return Undone(release=there, first=False)
        intended = await asyncio.to_thread(
            lambda: self._ledger.effects.find(kind="undo", proposal_hash=release.proposal_hash)
        )
        if intended is None or intended.state != "intended":
            await self._check_unchanged(release)
            await asyncio.to_thread(self._decide_undo, release, person)
        request: JsonObject = {"kind": "undo", "release": release.id}
        thread = await asyncio.to_thread(self._bind, checked_request(request))
        standing = await self._driver.standing(thread)
        if standing.finished:  # an earlier undo of this release was refused at the last moment
            await self._driver.start(thread, request, self._on_event)
        await self._advance(thread)
        done = await asyncio.to_thread(self._ledger.effects.undo_of, release.id)
        if done is None:
            effect = await asyncio.to_thread(
                lambda: self._ledger.effects.find(kind="undo", proposal_hash=release.proposal_hash)
            )
            why = effect.reason if effect is not None and effect.reason else "the target changed"
            raise StaleBase(f"{release_id}: not undone: {why}", changed=(why,))
        return Undone(release=done, first=True)

    async def _check_unchanged(self, release: Release) -> None:
        now = await (await asyncio.to_thread(open_harness, self._ws)).read()
        if now.revision == release.after:
            return
        after = await asyncio.to_thread(self._ledger.artifacts.snapshot, release.after)
        changed = after.changed(now)
        raise StaleBase(
            f"{release.id}: not undone, since these files are not what the release left: "
            f"{', '.join(changed)}; nothing was written",
            changed=changed,
        )

    def _decide_undo(self, release: Release, person: Person) -> None:
        stored = self._ledger.proposals.by_hash(release.proposal_hash)
        if stored is None:
            raise UsageError(f"{release.id}: its proposal is not in the ledger")
        proposal = stored.proposal
        with self._ledger.db.write() as tx:
            seat = len(
                self._ledger.proposals.decisions(proposal.id, proposal.revision, "undo")
            ) + 1  # fmt: skip
            decision = Decision(
                id=DecisionId(content_id("d-", proposal.hash, "undo", str(seat))),
                proposal=proposal.id, revision=proposal.revision, proposal_hash=proposal.hash,
                card="undo", seat=seat, type="approve", by=person.name or "", via=person.via,
                at=self._ledger.db.clock(), binds=ReleaseId(release.id),
            )  # fmt: skip
            self._ledger.proposals.decide(tx, decision)

    async def reconcile(self) -> list[Ran]:
        """Go on with every unfinished run, expire old cards, start what is ready.

        A run that fails again is reported with its problem and does not stop the others.
        """
        ran: list[Ran] = []
        for incident in await asyncio.to_thread(self._ledger.incidents.unfinished):
            try:
                ran.append(await self._advance(incident.thread))
            except TracemendError as problem:
                ran.append(
                    Ran(
                        thread=incident.thread, kind=incident.kind, finding=None, proposal=None,
                        state=None, waiting=False, values={}, problem=problem,
                    )
                )  # fmt: skip
        if await asyncio.to_thread(self._ledger.proposals.open) is None:
            ready = await asyncio.to_thread(self._ledger.knowledge.oldest_ready)
            if ready is not None:
                ran.append(await self.start({"kind": "improve", "finding": ready.finding.id}))
        return ran


def _answer(decision: Decision) -> JsonObject:
    """A stored decision as the answer that resumes its interrupt; the ledger's row counts."""
    kind = "reject" if decision.type == "expired" else decision.type
    said: dict[str, Json] = {"type": kind}
    if kind == "reject":
        said["message"] = f"{decision.reason or 'other'}: {decision.note or decision.type}"
    return {"decisions": [said], "by": decision.by}
