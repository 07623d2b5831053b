"""Let the router model read runs of the window, batch by batch, within what is left to spend."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from langchain_core.language_models import BaseChatModel
from sqlalchemy import Connection

from connectors.models.chat import open_model
from contracts.codec import from_json, to_json
from contracts.findings import Symptom
from contracts.json_types import Json, JsonObject
from memory.workspace import Workspace
from nodes.insights.analyze import Analysis
from nodes.insights.prompt_files import load_prompt
from nodes.insights.screen import (
    BATCH,
    Marked,
    chosen,
    screen_batch,
    summary,
    symptom_of,
    system_text,
    told,
)
from nodes.insights.sketch import Sketch
from nodes.insights.spending import ANSWER_TOKENS, Meter, count


@dataclass(slots=True)
class Reader:
    """Reads runs of one analysis with one model."""

    ws: Workspace
    thread: str
    name: str
    meter: Meter
    _model: BaseChatModel | None = None

    async def read(self, analysis: Analysis, most: int) -> tuple[Analysis, JsonObject]:
        """The analysis with the hints that reading found, and their summary for the state.

        Raises:
            ConfigError: the model cannot be opened.
        """
        runs = chosen(analysis, most)
        found: list[Symptom] = []
        read = dropped = 0
        for number, start in enumerate(range(0, len(runs), BATCH)):
            batch = runs[start : start + BATCH]
            body = await self._batch(batch, f"insights.screen:{number}")
            if isinstance(body, str):
                self.meter.notes.append(f"{read} of {len(runs)} traces were read: {body}")
                break
            self.meter.count("screen", cast("int", body["tokens"]), cast("float", body["cost_usd"]))
            if body["problem"] is not None:
                self.meter.notes.append(f"{len(batch)} traces were not read: {body['problem']}")
                continue
            read += len(batch)
            dropped += cast("int", body["dropped"])
            found += _symptoms(body, batch, self.name)
        report = {**summary(found, model=self.name, read=read), "dropped": dropped}
        return replace(analysis, symptoms=_with(analysis.symptoms, found)), report

    async def _batch(self, batch: Sequence[Sketch], step: str) -> JsonObject | str:
        """What reading the batch came to, now or before a kill; a text: why it is not read."""
        kept = await asyncio.to_thread(self.ws.ledger.steps.get, self.thread, step)
        if kept is not None:
            return kept
        prompt = load_prompt("screen")
        needs = count(system_text(prompt)) + count(told(batch)) + ANSWER_TOKENS
        refusal = await asyncio.to_thread(self.meter.refusal, tokens=needs)
        if refusal is not None:
            return refusal
        model = await self._opened()
        one = await screen_batch(model, batch, prompt, tokens=self.meter.left)

        def write(tx: Connection) -> Mapping[str, Json]:
            self.meter.keep(
                tx, "screen", self.name, step=step, tokens=one.tokens, cost_usd=one.cost_usd
            )
            return {**to_json(one), "model": self.name, "prompt": prompt.tag}

        return await asyncio.to_thread(self.ws.ledger.steps.once, self.thread, step, write)

    async def _opened(self) -> BaseChatModel:
        if self._model is None:
            self._model = await asyncio.to_thread(
                open_model, self.name, key="models.router", root=self.ws.root,
                answer_tokens=ANSWER_TOKENS,
            )  # fmt: skip
        return self._model


def _symptoms(body: JsonObject, batch: Sequence[Sketch], name: str) -> list[Symptom]:
    by_id = {sketch.trace_id: sketch for sketch in batch}
    kept = cast("list[JsonObject]", body["marked"])
    marked = [from_json(Marked, one) for one in kept]
    return [symptom_of(one, by_id.get(one.trace_id), name) for one in marked]


def _with(symptoms: Sequence[Symptom], found: Sequence[Symptom]) -> tuple[Symptom, ...]:
    both = (*symptoms, *found)
    return tuple(sorted(both, key=lambda s: (s.trace_id, s.at, s.span_id, s.signature)))
