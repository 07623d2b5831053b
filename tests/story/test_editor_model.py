"""The editor model drafts, is corrected, or fails: over real processes, answers from a script."""

import json

import pytest
import yaml

from contracts.json_types import Json, JsonObject
from tests.story.worlds import World

pytestmark = [pytest.mark.story, pytest.mark.servers]

SCRIPT = "editor.jsonl"
RULE = (
    "- When `payment_api` answers with status 504, call it again with the same order, at most 3 "
    "times in all."
)


def _edit(anchor: str, *, path: str = "instructions/main.md", text: str = RULE) -> JsonObject:
    operation: Json = {"op": "insert_after", "path": path, "anchor": anchor, "text": text}
    return {
        "answer": {
            "operations": [operation], "why": "Other runs show that a later call works.",
            "falsifier": "Repeated calls fail as often as first ones.", "evidence": ["e1", "e2"],
        },
        "tokens": [2000, 200],
    }  # fmt: skip


PLACE = "pays the amount of an order back to the card of the customer."
GOOD = _edit(PLACE)
LOST = _edit("pays the amount of a parcel back")


def _script(world: World, *answers: JsonObject) -> None:
    text = "".join(json.dumps(answer) + "\n" for answer in answers)
    (world.root / SCRIPT).write_text(text, "utf-8")


def _editor(world: World, name: str = f"scripted:{SCRIPT}", *, alternatives: int = 1) -> None:
    file = world.root / "tracemend.yaml"
    settings = yaml.safe_load(file.read_text("utf-8"))
    settings["models"] = {"editor": name}
    settings["drafting"] = {"alternatives": alternatives}
    file.write_text(yaml.safe_dump(settings), "utf-8")


def _card(world: World) -> tuple[str, dict[str, str], list[str]]:
    """The proposal's id, what the card says of the edit, and the reasons of its risk."""
    with world.looking() as ledger:
        proposal = ledger.proposals.all_latest()[0].proposal
        card = ledger.proposals.card(proposal.id, proposal.revision, "approve")
    assert card is not None
    why = card.view["why"]
    assert isinstance(why, list)
    said = {f["label"]: f["text"] for f in why}
    said["notes"] = " | ".join(f["text"] for f in why if f["label"] == "note")
    return proposal.id, said, list(proposal.risk_reasons)


def test_an_edit_that_was_corrected_is_on_the_card_with_its_author_and_is_applied(
    world: World,
) -> None:
    _script(world, LOST, GOOD)
    _editor(world)
    started = world.run("improve", "--json")
    assert started.code == 0, started.err
    assert RULE.encode() not in world.harness()["instructions/main.md"]
    proposal, why, risk = _card(world)
    assert why["author"] == f"model-written by model:scripted:{SCRIPT}"
    assert why["edit"] == "Other runs show that a later call works."
    assert why["rests on"].count("/") == 2
    assert f"model-written: scripted:{SCRIPT} wrote the text" in risk
    approved = world.run("approve", proposal, "--as", "ann", "--json")
    assert approved.code == 0, approved.err
    assert approved.json["gate"]["verdict"] == "accept"
    assert RULE.encode() in world.harness()["instructions/main.md"]


def test_a_model_without_a_valid_edit_gives_way_to_the_playbook_and_the_card_says_so(
    world: World,
) -> None:
    _script(
        world, {"error": "503 overloaded"}, _edit("x", path="../../etc/cron.d/agent"),
        {"text": "I would rather not."},
    )  # fmt: skip
    _editor(world)
    started = world.run("improve", "--json")
    assert started.code == 0, started.err
    _, why, risk = _card(world)
    assert why["author"] == "playbook:tool-timeout-retry"
    assert (
        f"the editor model gave no valid edit (scripted:{SCRIPT}, 3 tries: the answer holds no "
        "JSON object); this is the playbook's"
    ) in why["notes"]
    assert not any("model-written" in reason for reason in risk)


@pytest.mark.kill
def test_over_the_budget_of_the_settings_no_model_is_asked_and_the_card_says_so(
    world: World,
) -> None:
    _script(world, GOOD)
    _editor(world)
    limited = {"TRACEMEND__BUDGET__DRAFTING_TOKENS": "500"}
    started = world.run("improve", "--json", more=limited)
    assert started.code == 0, started.err
    _, why, _ = _card(world)
    assert why["author"].startswith("playbook:")
    assert "over the token budget" in why["notes"], why


def test_a_draft_that_is_stored_is_not_asked_for_again(world: World) -> None:
    """Killed once the step was recorded and before its checkpoint: the same edit goes on."""
    _script(world, GOOD)
    _editor(world)
    # 3: what the model is shown; 4: its answer
    killer = ("after", "memory.incidents:Steps.once", "5")
    assert world.run("improve", "--json", killer=killer).code == -9
    (world.root / SCRIPT).unlink()
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert [run["state"] for run in resumed.json["runs"]] == ["waiting"]
    _, why, _ = _card(world)
    assert why["author"] == f"model-written by model:scripted:{SCRIPT}"


@pytest.mark.kill
def test_a_hand_off_that_is_stored_is_not_drafted_again(world: World) -> None:
    _script(world, *[{"error": "503 overloaded"}] * 3)
    _editor(world)
    file = world.root / "tracemend.yaml"
    settings = yaml.safe_load(file.read_text("utf-8"))
    settings["harness"]["include"] = ["prompts/*.md"]
    file.write_text(yaml.safe_dump(settings), "utf-8")
    # 3: what the model is shown; 4 to 6: that it did not answer
    killer = ("after", "memory.incidents:Steps.once", "7")
    assert world.run("improve", "--json", killer=killer).code == -9
    (world.root / SCRIPT).unlink()
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    with world.looking() as ledger:
        assert ledger.proposals.all_latest() == []
        tickets = {ticket.finding: json.dumps(ticket.body) for ticket in ledger.handoffs.listed()}
        top = ledger.knowledge.findings()[0].finding.id
    assert "The editor model gave no valid edit" in tickets[top]


@pytest.mark.kill
def test_a_run_killed_after_an_answer_gets_it_again_and_pays_once(world: World) -> None:
    """Killed between the answer and the draft: another script is there, and is not asked."""
    _script(world, GOOD)
    _editor(world)
    killer = ("after", "memory.incidents:Steps.once", "4")
    assert world.run("improve", "--json", killer=killer).code == -9
    _script(world, _edit("x", text="- Another text."))
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    with world.looking() as ledger:
        proposal = ledger.proposals.all_latest()[0].proposal
        assert RULE in proposal.draft.operations[0].text
        assert ledger.spends.of_thread(proposal.thread).calls == 1


def test_an_alternative_is_picked_approved_and_is_what_is_applied(world: World) -> None:
    other = "- When `payment_api` answers with status 504, call it again, at most 3 times in all."
    first = _edit(PLACE, text="- Tell the customer which carrier brings an order.")
    second = _edit(PLACE, text=other)
    _script(world, first, second)
    _editor(world, alternatives=2)
    started = world.run("improve", "--json")
    assert started.code == 0, started.err
    proposal, _, _ = _card(world)
    shown = world.run("card", proposal)
    assert f"tracemend pick {proposal} b --as NAME" in " ".join(shown.out.split())
    before = world.harness()
    missing = world.run("pick", proposal, "c", "--as", "ann", "--json")
    assert missing.code == 7, missing.err
    assert "no such draft; there is b" in missing.err
    picked = world.run("pick", proposal, "b", "--as", "ann", "--json")
    assert picked.code == 0, picked.err
    assert picked.json["schema"] == "tracemend.pick/1"
    assert (picked.json["state"], picked.json["revision"]) == ("waiting", 2)
    assert picked.json["decision"]["type"] == "edit"
    assert world.harness() == before
    approved = world.run("approve", proposal, "--as", "ben", "--json")
    assert approved.code == 0, approved.err
    assert approved.json["gate"]["verdict"] == "accept"
    applied = world.harness()["instructions/main.md"].decode()
    assert other in applied
    assert "which carrier" not in applied


def test_on_a_base_that_moved_the_edit_is_kept_and_the_model_is_not_asked(world: World) -> None:
    _script(world, GOOD)
    _editor(world)
    started = world.run("improve", "--json")
    assert started.code == 0, started.err
    (world.root / SCRIPT).unlink()
    file = world.root / "instructions" / "main.md"
    file.write_bytes(file.read_bytes() + b"\n- Closed on Sundays.\n")
    proposal, _, _ = _card(world)
    stale = world.run("approve", proposal, "--as", "ann", "--json")
    assert stale.code == 3, stale.err
    _, why, _ = _card(world)
    assert why["author"] == f"model-written by model:scripted:{SCRIPT}"
    with world.looking() as ledger:
        latest = ledger.proposals.latest(proposal)
        assert (latest.state, latest.proposal.revision) == ("waiting", 2)


def test_a_model_that_cannot_be_opened_is_one_line_that_doctor_gives_as_well(
    world: World,
) -> None:
    _editor(world)
    stopped = world.run("improve", "--json")
    assert stopped.code == 2
    assert f"models.editor: the script '{world.root / SCRIPT}' cannot be read" in stopped.err
    assert "Traceback" not in stopped.err
    doctor = world.run("doctor")
    assert "BAD   models: models.editor: the script" in doctor.out
    _script(world, GOOD)
    again = world.run("improve", "--json")
    assert again.code == 0, again.err
    assert [run["state"] for run in again.json["runs"]] == ["waiting"]
    doctor = world.run("doctor")
    assert f"ok    models: editor scripted:{SCRIPT} drafts edits" in doctor.out
