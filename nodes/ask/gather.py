"""Read what a question is about: the window it names, through the same pipeline as every analysis.

Nothing is written: an answer changes no finding and starts no run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from contracts.errors import ConfigError, SourceError
from contracts.findings import Finding
from contracts.protocols import TraceSource
from contracts.traces import TraceQuery
from memory.semantic_texts import finding_document
from memory.workspace import Workspace
from nodes.ask.facts import Facts, Read, match, tried_of, words_of
from nodes.ask.times import AskedTime, asked_time, without
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.choices import choices_of
from nodes.insights.sketch import Evidence
from nodes.ports import open_embedder_of, open_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What an answer stands on."""

    ws: Workspace
    facts: Facts
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    """Condensed runs by finding id; empty where nothing was read."""
    problem: SourceError | None = None
    """Why the source could not be read; the facts are then those of earlier analyses."""


def window_of(ws: Workspace, question: str, now: datetime) -> AskedTime:
    """The window that a question names, else the project's usual one."""
    released = [one.at for one in ws.ledger.effects.releases() if one.undoes is None]
    asked = asked_time(question, now, released=max(released, default=None))
    if asked is not None:
        return asked
    span = ws.settings.analysis.window
    return AskedTime(start=now - span, end=now, words="the usual window")


async def gather(ws: Workspace, question: str, *, now: datetime, stored: bool = False) -> Ground:
    """Read the window of a question and find what in it the question is about.

    Args:
        ws: the project.
        question: a person's words.
        now: aware; its zone says where days begin.
        stored: read nothing, and answer from what earlier analyses found.

    Raises:
        ConfigError: no source is configured.
    """
    time = await asyncio.to_thread(window_of, ws, question, now)
    if stored:
        return await asyncio.to_thread(from_ledger, ws, question, time)
    try:
        analysis = await read_window(ws, open_source(ws), time.start, time.end)
    except SourceError as error:
        known = await asyncio.to_thread(from_ledger, ws, question, time)
        return replace(known, problem=error)
    return await asyncio.to_thread(ground_of, ws, question, time, analysis)


async def read_window(
    ws: Workspace, source: TraceSource, start: datetime, end: datetime
) -> Analysis:
    """Analyse a window against the time before it, in memory only.

    Raises:
        SourceError: the source cannot be read.
    """
    spec = ws.settings.analysis
    said = choices_of(await asyncio.to_thread(ws.ledger.choices.listed))
    stored = await asyncio.to_thread(ws.ledger.knowledge.findings)
    return await analyze(
        source, TraceQuery(start=start, end=end), project=ws.project,
        baseline=(source, TraceQuery(start=start - spec.baseline, end=start)),
        chronic_floor=spec.chronic_floor, known=[one.finding for one in stored], choices=said,
        scores=spec.scores,
    )  # fmt: skip


def ground_of(ws: Workspace, question: str, time: AskedTime, analysis: Analysis) -> Ground:
    """The facts of an analysis that bear on a question."""
    read = Read(
        traces=analysis.read.traces, status=analysis.status, why=analysis.read.why,
        unit=analysis.unit, units_total=analysis.units_total,
    )  # fmt: skip
    evidence = {str(one): seen for one, seen in analysis.evidence.items()}
    facts = facts_of(ws, question, time, read=read, findings=analysis.findings, evidence=evidence)
    return Ground(ws=ws, facts=facts, evidence=evidence)


def from_ledger(ws: Workspace, question: str, time: AskedTime) -> Ground:
    """The facts that earlier analyses left, worst first; closed findings are left out."""
    kept = [one for one in ws.ledger.knowledge.findings() if one.state != "closed"]
    found = [one.finding for one in kept]
    about = [ws.ledger.knowledge.evidence(one.id) for one in found[:1]]
    partial = any(one.get("read") == "partial" for one in about)
    sessions = any(one.get("unit") == "session" for one in about)
    read = Read(
        traces=0, status="partial" if partial else "complete", why=None,
        unit="session" if sessions else "trace",
        units_total=max((one.units_total for one in found), default=0), stored=True,
    )  # fmt: skip
    return Ground(ws=ws, facts=facts_of(ws, question, time, read=read, findings=found, evidence={}))


def facts_of(
    ws: Workspace,
    question: str,
    time: AskedTime,
    *,
    read: Read,
    findings: Sequence[Finding],
    evidence: Mapping[str, Evidence],
) -> Facts:
    """Findings with what in them answers a question, and what was tried for them."""
    asked = without(question, time)
    likeness = _likeness(ws, asked, findings)
    return Facts(
        question=question, time=time, read=read,
        about=match(asked, findings, evidence, likeness), findings=tuple(findings),
        tried=tried_of(ws.ledger.knowledge.lessons(), findings),
    )  # fmt: skip


def _likeness(ws: Workspace, asked: str, findings: Sequence[Finding]) -> dict[str, float]:
    """Likeness of each finding's text to a question's; empty where memory is off."""
    words = " ".join(words_of(asked))
    try:
        embedder = open_embedder_of(ws)
    except ConfigError:
        return {}
    if embedder is None or not words or not findings:
        return {}
    texts = [words, *(finding_document(finding).text for finding in findings)]
    rows = np.asarray(embedder.embed(texts), dtype=np.float32)
    likeness = rows[1:] @ rows[0]
    return {f.id: float(one) for f, one in zip(findings, likeness, strict=True)}
