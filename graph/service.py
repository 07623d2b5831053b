"""What every door of ours does for a person: decide, ask, defer, undo. Runs are started beside it.

Decisions are inserted by the same rule that the decide node uses; nodes do the rest.
"""

import asyncio
from datetime import datetime

from contracts.errors import PolicyRefused, StaleBase
from contracts.json_types import JsonObject
from contracts.proposals import CardKind, Proposal
from graph.outcomes import Outcome, Ran, Undone, led_to
from graph.remarks import ask, defer
from graph.runs import Runs, thread_for
from graph.undoing import decide_undo, undo_there, undone_release
from memory.trail import Remark
from nodes.decide import Entered, Person, enter

__all__ = ["Outcome", "Ran", "Service", "Undone", "thread_for"]


class Service(Runs):
    """The doors of one project."""

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
        if entered.decision is None or entered.first:
            await self._advance(shown.thread)
        return await asyncio.to_thread(
            lambda: led_to(
                self._ledger, proposal_id, entered.decision, first=entered.first,
                changed=entered.changed,
            )
        )  # fmt: skip

    async def enter_decision(
        self,
        proposal_id: str,
        said: JsonObject,
        person: Person,
        *,
        expected_hash: str | None = None,
        card: CardKind | None = None,
    ) -> Entered:
        """Enter a person's answer in the ledger, by the rule of the decide node; drives nothing.

        The insert wakes the run that waits, whoever drives it.

        Args:
            proposal_id: which proposal; its newest revision is meant.
            said: `{type, message?, edited_action?}`.
            person: who says it.
            expected_hash: the hash of the card that the person saw.
            card: which card the person read; None: the latest that the revision has.

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
        if card is None:
            card = "override" if await self._has_override(shown) else "approve"
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

    async def ask(
        self, proposal_id: str, text: str, person: Person, key: str
    ) -> tuple[Remark, bool]:
        """Put a question to the author of a proposal; it decides and resumes nothing.

        The same person's second call with this key gets the first remark, and False.

        Raises:
            UsageError: no such proposal, it waits for nobody, or the text or the key is none.
        """
        return await asyncio.to_thread(ask, self._ledger, proposal_id, text, person, key)

    async def defer(
        self, proposal_id: str, until: datetime, person: Person, key: str
    ) -> tuple[Remark, bool]:
        """Put a proposal off until a time; its card expires when it would have.

        The same person's second call with this key gets the first remark, and False.

        Raises:
            UsageError: no such proposal, it waits for nobody, or no time between now and its
                expiry was named.
        """
        return await asyncio.to_thread(defer, self._ledger, proposal_id, until, person, key)

    async def request_undo(self, release_id: str, person: Person) -> Undone | str:
        """Decide that a release is taken back, and bind the run that will; drives nothing.

        Returns:
            The undo that was made before, or the thread that undoes it now.

        Raises:
            UsageError: no such release, or it is an undo itself.
            StaleBase: somebody changed the files since; nothing was written, nothing recorded.
        """
        there = await asyncio.to_thread(undo_there, self._ledger, release_id)
        if there is not None:
            return Undone(release=there, first=False)

        def thread_of(attempt: int) -> str:
            key = release_id if attempt == 1 else f"{release_id}:{attempt}"
            return thread_for(self._ws.project, "undo", key)

        attempt = await decide_undo(self._ws, release_id, person, thread_of)
        request: JsonObject = {"kind": "undo", "release": release_id}
        opened = await asyncio.to_thread(
            lambda: self._ledger.incidents.open(
                thread_of(attempt), kind="undo", key=release_id, request=request, driver="local"
            )
        )  # fmt: skip
        return opened.thread

    async def undo(self, release_id: str, person: Person) -> Undone:
        """Take a release back: a decision of a named person and a run of its own.

        Raises:
            UsageError: no such release, or it is an undo itself.
            StaleBase: somebody changed the files since; nothing was written, nothing recorded.
        """
        thread = await self.request_undo(release_id, person)
        if isinstance(thread, Undone):
            return thread
        await self._advance(thread)
        release = await asyncio.to_thread(undone_release, self._ledger, release_id)
        return Undone(release=release, first=True)
