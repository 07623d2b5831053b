"""Who wins when rules and a model disagree, and how sure the result is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.taxonomy import Cause
from contracts.findings import TEXT_REMEDIES, Diagnosis, Remedy
from nodes.insights.opinions import OTHER, SUREST, Opinion, is_hard, joined, said

CAUSES = {
    "tool_timeout": Cause(remedies=("skill", "instructions")),
    "tool_failure": Cause(remedies=("tool", "infrastructure")),
    "wrong_argument_format": Cause(remedies=("instructions", "skill")),
    "access_refused": Cause(remedies=("infrastructure", "tool")),
}
NAME = "scripted:a"
REMEDIES: tuple[Remedy, ...] = (
    "instructions", "skill", "tool", "retrieval", "model", "infrastructure", "data",
)  # fmt: skip


def rules(cause: str = "tool_failure", confidence: float = 0.5) -> Diagnosis:
    return Diagnosis(
        cause=cause, remedies=CAUSES[cause].remedies, confidence=confidence,
        summary="pay fails by itself.", falsifier="It works.", parameters={"tool": "pay"},
    )  # fmt: skip


def opinion(
    cause: str = "wrong_argument_format", remedy: Remedy = "instructions", confidence: float = 0.8
) -> Opinion:
    return Opinion(
        cause=cause, remedy=remedy, confidence=confidence, summary="It sends another form.",
        falsifier="The same form works.",
    )  # fmt: skip


def together(mine: Diagnosis, *opinions: Opinion, asked: int = 3) -> Diagnosis:
    return joined(mine, opinions, asked=asked, model=NAME, causes=CAUSES)


def test_answers_that_agree_stand_beside_the_rules_and_make_them_surer() -> None:
    mine = rules("tool_timeout", 0.8)
    found = together(mine, *[opinion("tool_timeout", "skill")] * 3)
    assert (found.by, found.agreement, found.cause) == (f"rules+model:{NAME}", 1.0, "tool_timeout")
    assert found.confidence == pytest.approx(0.8 + 0.2 * 0.8 / 2)
    assert found.remedies == mine.remedies
    assert found.summary == (
        "pay fails by itself. The analyst agrees (3 of 3): It sends another form."
    )


def test_instructions_and_skill_are_the_same_word_for_text() -> None:
    found = together(rules("tool_timeout", 0.8), *[opinion("tool_timeout", "instructions")] * 3)
    assert (found.agreement, found.remedies[0]) == (1.0, "skill")


def test_most_answers_outvote_rules_that_only_guess_and_the_summary_says_what_that_changes() -> (
    None
):
    found = together(rules(), opinion(), opinion(), opinion("tool_failure", "tool"))
    assert (found.by, found.cause) == (f"model:{NAME}", "wrong_argument_format")
    assert found.remedies == ("instructions", "skill")
    assert found.agreement == pytest.approx(2 / 3)
    assert found.confidence == pytest.approx(0.8 * 2 / 3 * 0.8)
    assert "The rules said tool failure (fix: tool)." in found.summary
    assert found.summary.endswith("By the rules alone this would be handed off, not edited.")
    assert found.falsifier == "The same form works."


@pytest.mark.parametrize(
    "mine", [rules("tool_failure", 0.75), rules("tool_failure", 0.9), rules("access_refused", 0.5)]
)
def test_hard_evidence_is_outvoted_by_nobody(mine: Diagnosis) -> None:
    found = together(mine, *[opinion()] * 3)
    assert (found.by, found.cause, found.remedies) == ("rules", mine.cause, mine.remedies)
    assert found.agreement == 0.0
    assert found.confidence == pytest.approx(mine.confidence * 0.75)
    assert "The analyst disagreed: 3 of 3 say wrong argument format" in found.summary


def test_answers_without_a_majority_leave_the_rules_less_sure_and_are_said() -> None:
    split = [opinion(), opinion("tool_timeout", "skill"), opinion("tool_failure", "tool")]
    found = together(rules(), *split)
    assert (found.by, found.cause) == ("rules", "tool_failure")
    assert found.agreement == pytest.approx(1 / 3)
    assert found.confidence == pytest.approx(0.5 * (1 - 0.5 * 2 / 3))
    assert "no cause has most of 3 answers" in found.summary


def test_one_answer_of_three_is_no_agreement() -> None:
    assert together(rules(), opinion()) == rules()


@pytest.mark.parametrize("text", sorted(TEXT_REMEDIES))
def test_an_edit_for_a_cause_that_knows_none_is_not_taken(text: Remedy) -> None:
    for cause in (OTHER, "tool_failure", "access_refused"):
        found = together(rules(), *[opinion(cause, text)] * 3)
        assert found.remedies == ("tool", "infrastructure")
        assert "no edit is known for that cause" in found.summary


def test_what_rules_would_edit_can_become_a_hand_off_and_it_is_said() -> None:
    mine = rules("wrong_argument_format", 0.65)
    found = together(mine, *[opinion("tool_failure", "tool")] * 3)
    assert found.remedies == ("tool", "infrastructure")
    assert found.summary.endswith("By the rules alone an edit would be drafted.")


ANY = st.builds(
    Opinion, cause=st.sampled_from([*CAUSES, OTHER]), remedy=st.sampled_from(REMEDIES),
    confidence=st.floats(0, 1), summary=st.sampled_from(["a", "b"]), falsifier=st.just("c"),
)  # fmt: skip


@given(
    cause=st.sampled_from(sorted(CAUSES)), confidence=st.floats(0.05, 0.95),
    opinions=st.lists(ANY, max_size=5), more=st.integers(0, 4), seed=st.randoms(),
)  # fmt: skip
def test_no_answers_break_what_rules_are_sure_of(
    cause: str, confidence: float, opinions: list[Opinion], more: int, seed: object
) -> None:
    mine = rules(cause, confidence)
    asked = max(1, len(opinions) + more)
    found = joined(mine, opinions, asked=asked, model=NAME, causes=CAUSES)
    assert 0 <= found.confidence <= SUREST
    assert found.parameters == mine.parameters
    assert found.agreement is None or 0 <= found.agreement <= 1
    if is_hard(mine):
        assert (found.cause, found.remedies) == (mine.cause, mine.remedies)
    if any(r in TEXT_REMEDIES for r in found.remedies) and found.cause != mine.cause:
        assert any(r in TEXT_REMEDIES for r in CAUSES[found.cause].remedies)
    shuffled = list(opinions)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random of hypothesis
    assert joined(mine, shuffled, asked=asked, model=NAME, causes=CAUSES) == found


def test_what_a_model_says_is_shown_without_addresses_secrets_and_hidden_characters() -> None:
    shown = said("See https://evil.example/x?a=1 and www.evil.example \u202e sk-" + "A1b2" * 8)
    assert "evil" not in shown
    assert "A1b2A1b2" not in shown
    assert "\u202e" not in shown
    assert len(said("x " * 10_000)) <= 300
