"""From a delivery to a release without anybody at a prompt: the dispatcher on a real ledger."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from langgraph.types import StreamMode

from contracts.alerts import Alert
from contracts.json_types import JsonObject
from graph.dispatch import Dispatcher
from graph.drive import Standing
from graph.installation import Door, Installation, open_installation
from graph.outcomes import Undone
from graph.service import Service
from memory.ledger import Ledger
from memory.workspace import register
from nodes.decide import Person
from tests.story.worlds import PROJECT, Applied, Waiting, World

pytestmark = [pytest.mark.story, pytest.mark.servers]

ANN = Person(name="ann", via="api", authenticated=True)
APPROVE: JsonObject = {"type": "approve"}
PATIENCE_S = 120


def settings(world: World, **sections: Any) -> None:
    """Change keys of the project's settings."""
    file = world.root / "tracemend.yaml"
    known = yaml.safe_load(file.read_text("utf-8"))
    for section, value in sections.items():
        known[section] = {**known.get(section, {}), **value} if isinstance(value, dict) else value
    file.write_text(yaml.safe_dump(known), "utf-8")


def firing(key: str = "a-1", group: str = "rule-1", **more: Any) -> Alert:
    """An alert of the generic hook about the project's window."""
    return Alert(source="generic", key=key, group=group, kind="firing", title="errors", **more)


@asynccontextmanager
async def opened(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Installation]:
    """The world's installation; alerts are looked at once they are there."""
    monkeypatch.setenv("TRACEMEND_HOME", str(world.root / ".tracemend"))
    async with open_installation(world.root / ".tracemend") as installation:
        yield installation


@asynccontextmanager
async def dispatching(installation: Installation) -> AsyncIterator[Dispatcher]:
    """A dispatcher at work."""
    dispatcher = Dispatcher(installation)
    working = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher
    finally:
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working


async def until(what: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while not await asyncio.to_thread(what):
        assert asyncio.get_running_loop().time() < end, "it did not come to that"
        await asyncio.sleep(0.05)


def states(ledger: Ledger) -> list[str]:
    return [incident.state for incident in ledger.incidents.listed()]


async def test_an_alert_becomes_a_card_and_a_decision_a_release(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(world, alerts={"settle": "0s"})
    before = world.harness()
    async with opened(world, monkeypatch) as installation:
        door: Door = await installation.door_of(PROJECT)
        ledger = door.ws.ledger
        async with dispatching(installation) as dispatcher:
            assert ledger.alerts.receive(firing())
            dispatcher.wake()
            await until(lambda: states(ledger) == ["waiting"])
            (incident,) = ledger.incidents.listed()
            (stored,) = ledger.proposals.all_latest()
            assert (stored.state, stored.proposal.thread) == ("waiting", incident.thread)
            card = ledger.proposals.card(stored.proposal.id, 1, "approve")
            assert card is not None
            assert incident.due_at is not None
            assert datetime.fromisoformat(incident.due_at) == card.expires_at
            (alert,) = ledger.alerts.listed()
            assert (alert.state, alert.thread) == ("started", incident.thread)
            assert world.harness() == before

            entered = await door.service.enter_decision(stored.proposal.id, APPROVE, ANN)
            assert entered.first
            await until(lambda: states(ledger) == ["closed"])
        (release,) = ledger.effects.releases()
        assert release.proposal == stored.proposal.id
        assert ledger.audit.verify().ok
    assert world.harness() != before


class Meddled(Service):
    """Somebody answers the card between the last look for an answer and the note that it waits."""

    answered = False

    def _note(self, thread: str, standing: Standing) -> bool:
        if standing.pending and not self.answered:
            self.answered = True
            said: JsonObject = {"type": "reject", "message": "risky"}
            (stored,) = self._ledger.proposals.all_latest()
            assert asyncio.run(self.enter_decision(stored.proposal.id, said, ANN)).first
        return super()._note(thread, standing)


async def test_an_answer_between_the_pause_and_its_note_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(world, monkeypatch) as installation:
        door = await installation.door_of(PROJECT)
        service = Meddled(door.ws, door.driver)
        ran = await service.start({"kind": "improve", "finding": None})
        assert service.answered
        assert (ran.state, ran.waiting) == ("rejected", False)
        assert states(door.ws.ledger) == ["closed"]


class Counting:
    """Counts how often a node ended, whoever drove it."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def modes(self, thread: str) -> tuple[StreamMode, ...]:
        del thread
        return ("updates",)

    def heard(self, thread: str, mode: str, chunk: object) -> None:
        del thread
        if mode == "updates" and isinstance(chunk, dict):
            self.nodes += chunk


async def test_two_dispatchers_on_one_ledger_drive_a_run_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(world, alerts={"settle": "0s"})
    counting = Counting()
    async with opened(world, monkeypatch) as one, opened(world, monkeypatch) as two:
        one.listener = two.listener = counting
        ledger = (await one.door_of(PROJECT)).ws.ledger
        async with dispatching(one) as first, dispatching(two) as second:
            ledger.alerts.receive(firing())
            first.wake()
            second.wake()
            await until(lambda: states(ledger) == ["waiting"])
        assert sorted(counting.nodes).count("insights") == 1, counting.nodes
        assert counting.nodes.count("router") == 1, counting.nodes


async def test_a_look_that_is_out_of_date_starts_and_resumes_nothing(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a second process saw before the first one drove the thread to its card."""
    heard: list[JsonObject] = []
    async with opened(waiting.world, monkeypatch) as installation:
        door = await installation.door_of(PROJECT)
        (incident,) = door.ws.ledger.incidents.listed()
        before = await door.driver.standing(incident.thread)
        assert before.pending
        started = await door.driver.start(incident.thread, incident.request, heard.append)
        gone_on = await door.driver.go_on(incident.thread, heard.append)
        answer: JsonObject = {"decisions": [{"type": "approve"}]}
        resumed = await door.driver.resume(incident.thread, "0" * 32, answer, heard.append)
    assert before == started == gone_on == resumed
    assert heard == []


async def test_a_card_that_nobody_answers_is_closed_by_the_dispatcher(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = waiting.world.harness()
    async with opened(waiting.world, monkeypatch) as installation:
        ledger = (await installation.door_of(PROJECT)).ws.ledger
        monkeypatch.setattr(ledger.db, "clock", lambda: datetime.now(UTC) + timedelta(days=8))
        async with dispatching(installation):
            await until(lambda: states(ledger) == ["closed"])
        assert ledger.proposals.latest(waiting.proposal).state == "expired"
        (decision,) = ledger.proposals.decisions(waiting.proposal, 1, "approve")
        assert (decision.type, decision.via) == ("expired", "system")
    assert waiting.world.harness() == before


async def test_the_oldest_ready_finding_has_its_turn_when_the_proposal_closes(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(waiting.world, monkeypatch) as installation:
        door = await installation.door_of(PROJECT)
        ledger = door.ws.ledger
        asked = ledger.proposals.latest(waiting.proposal).proposal.finding_id
        found = [s.finding for s in ledger.knowledge.findings() if s.finding.id != asked]
        other = next(f for f in found if f.actionable and f.text_fixable)
        with ledger.db.write() as tx:
            ledger.knowledge.set_finding(tx, other.id, "ready")
        async with dispatching(installation):
            await asyncio.sleep(2.5)  # a few looks
            assert len(ledger.incidents.listed()) == 1, "its turn has not come"
            said: JsonObject = {"type": "reject", "message": "risky"}
            await door.service.enter_decision(waiting.proposal, said, ANN)
            await until(lambda: len(ledger.incidents.listed()) == 2)
            await until(lambda: "running" not in states(ledger))
            await asyncio.sleep(2.5)
        runs = ledger.incidents.listed()
        assert [run.request.get("finding") for run in runs] == [None, other.id]


def _late(world: World, **alerts: str) -> dict[str, bytes]:
    """Take the traces away; what they were."""
    settings(world, alerts={"settle": "0s", **alerts})
    folder = world.root / "traces"
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    (folder / "this-week.otlp.jsonl").unlink()
    return kept


async def test_traces_that_come_after_their_alert_are_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = _late(world, late="20s")
    async with opened(world, monkeypatch) as installation:
        ledger = (await installation.door_of(PROJECT)).ws.ledger
        async with dispatching(installation) as dispatcher:
            ledger.alerts.receive(firing())
            dispatcher.wake()
            await until(lambda: any(run.problem for run in ledger.incidents.listed()))
            (run,) = ledger.incidents.listed()
            assert (run.state, run.tries) == ("running", 0)
            assert "there are no traces yet" in str(run.problem)
            window = ledger.steps.get(run.thread, "insights.window")
            name = "this-week.otlp.jsonl"
            (world.root / "traces" / name).write_bytes(kept[name])
            await until(lambda: states(ledger) == ["waiting"])
        assert ledger.steps.get(run.thread, "insights.window") == window
        assert ledger.circuits.listed() == []
        assert len(ledger.proposals.all_latest()) == 1


async def test_traces_that_never_come_are_concluded_without_and_that_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _late(world, late="3s")
    async with opened(world, monkeypatch) as installation:
        door = await installation.door_of(PROJECT)
        ledger = door.ws.ledger
        async with dispatching(installation) as dispatcher:
            ledger.alerts.receive(firing())
            dispatcher.wake()
            await until(lambda: states(ledger) == ["closed"])
        (run,) = ledger.incidents.listed()
        why = str((await door.driver.standing(run.thread)).values["why"])
    assert why.endswith("; there were no traces in its window 0.05 min after the alert")


async def test_a_broken_project_is_said_once_and_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    settings(world, alerts={"settle": "0s"})
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tracemend.yaml").write_text("version: 1\nproject: broken\ngate: {margin: 7}\n")
    register(world.root / ".tracemend", "broken", broken)
    async with opened(world, monkeypatch) as installation:
        ledger = (await installation.door_of(PROJECT)).ws.ledger
        async with dispatching(installation) as dispatcher:
            begun = dispatcher.heartbeat
            ledger.alerts.receive(firing())
            dispatcher.wake()
            await until(lambda: states(ledger) == ["waiting"])
            assert dispatcher.heartbeat > begun
            said = [r for r in caplog.records if r.message == "project cannot be worked on"]
            assert len(said) == 1
            assert vars(said[0])["project"] == "broken"
            assert "gate.margin" in vars(said[0])["problem"]
            (broken / "tracemend.yaml").write_text("version: 1\nproject: broken\n")
            caplog.set_level("INFO")
            await until(lambda: "project works again" in caplog.text)


async def test_a_dispatcher_that_is_stopped_in_the_middle_leaves_a_run_that_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(world, alerts={"settle": "0s"})
    async with opened(world, monkeypatch) as installation:
        ledger = (await installation.door_of(PROJECT)).ws.ledger
        async with dispatching(installation) as dispatcher:
            ledger.alerts.receive(firing())
            dispatcher.wake()
            await until(lambda: any(_window_is_fixed(ledger)))
        (run,) = ledger.incidents.listed()
        assert run.state == "running"
        lease = ledger.leases.take(f"thread:{run.thread}")
        assert lease is not None, "it is held for ever"
        ledger.leases.release(lease)
        async with dispatching(installation):
            await until(lambda: states(ledger) == ["waiting"])
        assert len(ledger.proposals.all_latest()) == 1
        assert ledger.audit.verify().ok


def _window_is_fixed(ledger: Ledger) -> list[bool]:
    return [
        ledger.steps.get(run.thread, "insights.window") is not None
        for run in ledger.incidents.listed()
    ]


async def test_what_nobody_can_read_is_quarantined_shown_and_put_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(world, alerts={"settle": "0s"}, traces=[{"kind": "files", "path": "elsewhere/"}])
    async with opened(world, monkeypatch) as installation:
        ledger = (await installation.door_of(PROJECT)).ws.ledger
        async with dispatching(installation) as dispatcher:
            ledger.alerts.receive(firing())
            dispatcher.wake()
            await until(lambda: states(ledger) == ["quarantined"])
        (run,) = ledger.incidents.listed()
    status = world.run("status")
    assert f"tracemend retry {run.thread}" in status.out
    assert "elsewhere" in status.out
    settings(world, traces=[{"kind": "files", "path": "traces/*.jsonl"}])
    assert world.run("resume", "--json").json["quarantined"] == [run.thread]
    assert world.run("retry", run.thread, "--json").json["threads"] == [run.thread]
    again = world.run("resume", "--json")
    assert again.code == 0, again.err
    assert [one["state"] for one in again.json["runs"]] == ["waiting"]
    assert again.json["quarantined"] == []


async def test_an_undo_that_is_asked_for_is_driven_by_the_dispatcher(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = applied.world
    async with opened(world, monkeypatch) as installation:
        door = await installation.door_of(PROJECT)
        ledger = door.ws.ledger
        thread = await door.service.request_undo(applied.release, ANN)
        assert isinstance(thread, str)
        assert await door.service.request_undo(applied.release, ANN) == thread
        assert world.harness() != applied.before
        async with dispatching(installation):
            await until(lambda: ledger.incidents.closed(thread))
        undone = await door.service.request_undo(applied.release, ANN)
        assert isinstance(undone, Undone)
        assert (undone.release.undoes, undone.first) == (applied.release, False)
    assert world.harness() == applied.before
