"""Ask the analyst about the worst findings, several times each, and keep every answer once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, cast

from langchain_core.language_models import BaseChatModel
from sqlalchemy import Connection

from configs.taxonomy import taxonomy
from connectors.models.chat import open_model
from contracts.codec import from_json, to_json
from contracts.findings import Diagnosis, Finding, FindingId
from contracts.json_types import Json, JsonObject
from memory.knowledge import StoredFinding
from memory.workspace import Workspace
from nodes.insights.exemplars import Exemplars
from nodes.insights.model_diagnose import Brief, Said, ask_once
from nodes.insights.opinions import Opinion, joined
from nodes.insights.prompt_files import load_prompt
from nodes.insights.spending import ANSWER_TOKENS, Meter

MAX_DIAGNOSED: Final = 5
"""Actionable findings of one analysis that the analyst is asked about, the worst first."""
LEAST_PROMPT: Final = 1_500
MOST_PROMPT: Final = 5_000
"""Tokens that one asking sends: its share of the budget between these two."""
USUAL_ANSWER: Final = 600
"""Tokens that an answer takes as a rule; what is reserved for it is `ANSWER_TOKENS`."""
REUSED_FOR: Final = timedelta(days=7)
"""How long the analyst's word on a finding stands while the rules say the same of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A finding as rules and the analyst together see it, and what is kept of how."""

    finding: Finding
    kept: JsonObject | None
    """`diagnosed`, beside the finding's evidence; None: the rules stand alone."""
    asked_with: str | None = None
    """Model and prompt that the kept word was asked with."""


@dataclass(slots=True)
class Analyst:
    """Asks one model about the findings of one analysis."""

    ws: Workspace
    thread: str
    name: str
    exemplars: Exemplars
    meter: Meter
    unit: str
    _model: BaseChatModel | None = field(default=None)

    async def words(self, wanted: Sequence[Finding]) -> list[Word]:
        """One word a finding, in order.

        Raises:
            ConfigError: the model cannot be opened.
        """
        return [await self._word(finding, self._room(len(wanted))) for finding in wanted]

    def _room(self, findings: int) -> int:
        """Tokens that each asking may send, so that all of them fit the analysis."""
        fair = self.meter.limit // (findings * self.ws.settings.models.samples) - USUAL_ANSWER
        return min(MOST_PROMPT, max(LEAST_PROMPT, fair))

    async def _word(self, finding: Finding, room: int) -> Word:
        samples = range(self.ws.settings.models.samples)
        steps = {i: f"insights.diagnose:{finding.id}:{i}" for i in samples}
        stored = await asyncio.to_thread(self._stored, steps)
        missing = [i for i in samples if i not in stored]
        if missing:
            needs = len(missing) * (room + ANSWER_TOKENS)
            refusal = await asyncio.to_thread(self.meter.refusal, calls=len(missing), tokens=needs)
            if refusal is not None:
                return self._unasked(finding, refusal)
            brief = await self._brief(finding)
            if not brief.failing:
                return self._unasked(finding, "none of its runs could be read again")
            share = self.meter.left // len(missing)
            model = await self._opened()
            answers = [
                self._ask(model, brief, steps[i], seed=i, tokens=share, room=room)
                for i in missing
            ]  # fmt: skip
            stored.update(zip(missing, await asyncio.gather(*answers), strict=True))
        for body in stored.values():
            self.meter.count("diagnose", _whole(body["tokens"]), _usd(body["cost_usd"]))
        return self._joined(finding, [stored[i] for i in sorted(stored)])

    def _stored(self, steps: Mapping[int, str]) -> dict[int, JsonObject]:
        found = {i: self.ws.ledger.steps.get(self.thread, step) for i, step in steps.items()}
        return {i: body for i, body in found.items() if body is not None}

    async def _opened(self) -> BaseChatModel:
        if self._model is None:
            self._model = await asyncio.to_thread(
                open_model, self.name, key="models.analyst", root=self.ws.root,
                answer_tokens=ANSWER_TOKENS,
            )  # fmt: skip
        return self._model

    async def _brief(self, finding: Finding) -> Brief:
        return Brief(
            finding=finding,
            unit=self.unit,
            failing=await self.exemplars.failing(finding),
            passing=self.exemplars.passing(finding),
            causes=taxonomy().causes,
        )

    async def _ask(
        self, model: BaseChatModel, brief: Brief, step: str, *, seed: int, tokens: int, room: int
    ) -> JsonObject:
        """One answer, in the ledger with what it used before anything is made of it."""
        prompt = load_prompt("diagnose")
        one = await ask_once(model, brief, prompt, seed=seed, tokens=tokens, prompt_tokens=room)

        def write(tx: Connection) -> Mapping[str, Json]:
            self.meter.keep(
                tx, "diagnose", self.name, step=step, tokens=one.tokens, cost_usd=one.cost_usd
            )
            return {**_said_json(one), "model": self.name, "prompt": prompt.tag}

        return await asyncio.to_thread(self.ws.ledger.steps.once, self.thread, step, write)

    def _unasked(self, finding: Finding, why: str) -> Word:
        note = f"the analyst was not asked: {why}; the diagnosis is the rules'"
        self.meter.notes.append(f"{finding.signature}: {note}")
        diagnosis = finding.diagnosis
        told = replace(diagnosis, summary=f"{diagnosis.summary} ({_sentence(note)})")
        noted = replace(finding, diagnosis=told, reasons=(*finding.reasons, note))
        return Word(finding=noted, kept=None)

    def _joined(self, finding: Finding, bodies: Sequence[JsonObject]) -> Word:
        opinions = [o for body in bodies if (o := _opinion(body)) is not None]
        rules = finding.diagnosis
        diagnosis = joined(
            rules, opinions, asked=len(bodies), model=self.name, causes=taxonomy().causes
        )
        note = _note(bodies, len(opinions), self.name)
        if diagnosis == rules:
            diagnosis = replace(rules, summary=f"{rules.summary} ({_sentence(note)})")
        told = replace(finding, diagnosis=diagnosis, reasons=(*finding.reasons, note))
        if 2 * len(opinions) <= len(bodies):
            return Word(finding=told, kept=None)  # no word to keep: asked anew the next time
        kept: dict[str, Json] = {
            "at": self.ws.ledger.db.now(),
            "by": f"model:{self.name}",
            "model": self.name,
            "prompt": str(bodies[0]["prompt"]),
            "rules": rules_json(rules),
            "diagnosis": to_json(diagnosis),
            "evidence": [place for body in bodies for place in _places(body)],
        }
        return Word(finding=told, kept=kept)


def earlier_word(
    finding: Finding, stored: StoredFinding, kept: JsonObject, now: datetime
) -> Word | None:
    """The word of an earlier run, where it still stands. Pure.

    It does not where the finding was reopened, the rules came to something else since, or it is
    older than `REUSED_FOR`. Parameters are always those of the rules now.
    """
    body = kept.get("diagnosed")
    if stored.state == "reopened" or not isinstance(body, Mapping):
        return None
    if body["rules"] != rules_json(finding.diagnosis):
        return None
    if datetime.fromisoformat(str(body["at"])) < now - REUSED_FOR:
        return None
    diagnosis = from_json(Diagnosis, cast("JsonObject", body["diagnosis"]))
    note = f"{body['by']} was asked on {str(body['at'])[:10]}; its word still stands"
    told = replace(
        finding,
        diagnosis=replace(diagnosis, parameters=finding.diagnosis.parameters),
        reasons=(*finding.reasons, note),
    )
    return Word(finding=told, kept=body, asked_with=f"{body['model']} {body['prompt']}")


def rules_json(rules: Diagnosis) -> list[Json]:
    """What of the rules' word an analyst's word stands beside."""
    return [rules.cause, list(rules.remedies)]


def asked_with(name: str) -> str:
    """Model and prompt as they would be asked now."""
    return f"{name} {load_prompt('diagnose').tag}"


def _note(bodies: Sequence[JsonObject], counted: int, name: str) -> str:
    """How many answers count, what of their evidence does not exist, and why others do not."""
    invalid = sum(_whole(body["invalid"]) for body in bodies)
    named = invalid + sum(len(_places(body)) for body in bodies)
    parts = [f"{counted} of {len(bodies)} answers of {name} count ({bodies[0]['prompt']})"]
    if invalid:
        parts.append(f"{invalid} of {named} pieces of evidence that it named do not exist")
    problems = dict.fromkeys(str(body["problem"]) for body in bodies if body["problem"])
    if problems:
        parts.append(f"the others: {next(iter(problems))}")
    if 2 * counted <= len(bodies):
        parts.append("too few, so the diagnosis is the rules'")
    return "; ".join(parts)


def _said_json(one: Said) -> dict[str, Json]:
    opinion = one.opinion
    return {
        "opinion": None if opinion is None else to_json(opinion),
        "evidence": [[trace, span] for trace, span in one.evidence],
        "invalid": one.invalid, "problem": one.problem, "tokens": one.tokens,
        "cost_usd": one.cost_usd, "tries": one.tries,
    }  # fmt: skip


def _opinion(body: JsonObject) -> Opinion | None:
    kept = body["opinion"]
    return None if kept is None else from_json(Opinion, cast("JsonObject", kept))


def _places(body: JsonObject) -> Sequence[Json]:
    return cast("Sequence[Json]", body["evidence"])


def _whole(value: Json) -> int:
    return cast("int", value)


def _usd(value: Json) -> float | None:
    return cast("float | None", value)


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def word_of(kept: Mapping[FindingId, Word]) -> dict[FindingId, JsonObject]:
    """What is kept beside the evidence of each finding."""
    return {name: {"diagnosed": word.kept} for name, word in kept.items() if word.kept is not None}
