"""Promises 1, 4, 5 and 6 over real processes: what a decision does, and what stops it."""

import json
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.story.worlds import Applied, Finished, Waiting, World

pytestmark = [pytest.mark.story, pytest.mark.servers]


def test_two_processes_approve_at_once(waiting: Waiting) -> None:
    """One decision, one release; the other is told so with exit 4."""
    world = waiting.world

    def approve(name: str) -> Finished:
        return world.run("approve", waiting.proposal, "--as", name, "--json")

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(approve, ("ann", "bob"))
    assert sorted((first.code, second.code)) == [0, 4], first.err + second.err
    winner, other = (first, second) if first.code == 0 else (second, first)
    assert other.json["first"] is False
    assert other.json["decision"]["by"] == winner.json["decision"]["by"]
    with world.looking() as ledger:
        assert len(ledger.effects.releases()) == 1
        assert len(ledger.proposals.decisions(waiting.proposal, 1, "approve")) == 1
        assert ledger.audit.verify().ok


def test_an_approval_sent_twice_is_one_decision(applied: Applied) -> None:
    again = applied.world.run("approve", applied.proposal, "--as", "eve", "--json")
    assert again.code == 4
    assert (again.json["decision"]["by"], again.json["first"]) == ("ann", False)
    assert again.json["release"]["id"] == applied.release


def test_a_reject_changes_no_byte_and_is_remembered(waiting: Waiting) -> None:
    world, before = waiting.world, waiting.world.harness()
    done = world.run("reject", waiting.proposal, "--reason", "wrong_fix: too eager", "--json")
    assert (done.code, done.json["state"]) == (0, "rejected")
    assert done.json["decision"]["reason"] == "wrong_fix"
    assert world.harness() == before
    with world.looking() as ledger:
        lessons = ledger.knowledge.lessons()
        assert [(x.outcome, x.reason) for x in lessons] == [("rejected", "wrong_fix")]
        finding = lessons[0].finding_id
    late = world.run("approve", waiting.proposal, "--as", "ann", "--json")
    assert (late.code, late.json["decision"]["type"]) == (4, "reject")
    # The same edit is not offered again: what was turned down is in the policy's way.
    again = world.run("improve", "--finding", finding, "--json")
    assert again.code == 0, again.err
    assert again.json["runs"][0]["proposal"] is None
    assert world.harness() == before


def test_a_reject_without_a_reason_is_refused(waiting: Waiting) -> None:
    done = waiting.world.run("reject", waiting.proposal, "--reason", " ")
    assert done.code == 7
    assert "a reject needs a reason" in done.err
    assert waiting.world.run("resume", "--json").json["runs"][0]["state"] == "waiting"


def test_a_hand_edit_before_the_yes_stops_it(waiting: Waiting) -> None:
    """Exit 3 says what changed, no approval is recorded, r2 waits for its own."""
    world = waiting.world
    edited = world.root / "instructions" / "main.md"
    edited.write_bytes(edited.read_bytes() + b"\n- Closed on Sundays.\n")
    by_hand = world.harness()
    stale = world.run("approve", waiting.proposal, "--as", "ann", "--json")
    assert stale.code == 3, stale.err
    assert stale.json["changed"] == ["instructions/main.md"]
    assert (stale.json["decision"], stale.json["revision"]) == (None, 2)
    assert world.harness() == by_hand
    with world.looking() as ledger:
        assert ledger.proposals.decisions(waiting.proposal, 1, "approve") == []
        assert ledger.proposals.latest(waiting.proposal).state == "waiting"
    approved = world.run("approve", waiting.proposal, "--as", "ann", "--json")
    assert approved.code == 0, approved.err
    assert world.harness()["instructions/main.md"] == by_hand["instructions/main.md"]
    assert len(world.harness()) == len(by_hand) + 1


def test_the_hash_that_was_seen_binds(waiting: Waiting) -> None:
    refused = waiting.world.run("approve", waiting.proposal, "--hash", "0" * 64)
    assert refused.code == 3
    assert "you saw another text" in refused.err
    with waiting.world.looking() as ledger:
        assert ledger.proposals.decisions(waiting.proposal, 1, "approve") == []


def test_undo_restores_the_exact_bytes_and_answers_twice_alike(applied: Applied) -> None:
    world = applied.world
    first = world.run("undo", applied.release, "--as", "bob", "--json")
    assert (first.code, first.json["release"]["undoes"]) == (0, applied.release)
    assert world.harness() == applied.before
    again = world.run("undo", applied.release, "--as", "eve", "--json")
    assert again.code == 0
    assert again.json["release"] == first.json["release"]


def test_undo_refuses_when_somebody_changed_the_files_since(applied: Applied) -> None:
    world = applied.world
    added = next(path for path in world.harness() if path not in applied.before)
    file = world.root / added
    file.write_bytes(file.read_bytes() + b"\n- By hand.\n")
    by_hand = world.harness()
    refused = world.run("undo", applied.release, "--json")
    assert refused.code == 3
    assert refused.json["changed_since"] == [added]
    assert added in refused.err
    assert world.harness() == by_hand
    # Once the hand edit is gone, the same undo works: a refusal is not for ever.
    file.write_bytes(file.read_bytes().removesuffix(b"\n- By hand.\n"))
    assert world.run("undo", applied.release, "--json").code == 0
    assert world.harness() == applied.before


def test_our_own_gate_runs_are_never_evidence(applied: Applied) -> None:
    """Promise 14: what the worker recorded under the probe's protocol moves no count."""
    world = applied.world
    traces = ["--traces", "traces/this-week.otlp.jsonl"]
    before = world.run("analyze", *traces, "--json").json
    with world.looking() as ledger:
        finding = ledger.knowledge.findings()[0].finding
        failing = [case.input for case in ledger.knowledge.all_cases(finding.id)]
    own = world.root / "traces" / "own.otlp.jsonl"
    _record_as_probe(world, failing, own)
    after = world.run("analyze", *traces, "--traces", str(own), "--json").json
    assert after["read"]["excluded_own"] == len(failing) > 0
    assert after["read"]["traces"] == before["read"]["traces"]
    assert after["findings"] == before["findings"]
    # The guard of this test: with the marks taken out, the same spans do count.
    text = own.read_text("utf-8")
    own.write_text(text.replace("tracemend-gate", "elsewhere").replace("tracemend.run_id", "x.y"))
    unmarked = world.run("analyze", *traces, "--traces", str(own), "--json").json
    assert unmarked["read"]["traces"] == before["read"]["traces"] + len(failing)


def _record_as_probe(world: World, inputs: Sequence[object], out: Path) -> None:
    """Run the example's worker by the protocol, as the gate does, and keep its spans."""
    worker = subprocess.Popen(
        [world.command()[0], "-m", "examples.refund_agent.worker"], cwd=world.root,
        env=world.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert worker.stdin is not None
    assert worker.stdout is not None
    with worker, out.open("w", encoding="utf-8") as kept:
        assert json.loads(worker.stdout.readline())["op"] == "ready"
        for number, case_input in enumerate(inputs):
            run = {
                "op": "run", "id": f"own-{number}", "input": case_input, "seed": number,
                "harness": str(world.root), "deadline_s": 20,
            }  # fmt: skip
            worker.stdin.write(json.dumps(run) + "\n")
            worker.stdin.flush()
            kept.write(Path(json.loads(worker.stdout.readline())["spans"]).read_text("utf-8"))
        worker.stdin.write(json.dumps({"op": "stop"}) + "\n")
        worker.stdin.flush()
        assert worker.wait(20) == 0


def test_an_equal_alert_is_one_incident(world: World) -> None:
    """Promise 6, at the service's own door."""
    script = (
        "import asyncio, json, pathlib\n"
        "from graph.cli.session import open_session\n"
        "alert = {'kind': 'alert', 'alert': {'source': 's', 'key': 'k', 'body': {}}}\n"
        "async def main():\n"
        "    async with open_session('refunds', quiet=True) as session:\n"
        "        one = await session.service.start(alert)\n"
        "        two = await session.service.start(alert)\n"
        "        print(json.dumps([one.thread, two.thread, one.proposal, two.proposal]))\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [world.command()[0], "-c", script], cwd=world.root, env=world.environ,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first_thread, second_thread, first, second = json.loads(done.stdout)
    assert (first_thread, first) == (second_thread, second)
    with world.looking() as ledger:
        assert len(ledger.incidents.unfinished()) == 1
        assert len(ledger.proposals.all_latest()) == 1
