"""What people say to a proposal beside deciding: kept once, shown on later cards, no answer."""

from datetime import UTC, datetime, timedelta

import pytest

from contracts.errors import UsageError
from contracts.json_types import JsonObject
from graph.installation import open_installation
from nodes.decide import Person
from tests.story.worlds import PROJECT, Applied, Waiting

pytestmark = [pytest.mark.story, pytest.mark.servers]

ANN = Person(name="ann", via="api", authenticated=True)
BOB = Person(name="bob", via="api", authenticated=True)


async def test_questions_and_deferrals_are_kept_once_and_decide_nothing(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, which = waiting.world.root / ".tracemend", waiting.proposal
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    async with open_installation(home) as installation:
        door = await installation.door_of(PROJECT)
        service, ledger = door.service, door.ws.ledger
        before = ledger.incidents.listed()
        said, first = await service.ask(which, " Why not in the skill? mail eve@corp.io ", ANN, "1")
        assert (first, said.by) == (True, "ann")
        assert said.text == "Why not in the skill? mail [email]"
        assert await service.ask(which, "Why not in the skill? mail eve@corp.io", ANN, "1") == (
            said, False
        )  # fmt: skip
        assert (await service.ask(which, "Why not in the skill?", BOB, "1"))[1] is True
        with pytest.raises(UsageError, match="another remark"):
            await service.ask(which, "Something else", ANN, "1")
        for text in ("", " \n", "x" * 2001):
            with pytest.raises(UsageError, match="characters"):
                await service.ask(which, text, ANN, "2")

        now = datetime.now(UTC)
        until = now + timedelta(days=1)
        put_off, first = await service.defer(which, until, ANN, "3")
        assert first
        assert datetime.fromisoformat(str(put_off.until)) == until
        with pytest.raises(UsageError, match="over already"):
            await service.defer(which, now - timedelta(minutes=1), ANN, "4")
        with pytest.raises(UsageError, match="expires at"):
            await service.defer(which, now + timedelta(days=30), ANN, "4")
        assert ledger.incidents.listed() == before
        assert ledger.proposals.latest(which).state == "waiting"

        edited = _edit(ledger.proposals.card(which, 1, "approve"))
        outcome = await service.decide(which, edited, ANN)
        assert outcome.proposal.revision == 2
        card = ledger.proposals.card(which, 2, "approve")
        assert card is not None
        assert "asked: Why not in the skill?" in str(card.view["trail"])
        assert f"deferred to {put_off.until}" in str(card.view["trail"])
        assert (await service.ask(which, "Why not in the skill? mail eve@corp.io", ANN, "1")) == (
            said, False
        ), "asked again about the next revision"  # fmt: skip


def _edit(card: object) -> JsonObject:
    payload = card.payload  # type: ignore[attr-defined]  # a stored card
    args = dict(payload["action_requests"][0]["args"])
    key = next(k for k in args if k.startswith("text:"))
    args[key] += "\n- Apologise to the customer when it took more than one call.\n"
    return {"type": "edit", "edited_action": {"name": "apply_proposal", "args": args}}


async def test_what_waits_for_nobody_takes_no_remark(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = applied.world.root / ".tracemend"
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    async with open_installation(home) as installation:
        service = (await installation.door_of(PROJECT)).service
        with pytest.raises(UsageError, match="waits for nobody"):
            await service.ask(applied.proposal, "Why?", ANN, "1")
        with pytest.raises(UsageError, match="no such proposal"):
            await service.ask("p-elsewhere", "Why?", ANN, "1")
