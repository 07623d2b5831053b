"""Free text becomes a question, an improve run or a look at where things stand; decided once."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.routing import SET, measure
from contracts.errors import UsageError
from contracts.json_types import JsonObject
from memory.workspace import Workspace
from nodes.intent import MAX_TEXT, by_words
from nodes.router import INTENT, Request, checked_request, meant
from nodes.status import standing, status_of
from tests.card_worlds import finding
from tests.model_worlds import ROUTER, T1, script, workspace


def asked(text: str) -> Request:
    return checked_request({"kind": "text", "text": text})


def routes(intent: str, *, cost: float | None = None) -> JsonObject:
    said: JsonObject = {"answer": {"intent": intent, "why": "it says so"}, "tokens": [300, 20]}
    return said if cost is None else {**said, "cost": cost}


def routed(ws: Workspace) -> JsonObject:
    kept = ws.ledger.steps.get(T1, INTENT)
    assert kept is not None
    return kept


def test_the_labelled_set_is_routed_as_well_as_it_was() -> None:
    """Floors below the figures of docs/models.md; the set holds cases that rules get wrong."""
    figures = cast("dict[str, Any]", measure())
    triage, words = figures["triage"], figures["free text, by words"]
    assert triage["cases"] + words["cases"] >= 60
    assert triage["accuracy"] >= 0.95
    assert triage["wrong_way"]["dropped"] == 0
    assert words["accuracy"] >= 0.9
    assert words["wrong_way"]["started"] == 0
    assert triage["tokens_a_decision"] == words["tokens_a_decision"] == 0
    assert 0 < figures["free text, tokens if a model is asked"] < 500


def test_every_label_says_why_and_no_case_is_there_twice() -> None:
    cases = [json.loads(line) for line in SET.read_text("utf-8").splitlines()]
    names = [case.get("text") or case["case"] for case in cases]
    assert len(set(names)) == len(names)
    assert all(case["why"] for case in cases)


@given(st.text(max_size=300))
def test_any_text_has_an_intent_that_costs_nothing(text: str) -> None:
    found = by_words(text)
    assert found.intent in ("question", "improve", "status")
    assert (found.by, found.tokens) == ("rules", 0)
    assert by_words("a" * MAX_TEXT + text).intent == "question"  # what is over is not looked at


@pytest.mark.parametrize("text", ["", "  \n", 7, None, ["fix"]])
def test_free_text_needs_words(text: object) -> None:
    with pytest.raises(UsageError, match="text"):
        checked_request({"kind": "text", "text": text})


async def test_without_a_model_words_decide_and_nothing_is_spent(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    assert await meant(ws, T1, asked("fix the refunds")) == {
        "kind": "improve", "finding": None, "text": "fix the refunds",
    }  # fmt: skip
    assert routed(ws)["by"] == "rules"
    assert ws.ledger.spends.of_thread(T1).calls == 0


async def test_the_model_decides_where_one_is_set_with_why_and_what_it_cost(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"router": ROUTER})
    script(ws, "router.jsonl", routes("status", cost=0.001))
    first = await meant(ws, T1, asked("so?"))
    assert first == {"kind": "question", "text": "so?", "about": "status"}
    assert (routed(ws)["by"], routed(ws)["why"]) == (f"model:{ROUTER}", "it says so")
    assert ws.ledger.spends.of_thread(T1).cost_usd == 0.001
    (tmp_path / "router.jsonl").unlink()
    assert await meant(ws, T1, asked("so?")) == first  # after a kill: not asked again
    assert ws.ledger.spends.of_thread(T1).calls == 1


@pytest.mark.parametrize(
    "weak",
    [
        {"text": "I think it is a question."}, {"text": ""}, {"text": '{"intent": "impro'},
        {"answer": {"intent": "approve"}}, {"error": "503 overloaded"},
    ],
)  # fmt: skip
async def test_a_weak_answer_leaves_it_to_the_words(tmp_path: Path, weak: JsonObject) -> None:
    ws = workspace(tmp_path, models={"router": ROUTER})
    script(ws, "router.jsonl", weak)
    found = await meant(ws, T1, asked("fix the refunds"))
    assert found["kind"] == "improve"
    assert "gave no usable answer" in str(routed(ws)["why"])
    assert ws.ledger.spends.of_thread(T1).calls == 1  # it was paid for all the same


async def test_over_the_budget_words_decide_and_it_is_said(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"router": ROUTER}, budget={"max_usd": 0})
    assert (await meant(ws, T1, asked("any open proposals?")))["about"] == "status"
    assert "was not asked: budget.max_usd (0)" in str(routed(ws)["why"])


async def test_a_finding_is_taken_from_the_text_only_where_the_ledger_has_it(
    tmp_path: Path,
) -> None:
    ws = workspace(tmp_path)
    known = finding()
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.put_finding(tx, known)
    assert (await meant(ws, T1, asked(f"please fix {known.id}")))["finding"] == known.id
    other = await meant(ws, T1 + "x", asked("please fix f-aaaaaaaaaa"))
    assert other["finding"] is None


def test_where_things_stand_is_told_from_the_ledger(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    assert status_of(ws).startswith("Findings: none.")
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.put_finding(tx, finding(title="x\n\u202ey"))
    said = status_of(ws)
    assert "Findings: 1 open." in said
    assert "x ⟨U+202E⟩y: 23 of 150 (new) [f-3qk7m2xza4]" in said
    assert "Proposals that wait for a person: 0 of 0." in said
    assert standing([], [], []).endswith("Open hand-offs: 0.")
