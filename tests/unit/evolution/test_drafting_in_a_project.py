"""Drafting over a real ledger: alternatives, budgets, what is kept, what a killed run gets."""

from dataclasses import replace
from pathlib import Path

import pytest

from contracts.codec import from_json, to_json
from contracts.proposals import Decision, DecisionId, Proposal, ProposalId
from memory.workspace import Workspace
from nodes.evolution.prompt import finding_text
from nodes.evolution.shown import shown_text
from nodes.gate.conditions import seen_by_editor
from tests.card_worlds import finding
from tests.draft_worlds import (
    CARRIER,
    EDITOR,
    RULE,
    drafted,
    elsewhere,
    enter,
    project,
    proposed,
    says,
    task_of,
    texts,
)
from tests.model_worlds import T1, script


def _authors(ws: Workspace) -> list[str]:
    made = proposed(ws)
    return [made.draft.author, *(one.draft.author for one in made.alternatives)]


def test_the_first_idea_is_the_proposal_and_the_others_are_its_alternatives(
    tmp_path: Path,
) -> None:
    ws = project(tmp_path, says(), says(CARRIER, evidence=("e2",)), alternatives=2)
    made = proposed(ws)
    (other,) = made.alternatives
    assert RULE in texts(ws, made)
    assert CARRIER not in texts(ws, made)
    assert (other.label, other.draft.author) == ("b", f"model:scripted:{EDITOR}")
    assert CARRIER in texts(ws, other)
    assert RULE not in texts(ws, other)
    assert made.draft.evidence != other.draft.evidence
    assert all(check.ok for check in other.checks)


def test_one_idea_is_asked_for_where_the_settings_name_no_more(tmp_path: Path) -> None:
    ws = project(tmp_path, says(), says(CARRIER))
    assert proposed(ws).alternatives == ()
    assert ws.ledger.spends.of_thread(T1).calls == 1


def test_an_alternative_is_no_part_of_what_is_approved(tmp_path: Path) -> None:
    ws = project(tmp_path, says(), says(CARRIER), alternatives=2)
    made = proposed(ws)
    assert made.hash == replace(made, alternatives=()).hash


def test_without_a_model_further_playbooks_that_fit_are_alternatives(tmp_path: Path) -> None:
    books = {
        "z-one": CARRIER,
        "z-two": "- Ask whether the customer wants to wait.",
        "z-copy": f"{CARRIER} Indeed.",
    }
    ws = project(tmp_path, editor=False, books=books)
    assert _authors(ws) == ["playbook:tool-timeout-retry", "playbook:z-copy", "playbook:z-two"]


def test_playbooks_fill_up_what_the_model_left(tmp_path: Path) -> None:
    books = {"z-one": CARRIER, "z-two": "- Ask whether the customer wants to wait."}
    bad = says(CARRIER, anchor="nowhere")
    ws = project(tmp_path, says(), bad, bad, alternatives=2, books=books)
    made = proposed(ws)
    assert made.draft.author == f"model:scripted:{EDITOR}"
    assert [one.draft.author for one in made.alternatives] == ["playbook:tool-timeout-retry"]
    assert "gave 1 of 2 ideas" in " ".join(made.draft.notes)
    assert "anchor not found" in " ".join(made.draft.notes)


def test_a_model_that_fails_gives_way_to_the_playbooks_and_one_line_says_so(
    tmp_path: Path,
) -> None:
    ws = project(tmp_path, *[says(anchor="nowhere")] * 3)
    made = proposed(ws)
    assert made.draft.author == "playbook:tool-timeout-retry"
    (note,) = [one for one in made.draft.notes if "editor model" in one]
    assert note.startswith("the editor model gave no valid edit (scripted:editor.jsonl, 3 tries: ")
    assert note.endswith("this is the playbook's")
    assert "editor model" not in made.draft.why


@pytest.mark.parametrize("key", ["max_usd", "max_usd_per_day"])
def test_what_the_analysis_spent_leaves_less_for_drafting(tmp_path: Path, key: str) -> None:
    ws = project(tmp_path, says(), budget={key: 0.05})
    with ws.ledger.db.write() as tx:
        ws.ledger.spends.add(
            tx, "diagnose", "m", key="k", tokens=10, cost_usd=0.04, thread=T1
        )  # fmt: skip
    made = proposed(ws)
    assert made.draft.author.startswith("playbook:")
    assert f"budget.{key} (0.05) leaves no room for it" in " ".join(made.draft.notes)
    assert ws.ledger.spends.of_thread(T1).calls == 1


def test_a_day_of_other_runs_counts_and_a_run_of_its_own_does_not(tmp_path: Path) -> None:
    ws = project(tmp_path, says(), budget={"max_usd": 0.05, "max_usd_per_day": 1.0})
    with ws.ledger.db.write() as tx:
        ws.ledger.spends.add(
            tx, "draft", "m", key="k", tokens=10, cost_usd=0.9, thread="another"
        )  # fmt: skip
    assert proposed(ws).draft.model_written


def test_each_answer_is_noted_with_what_it_cost(tmp_path: Path) -> None:
    ws = project(tmp_path, says(anchor="nowhere"), says(), says(CARRIER), alternatives=2)
    made = proposed(ws)
    spent = ws.ledger.spends.of_thread(T1)
    assert (spent.calls, spent.tokens) == (3, 3_000)
    assert spent.cost_usd == pytest.approx(0.03)
    assert not [note for note in made.draft.notes if "editor model" in note]


def test_an_unknown_price_is_said_and_never_zero(tmp_path: Path) -> None:
    ws = project(tmp_path, says(cost=None))
    made = proposed(ws)
    assert ws.ledger.spends.of_thread(T1).cost_usd is None
    said = "the cost of 1 answer of the editor model is not known: tokens bound them, not money"
    assert said in made.draft.notes


def test_money_set_to_nothing_forbids_every_call(tmp_path: Path) -> None:
    ws = project(tmp_path, says(cost=None), budget={"max_usd": 0})
    assert proposed(ws).draft.author.startswith("playbook:")
    assert ws.ledger.spends.of_thread(T1).calls == 0


def test_a_run_that_was_killed_gets_its_answers_again_and_pays_once(tmp_path: Path) -> None:
    ws = project(tmp_path, says(anchor="nowhere"), says(), says(CARRIER), alternatives=2)
    first = drafted(ws)
    script(ws, EDITOR, {"error": "the provider is down"})
    again = drafted(ws)
    assert again == first
    assert ws.ledger.spends.of_thread(T1).calls == 3


def test_an_answer_with_a_secret_is_a_failed_try_and_never_another_edit(tmp_path: Path) -> None:
    """Kept with the secret masked it would be an edit that nobody refused."""
    secret = "sk-" + "A1b2" * 8
    ws = project(tmp_path, says(f"- Use {secret}."), says())
    assert drafted(ws).held[0].draft.operations[0].text.endswith(RULE)
    with ws.ledger.db.read() as tx:
        rows = tx.exec_driver_sql("select step, body from steps").all()
    kept = {str(step): str(body) for step, body in rows}
    assert sum(step.startswith("draft:") for step in kept) == 2
    assert secret not in " ".join(kept.values())
    script(ws, EDITOR, says(), says())
    assert drafted(ws).held[0].draft.operations[0].text.endswith(RULE)


def test_corrections_are_in_what_the_model_was_shown(tmp_path: Path) -> None:
    """A sealed case whose words the model itself brought up is found as well."""
    ws = project(tmp_path, says("- A parcel to Norway never came back.", anchor="nowhere"), says())
    made = proposed(ws)
    assert "A parcel to Norway never came back" in shown_text(ws, made)


def test_what_an_alternative_adds_is_looked_through_for_sealed_cases(tmp_path: Path) -> None:
    ws = project(tmp_path, editor=False, books={"z-one": CARRIER})
    made = proposed(ws)
    assert CARRIER not in texts(ws, made)
    assert CARRIER in seen_by_editor(ws, made)


def test_the_earlier_drafts_are_kept_on_a_new_base_where_they_still_hold(tmp_path: Path) -> None:
    gone = "- Say which parcel it is, so that nobody has to ask."
    ws = project(tmp_path, says(), says(CARRIER), says(gone, anchor="## Tools"), alternatives=3)
    made = proposed(ws)
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.set_state(tx, made, "stale")
    file = tmp_path / "instructions" / "main.md"
    file.write_text(file.read_text("utf-8").replace("## Tools", "## Calls"), "utf-8")
    script(ws, EDITOR)
    again = proposed(ws)
    assert (again.revision, again.base_revision != made.base_revision) == (2, True)
    assert [one.draft for one in again.alternatives] == [made.alternatives[0].draft]
    assert "## Calls" in texts(ws, again)


def test_rejected_edits_of_findings_at_the_same_tool_are_told_and_of_others_not(
    tmp_path: Path,
) -> None:
    ws = project(tmp_path, says(), says())
    for number, (tool, place) in enumerate([("payment_api", "pay"), ("parcels", "parcels")]):
        other = elsewhere(tool, place)
        enter(ws, other)
        _reject(ws, proposed(ws, thread=f"t-{number}"), other.id, f"risky: {tool} is odd", number)
    brief = task_of(ws).brief
    told = finding_text(brief, count_tokens=len, limit=100_000)
    part = told.partition("## Edits that a person rejected")[2].partition("## Files")[0]
    assert "reason: risky" in part
    assert part.count("<<< rejected") == 1
    assert brief.rejected[0].proposal == "p-0"


def _reject(ws: Workspace, made: Proposal, about: str, message: str, number: int) -> None:
    """Enter the proposal as one of another finding that a person turned down."""
    kept = replace(made, id=ProposalId(f"p-{number}"), finding_id=about, thread="t-other")  # type: ignore[arg-type]  # a finding's id
    decision = Decision(
        id=DecisionId(f"d-{number}"), proposal=kept.id, revision=1, proposal_hash=kept.hash,
        card="approve", seat=1, type="reject", by="ann", via="cli", at=ws.ledger.db.clock(),
        reason=message.partition(":")[0],
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.set_state(tx, made, "stuck")
        ws.ledger.proposals.insert(tx, kept, state="rejected")
        ws.ledger.proposals.decide(tx, decision)


def test_a_proposal_of_an_older_release_is_read(tmp_path: Path) -> None:
    made = proposed(project(tmp_path, says(), says(CARRIER), alternatives=2))
    old = to_json(made)
    del old["alternatives"]
    draft = dict(old["draft"])  # type: ignore[arg-type]  # an object
    del draft["evidence"], draft["notes"]
    read = from_json(Proposal, {**old, "draft": draft})
    assert (read.alternatives, read.draft.evidence, read.hash) == ((), (), made.hash)
    assert from_json(Proposal, to_json(made)) == made
    assert read.finding_id == finding().id
