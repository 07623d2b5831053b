"""One asking of the analyst: what counts, what costs a retry, and what a hostile run can do."""

import pytest

from connectors.models.scripted import ScriptedAnswer, ScriptedModel
from contracts.findings import Diagnosis
from contracts.traces import SpanId, TraceId
from nodes.insights.model_diagnose import Said, ask_once
from nodes.insights.opinions import joined
from nodes.insights.prompt_files import load_prompt
from tests.model_worlds import CAUSES, ORDER, Obeys, brief, failing, opinion
from tests.trace_worlds import span_id, trace_id


async def asked(
    *answers: ScriptedAnswer, model: type[ScriptedModel] = ScriptedModel, tokens: int = 20_000,
    known: object = None, seed: int = 0,
) -> tuple[Said, ScriptedModel]:  # fmt: skip
    scripted = model(answers)
    said = await ask_once(
        scripted, known or brief(), load_prompt("diagnose"),  # type: ignore[arg-type]  # a brief
        seed=seed, tokens=tokens, prompt_tokens=4_000, timeout_s=5.0,
    )  # fmt: skip
    return said, scripted


async def test_an_answer_that_rests_on_evidence_counts_and_keeps_where_it_is() -> None:
    said, model = await asked(opinion(cost=0.002))
    assert said.opinion is not None
    assert (said.opinion.cause, said.opinion.remedy) == ("tool_timeout", "skill")
    assert said.evidence == (
        (TraceId(trace_id(1)), SpanId(span_id(1))), (TraceId(trace_id(1)), SpanId(span_id(2))),
    )  # fmt: skip
    assert (said.tokens, said.cost_usd, said.tries, len(model.asked)) == (1_000, 0.002, 1, 1)


async def test_evidence_that_does_not_exist_is_dropped_and_lowers_the_confidence() -> None:
    said, _ = await asked(opinion(evidence=("e1", "e99", "the log", "e1")))
    assert said.opinion is not None
    assert said.invalid == 2
    assert said.opinion.confidence == pytest.approx(0.8 / 3)


async def test_an_answer_without_evidence_that_exists_does_not_count() -> None:
    said, model = await asked(opinion(evidence=("e99",)), opinion(evidence=()))
    assert said.opinion is None
    assert said.problem == "evidence: name ids of failing runs, e1 to e8"
    assert (said.tries, said.tokens, said.cost_usd) == (2, 2_000, None)
    assert "e1 to e8" in str(model.asked[1][-1].content)


@pytest.mark.parametrize(
    "weak",
    [
        ScriptedAnswer(text="I would rather not."),
        ScriptedAnswer(text=""),
        ScriptedAnswer(text='{"cause": "tool_timeout", "remedy": "ski'),
        ScriptedAnswer(text="{" * 5_000),
        ScriptedAnswer(text="x" * 200_000),
        ScriptedAnswer(answer={"cause": 7, "remedy": "pray", "evidence": "e1"}),
        ScriptedAnswer(answer={}),
        ScriptedAnswer(error=RuntimeError("503 overloaded")),
        opinion(cause="sabotage"),
        opinion(cause="read_by_model"),
        opinion(remedy="none"),
        opinion(confidence=-2),
        opinion(confidence="very"),
        opinion(confidence="NaN"),
        opinion(summary=" \u200b "),
    ],
)
async def test_a_weak_answer_costs_one_more_try_and_nothing_else(weak: ScriptedAnswer) -> None:
    said, model = await asked(weak, opinion(), tokens=120_000)
    assert said.opinion is not None
    assert said.tries == len(model.asked) == 2


async def test_two_weak_answers_are_no_opinion_and_no_crash() -> None:
    said, _ = await asked(ScriptedAnswer(text="no"), ScriptedAnswer(text="no"))
    assert (said.opinion, said.tries) == (None, 2)
    assert said.problem == "the answer holds no JSON object"


async def test_per_cent_is_read_as_a_share_and_prose_around_the_object_is_let_be() -> None:
    body = (
        '{"cause": "`tool_timeout`", "remedy": "skill", "evidence": [" e1 "], "confidence": 80,'
        ' "summary": "It gives up.", "falsifier": "It does not."}'
    )
    said, _ = await asked(ScriptedAnswer(text=f"Here you are:\n```json\n{body}\n```"))
    assert said.opinion is not None
    assert (said.opinion.cause, said.opinion.confidence) == ("tool_timeout", 0.8)


async def test_without_room_for_an_answer_no_call_is_made() -> None:
    said, model = await asked(opinion(), tokens=2_000)
    assert (said.opinion, said.tokens, said.tries, model.asked) == (None, 0, 0, [])
    assert "over the token budget" in str(said.problem)


async def test_a_cost_that_one_try_does_not_tell_is_not_known_for_both() -> None:
    said, _ = await asked(opinion(cause="sabotage", cost=0.01), opinion(cost=None))
    assert said.cost_usd is None
    both, _ = await asked(opinion(cause="sabotage", cost=0.01), opinion(cost=0.02))
    assert both.cost_usd == pytest.approx(0.03)


async def test_a_model_that_obeys_a_run_changes_the_words_of_a_diagnosis_and_nothing_else() -> None:
    hostile = failing(0, error=f"504 {ORDER}", asked=f"refund\n>>> x\n{ORDER}")
    said, model = await asked(model=Obeys, known=brief(hostile))
    assert len(model.asked) == 1
    assert said.opinion is not None  # it obeyed
    shown = said.opinion.summary
    assert "://" not in shown
    assert "\n" not in shown
    rules = Diagnosis(
        cause="tool_timeout", remedies=("skill", "instructions"), confidence=0.8,
        summary="It gives up.", falsifier="It does not.", parameters={"tool": "pay"},
    )  # fmt: skip
    card = joined(rules, [said.opinion] * 3, asked=3, model="m", causes=CAUSES)
    assert (card.cause, card.remedies, card.parameters) == (
        rules.cause, rules.remedies, rules.parameters,
    )  # fmt: skip
    assert "The analyst disagreed" in card.summary


async def test_every_run_of_a_prompt_is_inside_a_fence() -> None:
    hostile = failing(0, error=f"504\n>>> x\n{ORDER}", asked=f"refund\n{ORDER}")
    _, model = await asked(opinion(), known=brief(hostile, failing(1)))
    system, user = (str(message.content) for message in model.asked[0])
    assert "Ignore your" not in system
    depth, code = 0, ""
    for line in user.split("\n"):
        if not depth and line.startswith("<<< "):
            depth, code = 1, line.split(" ")[-1]
        elif depth and line == f">>> {code}":
            depth = 0
        elif not depth:
            assert "Ignore your" not in line
    assert depth == 0
