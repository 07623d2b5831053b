"""Let the analyst model answer a question over what was counted, and check what it says."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from connectors.models.agent import AgentAnswer, converse
from connectors.models.chat import Budget, open_model
from connectors.review.clean import safe
from contracts.json_types import Json
from nodes.ask.claims import Unsupported, unsupported
from nodes.ask.facts import facts_lines
from nodes.ask.gather import Ground
from nodes.ask.tools import Tools
from nodes.fence import fenced
from nodes.insights.prompt_files import load_prompt
from nodes.insights.spending import ANSWER_TOKENS, Meter, count

TIMEOUT_S = 300.0
"""For all calls of one question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the model said, with what of it nothing returned."""

    by: str
    """`provider:name`."""
    prompt: str
    """Name and version of its instructions."""
    text: str
    problem: str | None
    """Why there is no answer, or not a whole one; the facts hold all the same."""
    tokens: int
    limit: int
    cost_usd: float | None
    unsupported: tuple[Unsupported, ...] = ()


async def answer_with(
    ground: Ground,
    name: str,
    *,
    model: BaseChatModel | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Answered:
    """Ask the model; what it used is noted in the ledger.

    Args:
        ground: what was read, and what it may look at.
        name: `provider:name`, from `models.analyst`.
        model: in place of the one of that name.
        on_line: is told each line of the answer as it comes.

    Raises:
        ConfigError: there is no such model.
    """
    ws = ground.ws
    if model is None:
        model = await asyncio.to_thread(
            open_model, name, key="models.analyst", root=ws.root, answer_tokens=ANSWER_TOKENS
        )
    prompt = load_prompt("ask")
    meter = Meter(ws, f"ask-{uuid4().hex[:16]}")
    refused = await asyncio.to_thread(meter.refusal, tokens=2 * ANSWER_TOKENS)
    if refused is not None:
        return Answered(
            by=name, prompt=prompt.tag, text="", problem=refused, tokens=0, limit=meter.limit,
            cost_usd=None,
        )  # fmt: skip
    budget = Budget(
        tokens=meter.limit, count_tokens=count, answer_tokens=ANSWER_TOKENS, timeout_s=TIMEOUT_S
    )
    told = _question(ground)
    said = await converse(
        model, _system(prompt.text, ground), [HumanMessage(told)], Tools(ground).all(),
        budget=budget, on_line=on_line,
    )  # fmt: skip
    await asyncio.to_thread(_note, meter, name, said)
    return Answered(
        by=name, prompt=prompt.tag, text=said.text, problem=said.problem, tokens=said.tokens,
        limit=meter.limit, cost_usd=said.cost_usd if said.tokens else None,
        unsupported=tuple(unsupported(said.text, [told, *said.returned])),
    )  # fmt: skip


def _system(prompt: str, ground: Ground) -> str:
    """The rules and the question, which stays here when the conversation is summarised."""
    return f"{prompt}\n## The question\n{safe(ground.facts.question)}"


def _question(ground: Ground) -> str:
    """The question and the first facts. The question is the person's; the facts are data."""
    facts = fenced("facts", safe("\n".join(facts_lines(ground.facts, most=3))))
    return f"{safe(ground.facts.question)}\n\nWhat was counted, in short:\n{facts}"


def _note(meter: Meter, name: str, said: AgentAnswer) -> None:
    with meter.ws.ledger.db.write() as tx:
        meter.keep(
            tx, "ask", name, step="ask", tokens=said.tokens, cost_usd=said.cost_usd
        )  # fmt: skip


def answered_json(answered: Answered) -> dict[str, Json]:
    """As `answer` of `tracemend.ask/1`."""
    return {
        "by": answered.by, "prompt": answered.prompt, "text": answered.text,
        "problem": answered.problem,
        "unsupported": [{"kind": one.kind, "text": one.text} for one in answered.unsupported],
        "tokens": answered.tokens, "limit": answered.limit, "cost_usd": answered.cost_usd,
    }  # fmt: skip
