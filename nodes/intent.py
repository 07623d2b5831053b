"""What a person wants who wrote free text: an answer, an edit, or where things stand.

The router model says so where one is set; else words do. In doubt it is a question: an answer
changes nothing, while an edit costs a person's time and a model's money.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from connectors.models.chat import Budget, ask
from connectors.review.clean import one_line, safe
from nodes.fence import fenced
from nodes.insights.prompt_files import load_prompt
from nodes.insights.spending import count

Intent = Literal["question", "improve", "status"]
MAX_TEXT: Final = 2_000
"""Characters of a request that are looked at."""
ANSWER_TOKENS: Final = 500
TOKENS: Final = 3_000
"""Of one decision; the text is cut, so it never takes as much."""

_ASKS: Final = re.compile(
    r"\?|^\s*(?:why|how|what|when|where|which|who|is|are|does|do(?! something)|did|has|have|show"
    r"|tell|explain|compare|count|list)\b",
    re.IGNORECASE,
)
_CHANGES: Final = re.compile(
    r"\b(?:fix|improve|mend|repair|optimi[sz]e|correct|rewrite|edit|change|update|adjust|teach"
    r"|make (?:it|the agent)|stop (?:it|the agent)|get rid of|do something about|draft)\b",
    re.IGNORECASE,
)
_STANDS: Final = re.compile(
    r"\b(?:status|state of|waiting|waits? for|pending|open (?:findings?|proposals?|cards?)"
    r"|proposals?|approv\w+|applied|released?|rolled back|hand-?offs?|tickets?|backlog|overview"
    r"|where (?:do|are) (?:we|things|you))\b",
    re.IGNORECASE,
)
_POLITE: Final = re.compile(
    r"^\s*(?:please|could you|can you|would you|pls|kindly)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The intent, why, and what deciding it took."""

    intent: Intent
    why: str
    by: str
    """`rules` or `model:<name>`."""
    tokens: int = 0
    cost_usd: float | None = 0.0
    """None: not known."""
    asked: str | None = None
    """The model that was asked, whether its answer was taken or not."""


class IntentAnswer(BaseModel):
    """What the person wants."""

    intent: Intent
    why: str = ""


def by_words(text: str) -> Decided:
    """The intent by its words. A pure function."""
    said = text[:MAX_TEXT]
    polite = _POLITE.search(said)
    asks = _ASKS.search(_POLITE.sub("", said) if polite else said)
    changes, stands = _CHANGES.search(said), _STANDS.search(said)
    if changes and (polite or not asks):
        return Decided(intent="improve", why=f"asks for a change: {changes[0]!r}", by="rules")
    if stands:
        return Decided(intent="status", why=f"asks where things stand: {stands[0]!r}", by="rules")
    why = "asks" if asks else "says neither that something is to change nor where things stand"
    return Decided(intent="question", why=why, by="rules")


def messages(text: str) -> Sequence[BaseMessage]:
    """What the router model is sent."""
    told = fenced("request", safe(text[:MAX_TEXT]))
    return [SystemMessage(load_prompt("route").text), HumanMessage(told)]


async def by_model(model: BaseChatModel, name: str, text: str) -> Decided:
    """The intent as the model says it; by words where it gives no usable answer."""
    budget = Budget(tokens=TOKENS, count_tokens=count, answer_tokens=ANSWER_TOKENS)
    answer = await ask(model, messages(text), IntentAnswer, budget=budget)
    cost = answer.cost_usd if answer.tokens else 0.0
    if answer.parsed is None:
        rules = by_words(text)
        why = f"{name} gave no usable answer ({one_line(answer.problem or '', 80)}); {rules.why}"
        return Decided(
            intent=rules.intent,
            why=why,
            by="rules",
            tokens=answer.tokens,
            cost_usd=cost,
            asked=name,
        )
    why = one_line(answer.parsed.why, 120) or "it gave no reason"
    return Decided(
        intent=answer.parsed.intent, why=why, by=f"model:{name}", tokens=answer.tokens,
        cost_usd=cost, asked=name,
    )  # fmt: skip
