"""`tracemend gate show` and `gate judge`: what they print, their documents and exit codes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from contracts.codec import to_json
from contracts.errors import ConfigError, UsageError
from contracts.json_types import Json
from contracts.proposals import ProposalId
from graph.cli.main import app
from memory.workspace import HOME_VARIABLE, Workspace
from tests.card_worlds import MAIN, RETRY, edit, harness, plan, proposal, report
from tests.gate_worlds import block
from tests.model_worlds import workspace


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    judge: dict[str, Json] = {
        "model": "scripted:judge.jsonl", "labels": "labels.jsonl", "regrade": 0.0,
    }  # fmt: skip
    spec: dict[str, Json] = {"judge": judge}
    made = workspace(tmp_path, gate=spec)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / ".tracemend"))
    yield made
    made.ledger.close()


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def decided(ws: Workspace) -> str:
    """A proposal whose first revision has a verdict, and whose second one only waits."""
    made, _ = proposal(harness(main=MAIN), edit(RETRY))
    first = replace(made, id=ProposalId("p-1"), plan=to_json(plan()))
    ws.ledger.incidents.open("t-1", kind="improve", key="t-1", request={}, driver="local")
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.insert(tx, first, state="waiting")
        ws.ledger.gate.put_report(tx, first.hash, report(), "d" * 64)
        ws.ledger.proposals.insert(tx, replace(first, revision=2, plan={}), state="waiting")
    return "p-1"


def test_the_newest_verdict_for_a_person(ws: Workspace) -> None:
    done = run("gate", "show", decided(ws))
    assert done.exit_code == 0
    assert done.output.startswith("Gate: inconclusive (harm not excluded)")
    for said in (
        "gate target: fixed? size 5 x 5, before 2 of 25, after 22 of 25",
        "gate worse: known cases: c-target3; sealed cases: 1 (9f3c1d0a77b2)",
        "gate needed: about 40 more sealed cases",
        "gate not tested: Cases unlike those in the sealed set.",
        "gate the gate itself: 178 of 178 planned runs, $0.84, 212 s of the agent",
    ):
        assert said in " ".join(done.output.split())


def test_markdown_is_a_table_and_a_list(ws: Workspace) -> None:
    lines = run("gate", "show", decided(ws), "--format", "markdown").output.splitlines()
    assert lines[0] == "## Gate: inconclusive (harm not excluded)"
    assert lines[2].startswith("| question | size | before | after |")
    assert "| target: fixed? | 5 x 5 | 2 of 25 | 22 of 25 | exact p \\< .001 | yes (L1) |" in lines


def test_the_document_holds_the_whole_report(ws: Workspace) -> None:
    document = json.loads(run("gate", "show", decided(ws), "--json").output)
    assert next(iter(document)) == "schema"
    assert document["schema"] == "tracemend.gate/1"
    assert (document["revision"], document["report_hash"]) == (1, "d" * 64)
    assert document["report"]["verdict"] == "inconclusive"
    assert document["plan"]["sealed"] == 64  # a count: no id of a sealed case
    assert "c-sealed" not in json.dumps(document)


def test_a_proposal_without_a_verdict_is_said_so(ws: Workspace) -> None:
    made, _ = proposal(harness(main=MAIN), edit(RETRY))
    ws.ledger.incidents.open("t-1", kind="improve", key="t-1", request={}, driver="local")
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.insert(tx, replace(made, id=ProposalId("p-9")), state="waiting")
    with pytest.raises(UsageError, match="p-9 is waiting: no gate of it has a verdict yet"):
        run("gate", "show", "p-9")
    with pytest.raises(UsageError, match="p-8"):
        run("gate", "show", "p-8")


def judged(ws: Workspace, *, right: int) -> Result:
    """Sixty labels, of which the judge grades so many as their person did."""
    rows, grades = [], []
    for i in range(60):
        held = i % 2 == 0
        row = {"question": "Polite?", "output": f"o{i}", "label": "yes" if held else "no"}
        rows.append(json.dumps(row) + "\n")
        word = "yes" if held == (i < right) else "no"
        grades.append(json.dumps({"text": json.dumps({"grade": word, "why": "w"})}) + "\n")
    (ws.root / "labels.jsonl").write_text("".join(rows), "utf-8")
    (ws.root / "judge.jsonl").write_text("".join(grades), "utf-8")
    return run("gate", "judge", "--json")


def test_a_judge_is_told_whether_it_may_grade(ws: Workspace) -> None:
    done = judged(ws, right=58)
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document["schema"] == "tracemend.gate-judge/1"
    assert (document["labels"], document["agree"], document["problem"]) == (60, 58, None)
    assert document["disagreed"] == [59, 60]


def test_a_judge_that_disagrees_is_exit_five(ws: Workspace) -> None:
    done = judged(ws, right=40)
    assert done.exit_code == 5
    assert "kappa 0.33 with people" in json.loads(done.stdout)["problem"]


def test_the_plain_words_of_the_judge(ws: Workspace) -> None:
    judged(ws, right=58)
    (ws.root / "judge.jsonl").write_text("", "utf-8")  # a process of its own starts anew
    done = run("gate", "judge")
    assert done.exit_code == 5
    assert "60 labels got no grade" in done.output
    assert "may not grade: 0 labelled answers graded" in done.output


def test_every_decided_edit_is_listed_with_what_stands_together(ws: Workspace) -> None:
    decided(ws)
    done = run("gate", "edits")
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "p-1 r1  inconclusive (harm not excluded), 178 of 178 runs; stale",
        "No edit was tested on sealed cases yet.",
    ]
    document = json.loads(run("gate", "edits", "--json").output)
    assert document["schema"] == "tracemend.gate-edits/1"
    assert [edit["proposal"] for edit in document["edits"]] == ["p-1"]


def test_without_a_gate_there_is_nothing_to_deal(ws: Workspace) -> None:
    done = run("gate", "selftest")
    assert (done.exit_code, ws.ledger.gate_checks.listed("self_test") != []) == (0, True)
    assert "no gate has stored results yet" in done.output


def test_stored_results_are_dealt_anew(ws: Workspace) -> None:
    decided(ws)
    digest = ws.ledger.proposals.revisions("p-1")[0].proposal.hash
    for planned in plan().targets:
        for index in range(planned.repeats):
            ws.ledger.gate.put_block(digest, block(planned, "fail", "pass", index=index))
    document = json.loads(run("gate", "selftest", "--json").output)
    assert document["schema"] == "tracemend.gate-selftest/1"
    assert (document["gates"], document["deals"], document["off"]) == (1, 1000, None)
    assert document["held"] / document["deals"] <= 0.08  # its level is .05
    assert "the gate is sound" in run("gate", "selftest").output


def test_checks_that_need_what_is_not_there_say_what(ws: Workspace) -> None:
    for words in (("planted",), ("anchor", "abc"), ("selftest", "--live")):
        with pytest.raises(ConfigError, match="probe: missing"):
            run("gate", *words)


def test_after_five_accepts_an_anchor_is_due(ws: Workspace) -> None:
    assert "anchor" not in run("gate", "edits").output
    for number in range(5):
        with ws.ledger.db.write() as tx:
            ws.ledger.sealed.rotate(tx, f"hash {number}")
    assert "5 accepts since the last anchor" in run("gate", "edits").output
    assert json.loads(run("gate", "edits", "--json").output)["accepts_since_anchor"] == 5
