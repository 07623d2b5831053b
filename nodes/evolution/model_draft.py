"""Ask the editor model for edits, tell it what is wrong with them, and give up in time.

One edit an answer. Another idea is asked for once the edits so far hold, so that a weak model has
one small thing to do at a time, and what it did well is not put at risk by what it does next.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from connectors.models.chat import TIMEOUT_S, Answer, Budget, ask
from connectors.review.clean import one_line
from contracts.proposals import Draft
from memory.budget import DRAFTING_TOKENS, count_tokens
from nodes.evolution.model_answer import MAX_REASON, EditAnswer, draft_of
from nodes.evolution.prompt import PROMPT_TOKENS, Brief, finding_text, others_text, system_text

MAX_TRIES = 3
OTHER_TRIES = 2
"""For each further idea: the first edit is there already."""
SEVERAL_TOKENS = 7_000
"""Of the first message where several ideas are asked for, so that their calls fit the budget."""
MAX_SHOWN_BACK = 4_000
"""Characters of a refused answer that the model is shown again."""
TOTAL_S = 480.0
"""For all answers of one step together."""
NO_OTHER = "it has no other idea"

M = TypeVar("M")


class Record(Protocol):
    """What is kept of the asking. Called from a thread of its own; may block."""

    def shown(self, messages: Sequence[BaseMessage]) -> None:
        """Keep what the model is about to be shown."""

    def refusal(self) -> str | None:
        """Why no call may be made now; None: one may."""

    def earlier(self, call: int, messages: Sequence[BaseMessage]) -> Answer[EditAnswer] | None:
        """The answer that a run which was killed got to this call."""

    def answered(
        self, call: int, messages: Sequence[BaseMessage], answer: Answer[EditAnswer]
    ) -> None:
        """Keep an answer and what it used."""


class NoRecord:
    """Keeps nothing and refuses nothing."""

    def shown(self, messages: Sequence[BaseMessage]) -> None:
        """Nothing."""

    def refusal(self) -> None:
        """None."""

    def earlier(self, call: int, messages: Sequence[BaseMessage]) -> None:
        """None."""

    def answered(
        self, call: int, messages: Sequence[BaseMessage], answer: Answer[EditAnswer]
    ) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(Generic[M]):
    """What the editor model came to."""

    held: tuple[M, ...]
    """What `judge` made of the edits that hold, in order; empty: there is none."""
    problem: str | None
    """Why there are not as many as were asked for."""
    tries: int
    tokens: int
    unpriced: int
    """Answers whose cost nobody knows."""


@dataclass(slots=True, kw_only=True)
class _Asking:
    """The calls of one step, within one budget of tokens and time."""

    model: BaseChatModel
    record: Record
    tokens: int
    """That are left."""
    timeout_s: float
    ends_at: float
    """On the clock of the event loop."""
    structured: bool = True
    tries: int = 0
    calls: int = 0
    unpriced: int = 0
    over: bool = False
    """No further call may be made."""
    told: list[BaseMessage] = field(default_factory=list)
    """What was kept last as shown."""

    async def ask(self, messages: list[BaseMessage]) -> Answer[EditAnswer]:
        """One answer; `over` is set where no call was made."""
        self.calls += 1
        answer = await asyncio.to_thread(self.record.earlier, self.calls, messages)
        if answer is None:
            answer = await self._call(messages)
        self.over = answer.tokens == 0
        self.tokens -= answer.tokens
        self.tries += not self.over
        self.unpriced += not self.over and answer.cost_usd is None
        if answer.failed:
            self.structured = False  # it may be the schema that this provider refuses
        return answer

    async def _call(self, messages: list[BaseMessage]) -> Answer[EditAnswer]:
        refusal = await asyncio.to_thread(self.record.refusal)
        left = self.ends_at - asyncio.get_running_loop().time()
        if refusal is None and left <= 0:
            refusal = "the time for drafting is over"
        if refusal is not None:
            return Answer(parsed=None, problem=refusal, tokens=0, failed=True)
        if messages != self.told:
            await asyncio.to_thread(self.record.shown, messages)
            self.told = messages
        budget = Budget(
            tokens=self.tokens, count_tokens=_count, timeout_s=min(self.timeout_s, left)
        )
        answer = await ask(self.model, messages, EditAnswer, budget=budget,
                           structured=self.structured)  # fmt: skip
        if answer.tokens:
            await asyncio.to_thread(self.record.answered, self.calls, messages, answer)
        return answer


async def model_drafts(
    model: BaseChatModel,
    name: str,
    brief: Brief,
    judge: Callable[[Draft, Sequence[M]], M | str],
    *,
    count: int = 1,
    record: Record | None = None,
    tokens: int = DRAFTING_TOKENS,
    timeout_s: float = TIMEOUT_S,
    total_s: float = TOTAL_S,
) -> Written[M]:
    """The model's edits that hold, `count` at most, or why there are fewer.

    Args:
        model: the editor.
        name: `provider:name`, for the drafts' author.
        brief: what the model is told.
        judge: merges a draft, runs the policy on it and compares it with those that hold already;
            gives what it made, or the sentence that says what is wrong.
        count: how many edits with different ideas.
        record: keeps what is shown and answered; None: nothing is kept.
        tokens: for all tries together, input and output.
        timeout_s: for one answer.
        total_s: for all answers.
    """
    asking = _Asking(
        model=model, record=record or NoRecord(), tokens=tokens, timeout_s=timeout_s,
        ends_at=asyncio.get_running_loop().time() + total_s,
    )  # fmt: skip
    first = await asyncio.to_thread(_first, brief, count)
    held: list[M] = []
    drafts: list[Draft] = []
    problem = None
    while len(held) < count and problem is None:
        messages = [first[0], HumanMessage(f"{first[1].text}{others_text(drafts)}")]
        problem = await _one(asking, messages, _Judging(name, brief, judge, drafts, held))
    if problem is not None:
        problem = one_line(problem, MAX_REASON)
    return Written(
        held=tuple(held), problem=problem, tries=asking.tries, tokens=tokens - asking.tokens,
        unpriced=asking.unpriced,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Judging(Generic[M]):
    name: str
    brief: Brief
    judge: Callable[[Draft, Sequence[M]], M | str]
    drafts: list[Draft]
    held: list[M]

    def take(self, answer: Answer[EditAnswer]) -> str | None:
        """Hold what the answer gives; or what is wrong with it."""
        if answer.parsed is None:
            return answer.problem or "no answer"
        if self.held and not answer.parsed.operations:
            return NO_OTHER
        draft = draft_of(answer.parsed, self.name, self.brief)
        if isinstance(draft, str):
            return draft
        made = self.judge(draft, self.held)
        if isinstance(made, str):
            return made
        self.drafts.append(draft)
        self.held.append(made)
        return None


async def _one(asking: _Asking, messages: list[BaseMessage], judging: _Judging[M]) -> str | None:
    """Ask until one more edit holds; the last reason where none does."""
    problem = ""
    for _ in range(OTHER_TRIES if judging.held else MAX_TRIES):
        answer = await asking.ask(messages)
        if asking.over:
            return "; then ".join(filter(None, [problem, answer.problem]))
        wrong = await asyncio.to_thread(judging.take, answer)
        if wrong is None or wrong == NO_OTHER:
            return wrong
        problem = wrong
        if not answer.failed:
            messages = [*messages, *_correction(answer, problem)]
    return problem


def _first(brief: Brief, count: int) -> tuple[SystemMessage, HumanMessage]:
    limit = PROMPT_TOKENS if count == 1 else SEVERAL_TOKENS
    user = finding_text(brief, count_tokens=_count, limit=limit)
    return SystemMessage(system_text(brief)), HumanMessage(user)


def _count(text: str) -> int:
    return count_tokens(text).tokens


def _correction(answer: Answer[EditAnswer], problem: str) -> list[BaseMessage]:
    """The refused answer and the reason. As text: not every provider takes open tool calls back."""
    return [
        AIMessage(answer.text[:MAX_SHOWN_BACK] or "(no text)"),
        HumanMessage(
            f"Not taken: {one_line(problem, 2 * MAX_REASON)}\n"
            "Answer again with the whole JSON object, this put right."
        ),
    ]
