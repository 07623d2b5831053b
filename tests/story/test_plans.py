"""What a plan is made of, and what the agent is run for before anybody is asked."""

from pathlib import Path

import pytest
import yaml

from contracts.gate import CaseOutcome, Graded
from contracts.harness import HarnessFile, HarnessSnapshot, Revision
from contracts.json_types import Json, JsonObject
from memory.cases import fingerprint, load_cases
from memory.sealed import Member
from memory.workspace import Workspace, open_project
from nodes.casebook import members, read_casebook
from tests.story.small_worlds import (
    ANN,
    BEFORE,
    CLOSED,
    GOOD,
    MAIN,
    PROJECT,
    Small,
    case_of,
    cases,
    change_settings,
    enter,
    opened,
    plan_of,
    ready,
    write_cases,
    write_project,
)
from tests.story.worlds import World

pytestmark = [pytest.mark.story, pytest.mark.servers]

BASE = HarnessSnapshot(files={MAIN: HarnessFile(data=BEFORE.encode())}).revision


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small project, entered; five uses of its sealed set."""
    made = tmp_path / "repo"
    write_project(made, cases(), uses=5)
    monkeypatch.setenv("TRACEMEND_HOME", str(made / ".tracemend"))
    enter(made)
    return made


def _home(root: Path) -> Path:
    return root / ".tracemend"


def _kept(ws: Workspace, revision: Revision = BASE) -> int:
    return sum(seen.runs for seen in ws.ledger.case_runs.counts(revision).values())


async def test_an_agent_that_cannot_start_leaves_a_note_and_a_card(root: Path) -> None:
    change_settings(root, probe={"command": ["/bin/false"]})
    async with opened(_home(root)) as small:
        assert small.state() == "waiting"
        assert "Precheck: the agent could not be started: " in small.notes()
        assert "10% discordant cases is an assumption" in small.notes()
        assert _kept(small.ws) == 0


async def test_a_project_without_a_probe_is_planned_and_says_so(root: Path) -> None:
    file = root / "tracemend.yaml"
    settings = yaml.safe_load(file.read_text("utf-8"))
    del settings["probe"]
    file.write_text(yaml.safe_dump(settings), "utf-8")
    async with opened(_home(root)) as small:
        assert small.state() == "waiting"
        assert "Precheck: no probe is configured." in small.notes()


async def test_a_slow_agent_ends_the_precheck_in_time_and_what_was_run_is_kept(
    root: Path,
) -> None:
    change_settings(root, gate={"precheck_seconds": 2})
    (root / "mode").write_text("slow", "utf-8")
    async with opened(_home(root)) as small:
        assert "of 50 baseline runs were done in 2 s (gate.precheck_seconds)" in small.notes()
        assert 0 < _kept(small.ws) < 50


async def test_a_precheck_can_be_turned_off(root: Path) -> None:
    change_settings(root, gate={"precheck": False})
    async with opened(_home(root)) as small:
        assert small.ran() == []
        assert "Precheck" not in small.notes()


async def test_what_the_precheck_saw_is_what_the_plan_assumes(root: Path) -> None:
    """Nothing differs between two runs, so less than the usual tenth is assumed."""
    async with opened(_home(root)) as small:
        plan = plan_of(small.latest())
        assert plan["discordance"] == pytest.approx(5 * 0.10 / 25)
        assert (
            "Precheck: reproduced 5 of 5 target cases (10 runs without the edit)."
            in (plan["notes"])
        )


async def test_targets_that_pass_without_the_edit_are_not_called_reproduced(root: Path) -> None:
    listed = cases()
    listed[0]["input"] = {"kind": "ordinary", "number": 1}
    listed[1]["input"] = {"kind": "ordinary", "number": 2}
    write_cases(root, listed)
    async with opened(_home(root)) as small:
        assert "reproduced 3 of 5 target cases" in small.notes()


async def test_a_persons_edit_on_the_same_base_runs_nothing_again(root: Path) -> None:
    async with opened(_home(root)) as small:
        ran = len(small.ran())
        args = dict(_arguments(small))
        args[f"text:{MAIN}"] = f"{args[f'text:{MAIN}']}- Be kind.\n"
        edit: JsonObject = {
            "type": "edit", "edited_action": {"name": "apply_proposal", "args": args},
        }  # fmt: skip
        outcome = await small.service.decide(small.proposal, edit, ANN)
        assert (outcome.state, outcome.proposal.revision) == ("waiting", 2)
        assert len(small.ran()) == ran
        assert "reproduced 5 of 5 target cases" in small.notes()


async def test_the_use_of_a_plan_counts_what_it_runs_and_not_what_its_budget_cut(
    root: Path,
) -> None:
    """Of 34 sealed cases the budget pays for five; another gate ran one of the others."""
    change_settings(root, gate={"max_runs": 60})
    async with opened(_home(root)) as small:
        first = {one["case"] for one in plan_of(small.latest())["sealed"]}
        assert len(first) == 5
        sealed = small.ws.ledger.sealed
        other = next(one for one in sealed.listed() if one.case not in first)
        with small.ws.ledger.db.write() as tx:
            member = Member(fingerprint=other.fingerprint, case=other.case, family=other.family)
            sealed.used(tx, "another gate", member)
        report = (await small.approve()).report
        assert report is not None
        assert report[0].reason != "use_taken"
        no: JsonObject = {"type": "reject", "message": "not_worth_it: later"}
        await small.service.decide(small.proposal, no, ANN)
        plan = plan_of(small.ws.ledger.proposals.latest(await small.next(CLOSED, "t-2")).proposal)
        cases_used = {one.case for one in sealed.listed() if one.uses}
        ran = bool(first & {one["case"] for one in plan["sealed"]})
        again = other.case in {one["case"] for one in plan["sealed"]}
        assert len(cases_used) == 6
        assert plan["use"] == 1 + ran + again


def _arguments(small: Small) -> dict[str, Json]:
    latest = small.latest()
    card = small.ws.ledger.proposals.card(latest.id, latest.revision, "approve")
    assert card is not None
    payload: dict[str, list[dict[str, dict[str, Json]]]] = dict(card.payload)  # type: ignore[arg-type]  # the human-in-the-loop shape
    return payload["action_requests"][0]["args"]


@pytest.mark.kill
def test_a_killed_precheck_goes_on_where_it_was(root: Path) -> None:
    ws = open_project(_home(root), PROJECT)
    ready(ws, GOOD)
    ws.ledger.close()
    world = World(root=root)
    killer = ("before", "memory.case_runs:CaseRuns.add", "12")
    killed = world.run("resume", "--json", killer=killer)
    assert killed.code == -9, killed.err
    resumed = world.run("resume", "--json")
    assert [run["state"] for run in resumed.json["runs"]] == ["waiting"], resumed.err
    ran = len((root / "runs.log").read_text("utf-8").splitlines())
    assert 50 < ran <= 50 + 4 + 1, "only what was under way at the kill runs again"
    again = open_project(_home(root), PROJECT)
    assert _kept(again) == 50
    again.ledger.close()


async def test_guards_are_cases_that_pass_stably_without_the_edit(root: Path) -> None:
    write_cases(root, [*cases(), *_guards()])

    def runs(ws: Workspace) -> None:
        _observed(ws, root, "guard-0", passes=10)
        _observed(ws, root, "guard-1", passes=6)
        _observed(ws, root, "sealed-1", passes=10)

    async with opened(_home(root), before=runs) as small:
        plan = plan_of(small.latest())
        assert [one["case"] for one in plan["guards"]] == ["guard-0"]
        assert [one["case"] for one in plan["sealed"] if one["protected"]] == ["sealed-1"]


def _guards() -> list[dict[str, Json]]:
    return [case_of("monday", n, "guard") for n in range(2)]


def _observed(ws: Workspace, root: Path, name: str, *, passes: int) -> None:
    """Ten stored runs of a case, as `tracemend cases run --repeat 10` leaves them."""
    case = next(one for one in load_cases(root, ["cases/*.yaml"]) if one.id == name)
    with ws.ledger.db.write() as tx:
        for i in range(10):
            graded = Graded(result="pass" if i < passes else "fail", cost_usd=0.001, seconds=0.1)
            ws.ledger.case_runs.add(tx, "cases", fingerprint(case), BASE, graded, key=f"{name}|{i}")


async def test_an_edit_that_breaks_a_guard_is_rejected_and_names_it(root: Path) -> None:
    write_cases(root, [*cases(sealed=48), *_guards()])
    change_settings(root, gate={"uses": 1})
    async with opened(
        _home(root), before=lambda ws: _observed(ws, root, "guard-0", passes=10), added=CLOSED
    ) as small:
        outcome = await small.approve()
        assert outcome.report is not None
        report = outcome.report[0]
        assert report.verdict == "reject", report
        assert "guard" in report.reason
        worse: list[CaseOutcome] = [one for one in report.cases if one.state == "confirmed"]
        assert [(one.name, one.phase) for one in worse] == [("guard-0", "guard")]


@pytest.mark.kill
def test_killed_in_a_guards_test_it_goes_on_to_the_same_end(root: Path) -> None:
    write_cases(root, [*cases(sealed=48), *_guards()])
    change_settings(root, gate={"uses": 1})
    ws = open_project(_home(root), PROJECT)
    _observed(ws, root, "guard-0", passes=10)
    proposal = ready(ws, CLOSED)
    ws.ledger.close()
    world = World(root=root)
    assert world.run("resume", "--json").code == 0
    killer = ("before", "memory.gate_ledger:GateLedger.put_block", str(_targets_and_sealed() + 5))
    killed = world.run("approve", proposal.id, "--as", "ann", "--json", killer=killer)
    assert killed.code == -9, killed.err
    resumed = world.run("resume", "--json")
    assert [run["state"] for run in resumed.json["runs"]] == ["gate_rejected"], resumed.err
    again = open_project(_home(root), PROJECT)
    blocks = again.ledger.gate.blocks(again.ledger.proposals.latest(proposal.id).proposal.hash)
    assert sum(block.phase == "guard" for block in blocks) >= 11
    assert again.ledger.audit.verify().ok
    again.ledger.close()


def _targets_and_sealed() -> int:
    return 4 * 5 + 48


async def test_a_block_and_the_use_it_makes_are_kept_together(root: Path) -> None:
    async with opened(_home(root)) as small:
        await small.approve()
        ledger = small.ws.ledger
        kept = ledger.gate.blocks(small.latest().hash)
        ran = {block.case for block in kept if block.phase == "sealed"}
        lines = [line for line in ledger.sealed.listed() if line.uses]
        assert {line.case for line in lines} == ran
        assert {line.uses for line in lines} == {1}
        # The baseline's runs of the gate are kept for later plans.
        assert _kept(small.ws) == 50 + len(kept)


async def test_a_second_plan_is_the_second_use_at_half_the_level(root: Path) -> None:
    """Not accepted: the epoch goes on."""
    change_settings(root, gate={"margin": 0.02})
    async with opened(_home(root), added=CLOSED + "- Answer in Latin.\n") as small:
        await small.approve()
        assert small.state() == "gate_rejected"
        again = await small.next(GOOD, "t-second")
        plan = plan_of(small.ws.ledger.proposals.latest(again).proposal)
        assert (plan["use"], plan["alpha"]) == (2, 0.05 / 5 / 2)
        assert any("use 2 of 5" in note for note in plan["notes"])


@pytest.mark.parametrize(("more", "taken"), [(60, "unused"), (6, "all")])
async def test_after_an_accept_the_set_that_proves_more_is_taken(
    root: Path, more: int, taken: str
) -> None:
    """Forty cases that four gates used: sixty new ones alone prove more, six do not."""
    write_cases(root, cases(sealed=40))
    async with opened(_home(root)) as small:
        outcome = await small.approve()
        assert outcome.release is not None, outcome.report
        sealed = small.ws.ledger.sealed
        old = members(read_casebook(small.ws).tagged("sealed"))
        with small.ws.ledger.db.write() as tx:
            for gate in ("second", "third", "fourth"):
                for member in old:
                    sealed.used(tx, gate, member)
        write_cases(root, cases(sealed=40 + more))
        again = await small.next("- Be kind.\n", "t-second")
        plan = plan_of(small.ws.ledger.proposals.latest(again).proposal)
        chosen = {one["case"] for one in plan["sealed"]}
        assert any(note.startswith("Of two sealed sets this one") for note in plan["notes"])
        new = {f"sealed-{n}" for n in range(40, 40 + more)}
        if taken == "unused":
            assert chosen == new
            assert (plan["use"], plan["alpha"]) == (1, 0.05 / 5)
        else:
            assert chosen == {f"sealed-{n}" for n in range(40 + more)}
            assert (plan["use"], plan["alpha"]) == (5, 0.05 / 5 / 2**4)
        decided = await small.service.decide(again, {"type": "approve"}, ANN)
        assert decided.report is not None
        assert decided.report[0].reason == "not reproduced", "the level was the one assumed"


async def test_a_sealed_case_that_had_its_uses_only_trains(root: Path) -> None:
    change_settings(root, gate={"uses": 2})

    def used(ws: Workspace) -> None:
        sealed = read_casebook(ws).tagged("sealed")
        with ws.ledger.db.write() as tx:
            ws.ledger.sealed.seal(tx, members(sealed))
            for gate in ("first", "second"):
                for member in members(sealed)[:4]:
                    ws.ledger.sealed.used(tx, gate, member)

    async with opened(_home(root), before=used) as small:
        plan = plan_of(small.latest())
        assert len(plan["sealed"]) == 30
        assert (plan["use"], plan["alpha"]) == (1, 0.05 / 2)
        assert (
            "4 cases that were sealed are retired and only train now (4 used 2 times)."
            in (plan["notes"])
        )
        # New assertions make no new case of it.
        listed = cases()
        for case in listed:
            case["assert"] = [{"contains": "done"}, {"not_empty": True}]
        write_cases(root, listed)
        assert len(read_casebook(small.ws).tagged("sealed")) == 30


async def test_quarantine_ends_on_its_day_and_unknown_names_are_said(root: Path) -> None:
    write_cases(root, [*cases(), case_of("ordinary", 1, "critical")])
    change_settings(
        root,
        gate={
            "quarantine": [
                {"case": "target-0", "owner": "bob", "until": "2999-01-01"},
                {"case": "target-1", "owner": "bob", "until": "2020-01-01"},
                {"case": "sealed-3", "owner": "bob", "until": "2020-01-01"},
                {"case": "nobody", "owner": "bob", "until": "2999-01-01"},
            ],
            "exempt": [
                {"case": "critical-1", "by": "eve", "why": "known"},
                {"case": "target-2", "by": "eve", "why": "known"},
            ],
        },
    )  # fmt: skip
    async with opened(_home(root)) as small:
        plan = plan_of(small.latest())
        assert {one["case"] for one in plan["targets"]} == {f"target-{n}" for n in range(1, 5)}
        assert [one["owner"] for one in plan["quarantined"]] == ["bob"]
        assert [one["case"] for one in plan["exempt"]] == ["critical-1"]
        for said in (
            "Quarantine of target-1 ended on 2020-01-01: it is tested again.",
            "gate.quarantine names 'nobody', which is no case.",
            "gate.exempt names 'target-2', which is no critical case.",
        ):
            assert said in plan["notes"]
        ended = next(note for note in plan["notes"] if "Quarantine of fingerprint" in note)
        assert "sealed-3" not in ended


async def test_the_manifest_of_the_sealed_set_is_in_the_plan(root: Path) -> None:
    async with opened(_home(root)) as small:
        sealed = small.ws.ledger.sealed
        digest = sealed.manifest_hash()[:12]
        assert f"Sealed set: epoch 1, use 1 of 5, manifest {digest}." in small.notes()
        assert len(sealed.listed()) == 34
        with small.ws.ledger.db.write() as tx:
            sealed.seal(tx, [Member(fingerprint="f", case=sealed.listed()[0].case, family="x")])
        assert sealed.manifest_hash()[:12] != digest
