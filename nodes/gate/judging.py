"""Ask the judge model about one answer, blind to case and arm, and keep what it cost."""

import json
from dataclasses import dataclass
from typing import Final, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from configs.redaction import redact
from connectors.models.chat import Budget, ask
from connectors.review.clean import one_line, safe
from contracts.json_types import Json
from nodes.fence import fenced
from nodes.insights.prompt_files import load_prompt
from nodes.insights.spending import count

ANSWER_TOKENS: Final = 500
MAX_TEXT: Final = 20_000
"""Characters of an input, and of an answer, that the judge is shown."""
TOKENS: Final = 20_000
"""Of one grade; a longer answer is cut before, so it fits."""
TRIES: Final = 2
"""A weak model's answer that fits nothing is asked for once more."""


class JudgeAnswer(BaseModel):
    """One grade."""

    grade: Literal["yes", "no", "cannot_tell"]
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """`holds` None: the judge was down, gave no usable answer, or cannot tell."""

    holds: bool | None
    why: str
    tokens: int
    cost_usd: float | None
    """None: not known."""


def judge_subject(model: str) -> str:
    """What a calibration is about: the model and the version of its instructions."""
    return f"{model} {load_prompt('judge').tag}"


def messages(question: str, case_input: Json, output: Json) -> list[BaseMessage]:
    """What the judge is sent: never a case id, an arm, or what the other arm said."""
    told = (
        f"Question: {one_line(question, 1_000)}",
        fenced("asked", _text(case_input)),
        fenced("answer", _text(output)),
    )
    return [SystemMessage(load_prompt("judge").text), HumanMessage("\n\n".join(told))]


def _text(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    shown = safe(redact(text[: 2 * MAX_TEXT]))
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}\n[cut]"


async def grade_once(model: BaseChatModel, question: str, case_input: Json, output: Json) -> Grade:
    """One grade. Never raises for what the model does."""
    asked = messages(question, case_input, output)
    tokens, cost, why = 0, 0.0, ""
    priced = True
    for _ in range(TRIES):
        budget = Budget(tokens=TOKENS, count_tokens=count, answer_tokens=ANSWER_TOKENS)
        answer = await ask(model, asked, JudgeAnswer, budget=budget)
        tokens += answer.tokens
        if answer.tokens and answer.cost_usd is None:
            priced = False
        cost += answer.cost_usd or 0.0
        if answer.parsed is not None:
            grade = answer.parsed.grade
            holds = None if grade == "cannot_tell" else grade == "yes"
            why = one_line(answer.parsed.why, 200) or "it gave no reason"
            break
        holds, why = None, one_line(answer.problem or "no answer", 200)
        if answer.failed:
            break
    return Grade(holds=holds, why=why, tokens=tokens, cost_usd=cost if priced else None)
