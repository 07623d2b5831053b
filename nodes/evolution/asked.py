"""What the editor model is shown, answers and costs, in the ledger before anything is made of it.

A run that was killed gets the answers that it had, so that no second, different edit is drafted and
nothing is paid or counted twice. The calls share their money with those of the analysis.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection

from configs.redaction import redact
from connectors.models.chat import Answer
from contracts.json_types import Json, sha256_hex
from memory.workspace import Workspace
from nodes.evolution.model_answer import EditAnswer
from nodes.evolution.model_draft import MAX_SHOWN_BACK
from nodes.evolution.shown import keep_shown
from nodes.insights.spending import money_refusal

MASKED = "the answer held a secret, so that it was not kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class InLedger:
    """The record of one step: the drafting of one revision."""

    ws: Workspace
    thread: str
    revision: int
    model: str
    """`provider:name`."""

    def shown(self, messages: Sequence[BaseMessage]) -> None:
        """Keep what the model is about to be shown; a sealed case in it retires the case."""
        keep_shown(self.ws, self.thread, self.revision, messages)

    def refusal(self) -> str | None:
        """Why money forbids a call now, over analysis and drafting together."""
        return money_refusal(self.ws, self.thread)

    def earlier(self, call: int, messages: Sequence[BaseMessage]) -> Answer[EditAnswer] | None:
        """The answer that was kept for this call with exactly these messages."""
        body = self.ws.ledger.steps.get(self.thread, self._step(call, messages))
        return None if body is None else _answer(body)

    def answered(
        self, call: int, messages: Sequence[BaseMessage], answer: Answer[EditAnswer]
    ) -> None:
        """Keep an answer, masked, and what it used."""
        step = self._step(call, messages)

        def write(tx: Connection) -> Mapping[str, Json]:
            self.ws.ledger.spends.add(
                tx, "draft", self.model, key=f"{self.thread}:{step}", tokens=answer.tokens,
                cost_usd=answer.cost_usd, thread=self.thread,
            )  # fmt: skip
            return _body(answer)

        self.ws.ledger.steps.once(self.thread, step, write)

    def _step(self, call: int, messages: Sequence[BaseMessage]) -> str:
        told = json.dumps([[one.type, str(one.content)] for one in messages])
        return f"draft:{self.revision}:{call}:{sha256_hex(told.encode())[:12]}"


def _body(answer: Answer[EditAnswer]) -> dict[str, Json]:
    said = None if answer.parsed is None else answer.parsed.model_dump(mode="json")
    whole = json.dumps(said, ensure_ascii=False)
    problem = answer.problem
    if redact(whole) != whole:
        # Masked it would be another edit than the one that was judged.
        said, problem = None, MASKED
    return {
        "said": said, "problem": problem, "text": answer.text[:MAX_SHOWN_BACK],
        "tokens": answer.tokens, "cost_usd": answer.cost_usd, "failed": answer.failed,
    }  # fmt: skip


def _answer(body: Mapping[str, Json]) -> Answer[EditAnswer]:
    said, cost, problem = body["said"], body["cost_usd"], body["problem"]
    return Answer(
        parsed=None if said is None else EditAnswer.model_validate(said),
        problem=None if problem is None else str(problem), text=str(body["text"]),
        tokens=cast("int", body["tokens"]),
        cost_usd=None if cost is None else cast("float", cost), failed=bool(body["failed"]),
    )  # fmt: skip
