"""The editor model is asked for other ideas, and for lines to take out; weak answers cost a try."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from connectors.models.chat import Answer
from connectors.models.scripted import ScriptedAnswer
from connectors.review.card import EvidenceLine
from contracts.json_types import Json
from nodes.evolution.model_answer import EditAnswer
from nodes.evolution.model_draft import NO_OTHER, model_drafts
from nodes.evolution.prompt import Brief
from tests.card_worlds import INCLUDE, MAIN, QUOTES, finding, harness
from tests.fakes.tool_model import ToolModel, calls
from tests.unit.evolution.test_editor_model import (
    RULE,
    answer,
    drafted,
    judging,
    last_word,
    only,
    operation,
)

SKILL = operation(
    op="insert_after", path="skills/lookup/SKILL.md", anchor="- Look the order up first.",
    text="- Note what the order costs before you pay it back.",
)  # fmt: skip
STALE = operation(op="remove", anchor="- Never promise a delivery date.", text="")


@dataclass
class Kept:
    """A record in memory; `refuses` after so many calls."""

    refuses: int = 99
    shown_texts: list[str] = field(default_factory=list)
    answers: dict[tuple[int, str], Answer[EditAnswer]] = field(default_factory=dict)
    calls: int = 0

    def shown(self, messages: Sequence[BaseMessage]) -> None:
        self.shown_texts.append("\n".join(str(one.content) for one in messages))

    def refusal(self) -> str | None:
        return "budget.max_usd (2) leaves no room for it" if self.calls >= self.refuses else None

    def earlier(self, call: int, messages: Sequence[BaseMessage]) -> Answer[EditAnswer] | None:
        return self.answers.get((call, str(messages)))

    def answered(
        self, call: int, messages: Sequence[BaseMessage], answer: Answer[EditAnswer]
    ) -> None:
        self.calls += 1
        self.answers[call, str(messages)] = answer


async def test_each_further_ask_shows_the_ideas_so_far_and_wants_another_one() -> None:
    third = operation(op="add_skill", path="skills/x/SKILL.md", anchor=None, text="no")
    written, model = await drafted(answer(), answer(SKILL), answer(third), answer(third), count=3)
    assert [len(one.operations) for one in written.held] == [1, 1]
    asked = [str(messages[-1].content) for messages in model.asked]
    assert "## Drafted already" not in asked[0]
    assert RULE in asked[1].partition("## Drafted already for this finding")[2]
    assert "costs before you pay" in asked[2].partition("## Drafted already")[2]
    assert "skill-file" in (written.problem or "")


async def test_each_idea_names_its_own_evidence() -> None:
    written, _ = await drafted(answer(), answer(SKILL, evidence=["e2"]), count=2)
    places = [one.evidence for one in written.held]
    assert places == [
        ("2f45be76294ecd679353d418613f2423/1aba10187bf024db",),
        ("7b1f0f6c2f7be2c1a0f3f1d5a9c0e4b2/0c11aa22bb33dd44",),
    ]


async def test_an_idea_that_is_a_copy_is_sent_back_and_then_dropped() -> None:
    written, model = await drafted(answer(), answer(), answer(), answer(SKILL), count=3)
    assert len(written.held) == 1
    assert "nearly the same as edit 1" in str(model.asked[2][-1].content)
    assert len(model.asked) == 3  # one try for the first, two for a further idea


async def test_a_model_without_another_idea_may_say_so_and_is_not_asked_again() -> None:
    nothing = answer()
    assert nothing.answer is not None
    none = ScriptedAnswer(answer={**nothing.answer, "operations": []}, tokens=(900, 20))
    written, model = await drafted(answer(), none, answer(SKILL), count=3)
    assert (len(written.held), written.problem, len(model.asked)) == (1, NO_OTHER, 2)
    first, _ = await drafted(none, answer())
    assert len(first.held) == 1  # but one edit there must be


async def test_three_ideas_with_a_correction_fit_the_usual_budget() -> None:
    bad = answer(operation(anchor="nowhere"))
    third = operation(text="- Say which carrier brings the order.")
    written, _ = await drafted(answer(), bad, answer(SKILL), answer(third), count=3)
    assert len(written.held) == 3


async def test_money_that_runs_out_keeps_what_there_is() -> None:
    kept = Kept(refuses=1)
    written, model = await drafted(answer(), answer(SKILL), count=2, record=kept)
    assert len(written.held) == 1
    assert written.problem == "budget.max_usd (2) leaves no room for it"
    assert len(model.asked) == 1
    none, model = await drafted(answer(), record=Kept(refuses=0))
    assert (none.held, len(model.asked), none.tries) == ((), 0, 0)


async def test_everything_that_is_sent_is_kept_corrections_too() -> None:
    kept = Kept()
    secret_place = operation(anchor="nowhere but here")
    await drafted(answer(secret_place), answer(), answer(SKILL), count=2, record=kept)
    assert len(kept.shown_texts) == 3
    assert "nowhere but here" in kept.shown_texts[1]
    assert RULE in kept.shown_texts[2]


async def test_an_answer_that_was_kept_is_not_paid_for_again() -> None:
    kept = Kept()
    first, model = await drafted(answer(), answer(SKILL), count=2, record=kept)
    again, silent = await drafted(count=2, record=kept)
    assert again == first
    assert (len(model.asked), len(silent.asked)) == (2, 0)


async def test_answers_without_a_price_are_counted() -> None:
    priced = ScriptedAnswer(answer=answer(SKILL).answer, tokens=(900, 100), cost=0.01)
    written, _ = await drafted(answer(), priced, count=2)
    assert written.unpriced == 1


async def test_the_time_for_all_answers_is_bounded() -> None:
    slow = ScriptedAnswer(answer=answer().answer, seconds=0.2)
    written, model = await drafted(*[slow] * 3, total_s=0.05)
    assert written.held == ()
    assert "the time for drafting is over" in (written.problem or "")
    assert len(model.asked) == 1


async def test_a_line_is_taken_out_where_a_failure_shows_that_it_hurts() -> None:
    written, _ = await drafted(answer(STALE, evidence=["e1"]))
    assert only(written).operations[0].op == "remove"


@pytest.mark.parametrize(
    ("evidence", "quotes", "reason"),
    [
        (["e2"], None, "remove: needs a quote of a failure in `evidence`: one of e1"),
        (
            ["e1"], (EvidenceLine(trace_id="t", span_id="s", quote="fine", failed=False),),
            "remove: no quote of a failure was kept",
        ),
        ([], (), "remove: no quote of a failure was kept"),
    ],
)  # fmt: skip
async def test_a_line_stays_where_no_failure_speaks_against_it(
    evidence: list[str], quotes: tuple[EvidenceLine, ...] | None, reason: str
) -> None:
    bad = answer(STALE, evidence=evidence)
    more = {} if quotes is None else {"evidence": quotes}
    written, model = await drafted(bad, bad, bad, **more)  # type: ignore[arg-type]  # one of them
    assert written.held == ()
    assert reason in last_word(model)


def _said(**changes: Json) -> str:
    good = answer().answer
    assert good is not None
    return json.dumps({**good, **changes})


WEAK = {
    "half json": ScriptedAnswer(text=_said()[:80]),
    "wrong types": ScriptedAnswer(text=_said(operations="insert it", evidence={"e": 1})),
    "a list": ScriptedAnswer(text=f"[{_said()}, {_said(why='other')}]"),
    "nothing": ScriptedAnswer(text=""),
    "a refusal": ScriptedAnswer(text="I'm sorry, but I can't help with that."),
    "a hundred operations": answer(*[operation()] * 100),
    "a giant text": answer(operation(text="word " * 50_000)),
    "a control character": answer(operation(text="- Ring \x07 the bell.\x1b[31m")),
    "a nul": answer(operation(text="- See\x00this.")),
    "a path of control characters": answer(operation(path="instructions/\x1b[2J.md")),
    "braces": ScriptedAnswer(text="{" * 5_000),
    "deep": ScriptedAnswer(text="[" * 3_000 + '{"operations":' + "[" * 3_000),
    "evidence of wrong types": ScriptedAnswer(text=_said(evidence=[1, None])),
    "numbers": ScriptedAnswer(text="42"),
}


@pytest.mark.parametrize("name", WEAK)
async def test_a_weak_or_hostile_answer_costs_a_try_and_nothing_else(name: str) -> None:
    written, model = await drafted(WEAK[name], answer())
    assert (len(written.held), written.tries) == (1, 2)
    assert last_word(model).startswith("Not taken: ")
    assert len(last_word(model)) < 1_000
    shown = model.asked[-1][-2].content
    assert len(str(shown)) <= 4_000


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{_said()}\n```",
        f"Sure! Here is my edit:\n\n{_said()}\n\nLet me know.",
        f"<think>a fence {{ in here</think>\n{_said()}",
        _said(confidence=0.9, notes=["more keys than asked for"]),
    ],
)
async def test_prose_and_fences_around_the_object_are_no_harm(text: str) -> None:
    written, model = await drafted(ScriptedAnswer(text=text))
    assert (len(written.held), len(model.asked)) == (1, 1)


def _called(args: dict[str, object]) -> AIMessage:
    return calls(("EditAnswer", args))


def _broken_call() -> AIMessage:
    """A tool call whose arguments break off, as providers hand it over."""
    return AIMessage(
        content="",
        invalid_tool_calls=[
            {"type": "invalid_tool_call", "id": "c1", "name": "EditAnswer", "args": _said()[:60],
             "error": None}
        ],
    )  # fmt: skip


TOOL_ANSWERS = {
    "arguments that break off": _broken_call(),
    "another tool's call": calls(("delete_everything", {"path": "/"})),
    "arguments of wrong types": _called({"operations": 3, "why": None}),
    "a call without arguments": _called({}),
}


@pytest.mark.parametrize("name", TOOL_ANSWERS)
async def test_a_tool_call_that_is_no_edit_costs_a_try(name: str) -> None:
    given = [TOOL_ANSWERS[name], _called(json.loads(_said()))]
    model = ToolModel(lambda _: given.pop(0))
    base = harness(main=MAIN)
    brief = Brief(finding=finding(), unit="trace", evidence=QUOTES, snapshot=base, include=INCLUDE)
    judge = judging(base, [line.quote for line in QUOTES])
    written = await model_drafts(model, "tool:model", brief, judge)
    assert (len(written.held), written.tries, given) == (1, 2, [])
