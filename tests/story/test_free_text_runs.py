"""What a person writes without saying what it is goes to the branch that it means."""

import pytest

from graph.drive import local_driver
from graph.service import Service
from memory.workspace import open_project
from tests.story.worlds import PROJECT, Waiting

pytestmark = pytest.mark.story


async def test_free_text_is_answered_from_the_ledger_or_becomes_an_improve_run(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = waiting.world.root / ".tracemend"
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    ws = open_project(home, PROJECT)
    async with local_driver(home / "checkpoints.sqlite", ws.ledger) as driver:
        service = Service(ws, driver)
        stands = await service.start({"kind": "text", "text": "any open proposals?"})
        reply = str(stands.values["reply"])
        assert "Proposals that wait for a person: 1 of 1." in reply
        assert waiting.proposal in reply
        top = ws.ledger.proposals.latest(waiting.proposal).proposal.finding_id
        fix = await service.start({"kind": "text", "text": f"please fix {top}"})
        assert (fix.finding, fix.values["why"]) == (top, "linked to its open proposal")
        assert [s.proposal.id for s in ws.ledger.proposals.all_latest()] == [waiting.proposal]
    ws.ledger.close()
