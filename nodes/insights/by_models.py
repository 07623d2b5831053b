"""What models add to an analysis: diagnoses, asked several times, and hints by reading.

Rules have spoken before; without a model, or over a budget, their word stands and the finding says
why. Every answer is a step of the thread in the ledger before anything is made of it, so that a run
which was killed asks again only for what it had no answer to.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from contracts.findings import FindingId
from contracts.json_types import Json, JsonObject
from contracts.protocols import TraceSource
from memory.workspace import Workspace
from nodes.insights.analyze import Analysis
from nodes.insights.asking import MAX_DIAGNOSED, Analyst, Word, asked_with, earlier_word, word_of
from nodes.insights.exemplars import TOLD, Exemplars
from nodes.insights.reading import Reader
from nodes.insights.spending import Meter


@dataclass(frozen=True, slots=True, kw_only=True)
class ByModels:
    """An analysis with what models added, and what that took."""

    analysis: Analysis
    report: JsonObject | None = None
    """Tokens by step, cost, notes and hints for the state; None: no model was to be asked."""
    kept: Mapping[FindingId, JsonObject] = field(default_factory=dict)
    """What is kept beside the evidence of a finding."""


async def add_models(
    ws: Workspace,
    thread: str,
    source: TraceSource,
    analysis: Analysis,
    *,
    resting: frozenset[str],
    asked: bool,
) -> ByModels:
    """Diagnose the worst findings with the analyst, then let the router model read runs.

    Args:
        ws: the project.
        thread: of the run.
        source: where exemplars are opened.
        analysis: what rules came to.
        resting: findings that are counted and not worked on: nothing is spent on them.
        asked: False for a question, which is answered from what is known.

    Raises:
        ConfigError: a model that is set cannot be opened.
    """
    words = await asyncio.to_thread(_earlier, ws, analysis)
    meter, models = Meter(ws, thread), ws.settings.models
    report: dict[str, Json] = {}
    if asked and models.analyst is not None:
        standing = {name for name, word in words.items()
                    if word.asked_with == asked_with(models.analyst)}  # fmt: skip
        open_now = [f for f in analysis.findings if f.actionable and f.id not in resting]
        wanted = [f for f in open_now[:MAX_DIAGNOSED] if f.id not in standing]
        runs = tuple(trace for f in wanted for trace, _ in f.exemplars[:TOLD])
        exemplars = Exemplars(ws, thread, source, analysis, runs)
        analyst = Analyst(ws, thread, models.analyst, exemplars, meter, analysis.unit)
        for word in await analyst.words(wanted):
            if word.kept is not None or word.finding.id not in words:
                words[word.finding.id] = word
        report |= {"diagnosed": len(wanted), "standing": len(standing)}
        report["condensed"] = exemplars.condensed
    told = replace(
        analysis,
        findings=tuple(words[f.id].finding if f.id in words else f for f in analysis.findings),
    )
    if asked and models.router is not None and models.screen_traces:
        reader = Reader(ws, thread, models.router, meter)
        told, report["reading"] = await reader.read(told, models.screen_traces)
    whole = {**meter.report(), **report} if report else None
    return ByModels(analysis=told, report=whole, kept=word_of(words))


def _earlier(ws: Workspace, analysis: Analysis) -> dict[FindingId, Word]:
    """Words of earlier runs that still stand."""
    known = {stored.finding.id: stored for stored in ws.ledger.knowledge.findings()}
    now = ws.ledger.db.clock()
    words: dict[FindingId, Word] = {}
    for finding in analysis.findings:
        stored = known.get(finding.id)
        if stored is None or stored.finding.diagnosis.agreement is None:
            continue  # no model was asked about it
        word = earlier_word(finding, stored, ws.ledger.knowledge.evidence(finding.id), now)
        if word is not None:
            words[finding.id] = word
    return words


def by_reading(told: ByModels) -> str:
    """Follows the reason of the triage where a model that read runs marked some of them."""
    reading = (told.report or {}).get("reading")
    if reading is None:
        return ""
    kinds = cast("Sequence[JsonObject]", cast("JsonObject", reading)["kinds"])
    return f"; hints, not counted: {'; '.join(str(k['says']) for k in kinds)}" if kinds else ""
