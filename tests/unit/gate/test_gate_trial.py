"""Trials: two revisions through the whole rule; checks of the gate by itself on top of them."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from contracts.codec import to_json
from contracts.errors import ProbeError, UsageError
from contracts.harness import HarnessFile, HarnessSnapshot, Observation
from contracts.json_types import Json
from memory.workspace import Workspace
from nodes.casebook import members, read_casebook
from nodes.gate import checks
from nodes.gate.checks import ANCHOR_EVERY, accepts_since_anchor, anchor, back_to_back, self_test
from nodes.gate.design import PlanRefused, design_plan
from nodes.gate.schedule import BlockToRun
from nodes.gate.selftest import check_rule
from nodes.gate.trial import Sides, Sorts, design_trial, run_trial, trial_key
from nodes.gate.verdict import report
from nodes.ports import open_harness
from tests.gate_worlds import designed, fixing
from tests.run_worlds import Clock
from tests.trial_worlds import PROMPT, ScriptedProbe, proposed, trial_project


def uses(ws: Workspace) -> int:
    return ws.ledger.sealed.uses_of(members(read_casebook(ws).tagged("sealed")))


def moved(ws: Workspace) -> None:
    clock = ws.ledger.db.clock
    assert isinstance(clock, Clock)
    clock.later(minutes=1)


def harness(text: str) -> HarnessSnapshot:
    return HarnessSnapshot(files={PROMPT: HarnessFile(data=text.encode())})


async def test_one_revision_against_itself_fixes_nothing_and_harms_nothing(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=12)
    probe = ScriptedProbe()
    found = await back_to_back(ws, probe)
    assert found.fixed is not None
    assert found.unharmed is not None
    assert (found.fixed.verdict, found.fixed.reason) == ("inconclusive", "not fixed")
    assert found.unharmed.sealed == (0, 0, 12)
    assert (found.times, found.fixes_seen, found.harms_seen, found.off) == (1, 0, 0, None)
    assert {revision for _, revision in probe.runs} == {(await open_harness(ws).read()).revision}


async def test_back_to_back_spends_no_use_of_the_sealed_set(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=12)
    await back_to_back(ws, ScriptedProbe())
    assert uses(ws) == 0


async def test_back_to_back_keeps_the_baseline_runs(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=12)
    await back_to_back(ws, ScriptedProbe())
    kept = ws.ledger.case_runs.counts((await open_harness(ws).read()).revision)
    assert len(kept) == 15


async def test_without_any_case_there_is_nothing_to_run(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=0, known=0)
    with pytest.raises(UsageError, match="cases: none to run"):
        await back_to_back(ws, ScriptedProbe())


async def test_a_plan_of_a_proposal_with_equal_revisions_stays_refused(tmp_path: Path) -> None:
    ws = trial_project(tmp_path)
    book, now = read_casebook(ws), harness("a")
    with pytest.raises(PlanRefused, match="no change"):
        design_plan(
            base=now.revision, candidate=now.revision, targets=book.tagged("training"), sealed=(),
            margin=0.1, uses=5, use=1, issue_use=1, max_targets=5, max_runs=400, max_usd=1,
            max_seconds=1, deadline_s=1, seed=1, discordance=None,
        )  # fmt: skip


async def test_a_killed_trial_runs_no_finished_block_again(tmp_path: Path) -> None:
    ws = trial_project(tmp_path)
    sides = Sides(base=harness("Be kind."), candidate=harness("Be kind. knows: hard"))
    sorts = Sorts(targets=read_casebook(ws).tagged("training"))
    key = trial_key(ws, "planted", "x", sides)
    first = ScriptedProbe(dies_after=9)
    with pytest.raises(ProbeError):
        await run_trial(ws, first, design_trial(ws, key, sides, sorts))
    stored = ws.ledger.gate.blocks(key)
    assert len(stored) == 4  # the ninth run's block is not whole
    second = ScriptedProbe()
    report = await run_trial(ws, second, design_trial(ws, key, sides, sorts))
    assert report.runs == 8 + len(second.runs)
    assert report.target_passes[0] == 0
    assert next(c.state for c in report.claims if c.name == "L1") == "held"


async def test_the_next_back_to_back_runs_afresh(tmp_path: Path) -> None:
    ws = trial_project(tmp_path)
    probe = ScriptedProbe()
    await back_to_back(ws, probe)
    runs = len(probe.runs)
    moved(ws)
    found = await back_to_back(ws, probe)
    assert found.times == 2
    assert len(probe.runs) > runs


class Remembering(ScriptedProbe):
    """An agent with a cache that nobody emptied: a run passes when its input and seed were seen."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[str, int]] = set()

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        seen = await super().run(case_input, harness, seed=seed, deadline_s=deadline_s)
        place = (str(case_input), seed)
        again = place in self._seen
        self._seen.add(place)
        return replace(seen, output="done" if again else "cannot")


async def test_a_cache_between_the_arms_is_no_fix_where_their_order_is_drawn(
    tmp_path: Path,
) -> None:
    found = await back_to_back(trial_project(tmp_path), Remembering())
    assert (found.fixes_seen, found.off) == (0, None)


async def test_a_gate_that_always_runs_the_candidate_last_finds_itself_out_and_goes_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = trial_project(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(BlockToRun, "arms", property(lambda _: ("B", "C")))
        found = await back_to_back(ws, Remembering())
    assert found.fixes_seen == 1
    assert found.off is not None
    assert "showed L1 in 1 of 1 runs" in found.off
    moved(ws)
    await self_test(ws)  # deals results, and cannot see this
    assert is_off(ws)
    moved(ws)
    assert (await back_to_back(ws, ScriptedProbe())).off is None
    assert not is_off(ws)


def is_off(ws: Workspace) -> bool:
    last = ws.ledger.gate_checks.last("self_test")
    return last is not None and not last.ok


async def test_a_self_test_without_any_gate_is_sound(tmp_path: Path) -> None:
    ws = trial_project(tmp_path)
    found = await self_test(ws)
    assert (found.gates, found.deals, found.off) == (0, 0, None)
    assert not is_off(ws)


async def test_a_self_test_deals_what_the_gates_of_the_project_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws, plan = trial_project(tmp_path), designed(3, 0, repeats=4)
    made = proposed(ws, harness("a"), harness("b"), to_json(plan))
    for one in fixing(plan):
        ws.ledger.gate.put_block(made.hash, one)
    assert (await self_test(ws)).gates == 0  # no verdict yet
    with ws.ledger.db.write() as tx:
        ws.ledger.gate.put_report(tx, made.hash, report(plan, fixing(plan)), "digest")
    found = await self_test(ws)
    assert (found.gates, found.deals, found.off) == (1, 1_000, None)
    moved(ws)
    monkeypatch.setattr(checks, "check_rule", partial(check_rule, rule=lambda _: 0.0))
    assert (await self_test(ws)).off is not None
    assert is_off(ws)


async def old_revision(ws: Workspace, text: str) -> str:
    """A harness that a proposal was drafted on."""
    old = harness(text)
    proposed(ws, old, await open_harness(ws).read())
    return old.revision


async def test_an_anchor_reads_no_harm_against_an_older_revision(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=40, margin=0.15, uses=1)
    old = await old_revision(ws, "An older text.")
    found = await anchor(ws, ScriptedProbe(), old[:10])
    assert found.unharmed
    assert found.report.sealed[:2] == (0, 0)
    kept = ws.ledger.gate_checks.last("anchor")
    assert kept is not None
    assert (kept.ok, kept.body["anchor"]) == (True, old)


async def test_an_anchor_sees_what_was_lost_since(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=40, margin=0.15, prompt="breaks: 3")
    old = await old_revision(ws, "An older text.")
    found = await anchor(ws, ScriptedProbe(), old)
    assert not found.unharmed


async def test_an_anchor_spends_a_use_of_the_sealed_set(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=12)
    old = await old_revision(ws, "An older text.")
    assert (await anchor(ws, ScriptedProbe(), old)).use == 1
    assert uses(ws) == 1
    moved(ws)
    assert (await anchor(ws, ScriptedProbe(), old)).use == 2
    assert uses(ws) == 2


async def test_without_a_use_left_no_anchor_runs(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=12, uses=1)
    old = await old_revision(ws, "An older text.")
    await anchor(ws, ScriptedProbe(), old)
    moved(ws)
    probe = ScriptedProbe()
    with pytest.raises(UsageError, match="every use of the sealed set is spent"):
        await anchor(ws, probe, old)
    assert not probe.runs


async def test_an_anchor_never_runs_what_was_only_drafted(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=12)
    drafted = harness("A draft that nobody said yes to.")
    proposed(ws, await open_harness(ws).read(), drafted)
    probe = ScriptedProbe()
    with pytest.raises(UsageError, match="no harness of this revision was live"):
        await anchor(ws, probe, drafted.revision)
    assert not probe.runs


async def test_an_anchor_is_due_by_accepts_since_the_last(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, sealed=12)
    with ws.ledger.db.write() as tx:
        for number in range(5):
            ws.ledger.sealed.rotate(tx, f"p-{number}")
    assert accepts_since_anchor(ws) == ANCHOR_EVERY
    await anchor(ws, ScriptedProbe(), await old_revision(ws, "An older text."))
    assert accepts_since_anchor(ws) == 0
