"""The branches of the loop, in one process: edits, expiry, two people, turns, moved bases."""

import dataclasses
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
import yaml

from contracts.errors import PolicyRefused, ProjectMismatch, UsageError
from contracts.json_types import JsonObject, sha256_hex
from graph.cli.outcome import exit_code, outcome_lines
from graph.drive import local_driver
from graph.service import Service
from memory.workspace import Workspace, open_project, register
from nodes.decide import Person
from tests.story.worlds import PRECHECKED, PROJECT, Applied, Waiting, World

pytestmark = pytest.mark.story

ANN = Person(name="ann", via="cli", authenticated=True)
BOB = Person(name="bob", via="cli", authenticated=True)
APPROVE: JsonObject = {"type": "approve"}


def _set(world: World, **sections: Any) -> None:
    """Change keys of the project's settings."""
    file = world.root / "tracemend.yaml"
    settings = yaml.safe_load(file.read_text("utf-8"))
    for section, value in sections.items():
        settings[section] = {**settings[section], **value} if isinstance(value, dict) else value
    file.write_text(yaml.safe_dump(settings), "utf-8")


@asynccontextmanager
async def _service(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    *,
    on_event: Callable[[JsonObject], None] = lambda _: None,
    project: str = PROJECT,
) -> AsyncIterator[tuple[Workspace, Service]]:
    home = world.root / ".tracemend"
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    ws = open_project(home, project)
    async with local_driver(home / "checkpoints.sqlite", ws.ledger) as driver:
        yield ws, Service(ws, driver, on_event)
    ws.ledger.close()


def _texts(ws: Workspace, proposal: str) -> dict[str, Any]:
    stored = ws.ledger.proposals.latest(proposal).proposal
    card = ws.ledger.proposals.card(stored.id, stored.revision, "approve")
    assert card is not None
    payload: Any = card.payload
    return dict(payload["action_requests"][0]["args"])


async def test_an_edit_is_a_new_revision_with_its_own_card(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, before = waiting.world, waiting.world.harness()
    async with _service(world, monkeypatch) as (ws, service):
        args = _texts(ws, waiting.proposal)
        key = next(k for k in args if k.startswith("text:"))
        args[key] += "\n- Apologise to the customer when it took more than one call.\n"
        edit: JsonObject = {
            "type": "edit", "edited_action": {"name": "apply_proposal", "args": args},
        }  # fmt: skip
        outcome = await service.decide(waiting.proposal, edit, ANN)
        assert (outcome.state, outcome.proposal.revision) == ("waiting", 2)
        assert outcome.proposal.draft.author == "person:ann"
        assert outcome.release is None
        assert world.harness() == before
        assert "Apologise" in str(_texts(ws, waiting.proposal)[key])
        approved = await service.decide(waiting.proposal, APPROVE, BOB)
        assert approved.release is not None, approved
    assert b"Apologise to the customer" in world.harness()[key.removeprefix("text:")]


async def test_an_edit_that_breaks_a_rule_is_refused_and_the_card_still_waits(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _service(waiting.world, monkeypatch) as (ws, service):
        args = _texts(ws, waiting.proposal)
        key = next(k for k in args if k.startswith("text:"))
        for text, rule in (
            (str(args[key]).replace("---\n\n", "allowed-tools: Bash\n---\n\n", 1), "rights"),
            (str(args[key]) + "\nUse the key sk-" + "A1b2" * 6 + "\n", "secrets"),
        ):
            changed = {**args, key: text}
            edit: JsonObject = {
                "type": "edit", "edited_action": {"name": "apply_proposal", "args": changed},
            }  # fmt: skip
            with pytest.raises(PolicyRefused, match=rule):
                await service.decide(waiting.proposal, edit, ANN)
        outside: JsonObject = {
            "type": "edit",
            "edited_action": {"name": "apply_proposal", "args": {"text:../x.md": "y"}},
        }
        with pytest.raises(PolicyRefused):
            await service.decide(waiting.proposal, outside, ANN)
        stored = ws.ledger.proposals.latest(waiting.proposal)
        assert (stored.state, stored.proposal.revision) == ("waiting", 1)
        assert ws.ledger.proposals.decisions(waiting.proposal, 1, "approve") == []


async def test_silence_is_a_no_by_the_system(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, before = waiting.world, waiting.world.harness()
    async with _service(world, monkeypatch) as (ws, service):
        now = ws.ledger.db.clock
        await service.reconcile()
        assert ws.ledger.proposals.latest(waiting.proposal).state == "waiting"
        monkeypatch.setattr(ws.ledger.db, "clock", lambda: now() + timedelta(days=7, hours=1))
        await service.reconcile()
        stored = ws.ledger.proposals.latest(waiting.proposal)
        decision = ws.ledger.proposals.decision(waiting.proposal, 1, "approve")
        assert stored.state == "expired"
        assert decision is not None
        assert (decision.type, decision.by, decision.via) == ("expired", "tracemend", "system")
        assert [x.outcome for x in ws.ledger.knowledge.lessons()] == ["expired"]
        late = await service.decide(waiting.proposal, APPROVE, ANN)
        assert (late.first, late.state) == (False, "expired")
    assert world.harness() == before


@pytest.mark.servers
async def test_where_two_are_asked_for_one_is_not_enough(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, before = waiting.world, waiting.world.harness()
    _set(world, review={"second_person": "low"})
    async with _service(world, monkeypatch) as (ws, service):
        first = await service.decide(waiting.proposal, APPROVE, ANN)
        assert (first.state, first.release) == ("waiting", None)
        assert any("a second, other person" in line for line in outcome_lines(first))
        assert world.harness() == before
        with pytest.raises(PolicyRefused, match="a second person must as well"):
            await service.decide(waiting.proposal, APPROVE, ANN)
        second = await service.decide(waiting.proposal, APPROVE, BOB)
        assert second.release is not None
        seats = ws.ledger.proposals.decisions(waiting.proposal, 1, "approve")
        assert [(d.seat, d.by) for d in seats] == [(1, "ann"), (2, "bob")]


@pytest.mark.servers
async def test_a_hand_edit_between_gate_and_apply_is_kept(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The yes was for another base: nothing is written, r2 waits for its own yes."""
    world = waiting.world
    _set(world, gate={"uses": 5})
    file = world.root / "instructions" / "main.md"

    def edit_by_hand(event: JsonObject) -> None:
        if event.get("node") == "gate" and b"Sundays" not in file.read_bytes():
            file.write_bytes(file.read_bytes() + b"\n- Closed on Sundays.\n")

    async with _service(world, monkeypatch, on_event=edit_by_hand) as (ws, service):
        outcome = await service.decide(waiting.proposal, APPROVE, ANN)
        assert (outcome.release, outcome.state, outcome.proposal.revision) == (None, "waiting", 2)
        assert "instructions/main.md" in outcome.changed[0]
        assert exit_code(outcome) == 3
        assert b"Sundays" in world.harness()["instructions/main.md"]
        assert ws.ledger.effects.releases() == []
        plans = [ws.ledger.proposals.revisions(waiting.proposal)[n].proposal.plan for n in (0, 1)]
        assert (plans[0]["use"], plans[1]["use"]) == (1, 2)
        assert plans[1]["alpha"] == 0.05 / 5 / 2
        again = await service.decide(waiting.proposal, APPROVE, ANN)
        assert again.release is not None
        assert again.release.proposal_hash == again.proposal.hash
    assert b"Sundays" in world.harness()["instructions/main.md"]


@pytest.mark.servers
@pytest.mark.parametrize("said", ["approve", "reject"])
async def test_the_override_card_is_a_second_decision(
    world: World, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """Without sealed cases no gate accepts; a named person may still say yes, to that report."""
    _set(world, cases=[])
    before = world.harness()
    async with _service(world, monkeypatch) as (ws, service):
        ran = await service.start({"kind": "improve", "finding": None})
        assert ran.proposal is not None
        tested = await service.decide(ran.proposal, APPROVE, ANN)
        assert tested.report is not None
        assert (tested.report[0].verdict, exit_code(tested)) == ("inconclusive", 5)
        assert world.harness() == before
        answer: JsonObject = {"type": said, "message": "risky: not proven"}
        outcome = await service.decide(ran.proposal, answer, ANN)
        decision = ws.ledger.proposals.decision(ran.proposal, 1, "override")
        assert decision is not None
        assert (decision.type, decision.binds) == (said, tested.report[1])
        assert len(ws.ledger.effects.releases()) == (said == "approve")
    assert outcome.state == ("watching" if said == "approve" else "rejected")
    assert (world.harness() == before) == (said == "reject")


async def test_a_second_finding_waits_for_its_turn(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _service(waiting.world, monkeypatch) as (ws, service):
        first = ws.ledger.proposals.latest(waiting.proposal).proposal.finding_id
        others = [
            s.finding for s in ws.ledger.knowledge.findings()
            if s.finding.id != first and s.finding.actionable and s.finding.text_fixable
        ]  # fmt: skip
        other = others[0].id
        ran = await service.start({"kind": "improve", "finding": other})
        assert (ran.proposal, ws.ledger.knowledge.finding(other).state) == (None, "ready")
        assert len(ws.ledger.proposals.all_latest()) == 1
        no: JsonObject = {"type": "reject", "message": "not_worth_it: later"}
        await service.decide(waiting.proposal, no, ANN)
        started = await service.reconcile()
        assert [(r.finding, r.state) for r in started] == [(other, "waiting")]


async def test_a_question_is_answered_with_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _service(world, monkeypatch) as (ws, service):
        ran = await service.start({"kind": "question", "text": "Why does payment_api fail?"})
        reply = str(ran.values["reply"])
        top = ws.ledger.knowledge.findings()[0].finding
        assert f"{top.units} of {top.units_total}" in reply
        assert "payment_api" in reply
        assert ws.ledger.proposals.all_latest() == []


async def test_a_watch_soon_after_a_release_says_too_few(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _service(applied.world, monkeypatch) as (ws, service):
        ran = await service.start({"kind": "watch", "release": applied.release})
        assert ran.values["watched"] == "too_few"
        assert ws.ledger.proposals.latest(applied.proposal).state == "watching"


async def test_a_thread_never_runs_under_another_project(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 15: the mismatch stops the run and leaves an audit entry."""
    world = waiting.world
    other = world.root.parent / "other"
    other.mkdir()
    text = (world.root / "tracemend.yaml").read_text("utf-8")
    (other / "tracemend.yaml").write_text(text.replace(f"project: {PROJECT}", "project: other"))
    register(world.root / ".tracemend", "other", other)
    with world.looking() as ledger:
        thread = ledger.incidents.unfinished()[0].thread
    home = world.root / ".tracemend"
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    stranger = open_project(home, "other")
    async with local_driver(home / "foreign.sqlite", stranger.ledger) as driver:
        with pytest.raises(ProjectMismatch, match="belongs to another project than 'other'"):
            await driver.start(thread, {"kind": "improve", "finding": None}, lambda _: None)
    assert stranger.ledger.audit.verify().entries == 1
    with pytest.raises(UsageError, match="no such proposal in project 'other'"):
        stranger.ledger.proposals.latest(waiting.proposal)
    stranger.ledger.close()


SPY = """
import hashlib, json, sys
from pathlib import Path

print(json.dumps({"op": "ready", "v": 1, "concurrency": 8}), flush=True)
for line in sys.stdin:
    told = json.loads(line)
    if told["op"] == "stop":
        break
    here = Path(told["harness"])
    files = sorted(p for p in here.rglob("*") if p.is_file())
    seen = {str(p.relative_to(here)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
    with open(sys.argv[1], "a") as log:
        print(json.dumps(seen), file=log)
    answer = {"id": told["id"], "output": "no", "error": None, "missing": None, "spans": None}
    print(json.dumps({**answer, "usage": {}}), flush=True)
"""


async def test_nothing_that_was_drafted_runs_before_the_yes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 2: a probe that notes the harness of every run sees the operator's own until then."""
    log, spy = world.root / "ran", world.root / "spy.py"
    spy.write_text(SPY, "utf-8")
    _set(world, probe={"command": [sys.executable, str(spy), str(log)]})
    own = {path: sha256_hex(data) for path, data in world.harness().items()}
    async with _service(world, monkeypatch) as (_, service):
        ran = await service.start({"kind": "improve", "finding": None})
        assert ran.state == "waiting"
        assert ran.proposal is not None
        before = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        assert len(before) == 2 * (5 + PRECHECKED), "the precheck: targets and sealed cases, twice"
        assert all(seen == own for seen in before)
        await service.decide(ran.proposal, APPROVE, ANN)
        after = [json.loads(line) for line in log.read_text("utf-8").splitlines()][len(before) :]
        assert any(seen != own for seen in after)


async def test_the_state_that_travels_is_small_and_json(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _service(waiting.world, monkeypatch) as (ws, service):
        thread = ws.ledger.incidents.unfinished()[0].thread
        standing = await service._driver.standing(thread)
        text = json.dumps(standing.values)
        assert len(text) < 4000
        assert not any(dataclasses.is_dataclass(value) for value in standing.values.values())
        assert len(standing.pending) == 1


async def test_what_was_tried_before_is_on_the_next_card(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set(applied.world, gate={"uses": 5})
    async with _service(applied.world, monkeypatch) as (ws, service):
        finding = ws.ledger.proposals.latest(applied.proposal).proposal.finding_id
        await service.undo(applied.release, BOB)
        assert applied.world.harness() == applied.before
        assert ws.ledger.knowledge.finding(finding).state == "reopened"
        ran = await service.start({"kind": "improve", "finding": finding})
        assert ran.proposal is not None
        assert ran.proposal != applied.proposal
        card: Any = ws.ledger.proposals.card(ran.proposal, 1, "approve")
        trail = [entry["what"] for entry in card.view["trail"]]
        assert any("outcome: applied, undone; refuted" in what for what in trail), trail
        assert any("outcome: applied" in what for what in trail), trail


async def test_a_plain_improve_takes_up_a_finding_again(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What became training cases after a no are targets again for the next proposal."""
    async with _service(waiting.world, monkeypatch) as (ws, service):
        now = ws.ledger.db.clock
        monkeypatch.setattr(ws.ledger.db, "clock", lambda: now() + timedelta(days=7, hours=1))
        await service.reconcile()
        assert ws.ledger.proposals.latest(waiting.proposal).state == "expired"
        monkeypatch.setattr(ws.ledger.db, "clock", now)
        ran = await service.start({"kind": "improve", "finding": None})
        assert (ran.state, ran.waiting) == ("waiting", True)
        assert ran.proposal != waiting.proposal


async def test_a_spent_level_refuses_the_plan_and_says_so(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project allows one use: nothing honest can be claimed about this finding again."""
    async with _service(applied.world, monkeypatch) as (ws, service):
        finding = ws.ledger.proposals.latest(applied.proposal).proposal.finding_id
        await service.undo(applied.release, BOB)
        ran = await service.start({"kind": "improve", "finding": finding})
        assert ran.proposal is not None
        assert (ran.state, ran.waiting) == ("invalid", False)
        done = ws.ledger.steps.get(ran.thread, "plan:1:approve") or {}
        assert "level spent" in str(done["why"])


async def test_exemplar_traces_are_kept_condensed(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _service(waiting.world, monkeypatch) as (ws, _):
        finding = ws.ledger.proposals.latest(waiting.proposal).proposal.finding_id
        kept: Any = ws.ledger.knowledge.evidence(finding)["condensed"]
        exemplars = ws.ledger.knowledge.finding(finding).finding.exemplars
        traces = {json.loads(ws.ledger.artifacts.text(d, "condensed"))["trace_id"] for d in kept}
        assert traces
        assert traces <= {trace for trace, _ in exemplars}
