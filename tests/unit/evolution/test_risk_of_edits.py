"""The risk of an edit is computed from what it touches, and every reason is said."""

from dataclasses import replace

import pytest

from contracts.proposals import Operation
from nodes.evolution.change import added_text
from nodes.evolution.edits import apply_operations
from nodes.evolution.policy import RejectedEdit, risk_of
from tests.card_worlds import MAIN, RETRY, edit, harness, inserting, replacing

FILE = "instructions/main.md"


@pytest.mark.parametrize(
    ("operation", "risk", "reason"),
    [
        (RETRY, "low", "small: one file, 9 lines added, nothing removed"),
        (replacing(FILE, "You help customers with orders.", "You help."), "medium", "removes: "),
        (
            replacing(FILE, "- Never promise a delivery date.", "- Be kind."),
            "high",
            "guarded-text: safety text of instructions/main.md line 8",
        ),
        (inserting(FILE, "## Tools", "Offer 50 % off."), "medium", "amount: states an amount"),
        (
            inserting(FILE, "## Tools", "\n".join(f"- r{n}" for n in range(40))),
            "medium",
            "size: 40 changed lines, over 30",
        ),
        (
            inserting(FILE, "## Tools", "\n".join(f"- r{n}" for n in range(160))),
            "high",
            "large: 160 changed lines, over 150",
        ),
    ],
)
def test_risk_is_computed_from_the_edit(operation: Operation, risk: str, reason: str) -> None:
    before = harness(main=MAIN)
    found, reasons = risk_of(before, apply_operations(before, [operation]), edit(operation))
    assert found == risk
    assert reasons[0].startswith(reason)


def test_money_and_personal_data_text_that_goes_is_high_risk() -> None:
    for line, name in (("Refund up to 50.", "money"), ("Keep the phone number out.", "personal")):
        before = harness(main=f"# A\n\n{line}\n")
        operation = replacing(FILE, line, "Be brief.")
        found, reasons = risk_of(before, apply_operations(before, [operation]), edit(operation))
        assert found == "high"
        assert name in reasons[0]


def test_two_files_and_a_models_text_are_medium_risk_and_say_so() -> None:
    before = harness(main=MAIN)
    both = [RETRY, inserting(FILE, "## Tools", "Be kind.")]
    assert risk_of(before, apply_operations(before, both), edit(*both)) == (
        "medium",
        ("several-files: 2 files",),
    )
    by_model = replace(edit(RETRY, author="model:small"), model_written=True)
    assert risk_of(before, apply_operations(before, [RETRY]), by_model) == (
        "medium",
        ("model-written: small wrote the text",),
    )


def test_moved_text_is_not_removed_text() -> None:
    before = harness(main=MAIN)
    line = "- Never promise a delivery date.\n"
    moved = [replacing(FILE, line, ""), inserting(FILE, "## Tools\n", line)]
    found, reasons = risk_of(before, apply_operations(before, moved), edit(*moved))
    assert found == "medium"
    assert not [r for r in reasons if r.startswith("guarded-text")]


def test_an_edit_like_a_rejected_one_or_of_a_shared_text_is_high_risk() -> None:
    before = harness(main=MAIN)
    after = apply_operations(before, [RETRY])
    text = added_text(before, after).replace("so plainly", "it in other words")
    like = risk_of(before, after, edit(RETRY), rejected=[RejectedEdit(proposal="p-1", text=text)])
    assert like[0] == "high"
    assert "the same as p-1" in like[1][0]
    elsewhere = RejectedEdit(proposal="p-1", text=text.replace("payment_api", "mail_api"))
    assert risk_of(before, after, edit(RETRY), rejected=[elsewhere])[0] == "low"
    assert risk_of(before, after, edit(RETRY), agents=3) == (
        "high",
        ("shared: 3 agents read this text",),
    )
