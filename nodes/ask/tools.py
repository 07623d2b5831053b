"""What a model may look at to answer a question. Every tool reads; none writes, starts or sends.

What a tool returns is told as fenced data, masked and cut. A tool that finds nothing says so; none
raises for what a model asks.
"""

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime

from langchain_core.tools import BaseTool, StructuredTool

from connectors.review.clean import one_line, safe
from contracts.errors import ConfigError, SourceError
from contracts.findings import Finding
from contracts.json_types import Json
from contracts.traces import TraceQuery
from memory.semantic_keep import lessons_of
from memory.workspace import Workspace
from nodes.ask.gather import Ground, read_window
from nodes.fence import fenced
from nodes.insights.analyze import Analysis
from nodes.insights.profile import profile_of
from nodes.insights.profile_report import profile_json
from nodes.insights.recall import recall
from nodes.insights.report import finding_json
from nodes.insights.sketch import sketch_json
from nodes.insights.tried import tries
from nodes.ports import open_memory, open_source

MAX_CHARS = 6_000
"""Of one result: about 2,000 tokens of JSON."""
MAX_LISTED = 20
MAX_TRACES = 3
MAX_READS = 2
"""Other windows that one question may read."""
ENOUGH = "no more windows are read for one question"


class Tools:
    """The tools over what was read for one question.

    Attributes:
        ground: what the answer stands on.
    """

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._reads = 0

    def all(self) -> list[BaseTool]:
        """As a chat model is given them."""
        return [
            StructuredTool.from_function(
                coroutine=tool, name=tool.__name__, description=str(tool.__doc__)
            )
            for tool in (
                self.findings,
                self.finding,
                self.traces,
                self.lessons,
                self.compare,
                self.profile,
            )
        ]

    async def findings(self, words: str = "") -> str:
        """List what keeps failing in the window: ids, counts, rates, change. `words` narrows it."""
        facts = self.ground.facts
        matched = {one.finding.id: list(one.why) for one in facts.about}
        listed = [f for f in facts.findings if _says(f, words)] or list(facts.findings)
        ranked = sorted(listed, key=lambda f: f.id not in matched)
        rows: list[Json] = [
            {**_short(f), "about_the_question": [*matched.get(f.id, [])]}
            for f in ranked[:MAX_LISTED]
        ]
        left = len(ranked) - len(rows)
        return told("findings", {"read": _read(self.ground), "findings": rows, "left_out": left})

    async def finding(self, finding_id: str) -> str:
        """Tell all of one finding: cause, contrasts, interval, baseline, quotes, earlier tries."""
        found = self._find(finding_id)
        if found is None:
            return self._unknown(finding_id)
        ws = self.ground.ws
        seen = await asyncio.to_thread(recall, ws, found)
        evidence = await asyncio.to_thread(ws.ledger.knowledge.evidence, found.id)
        body = finding_json(found) | {
            "baseline": {"units": found.baseline_units, "units_total": found.baseline_total},
            "quotes": evidence.get("evidence"),
            "tried_before": [one.tried.sentence for one in seen.tries],
            "similar": [
                {"id": one.id, "title": one.title, "why": list(one.why)} for one in seen.findings
            ],
        }
        return told("finding", body)

    async def traces(self, finding_id: str) -> str:
        """Tell a few failing runs of a finding step by step, condensed, and one that went well."""
        found = self._find(finding_id)
        if found is None:
            return self._unknown(finding_id)
        evidence = self.ground.evidence.get(found.id)
        if evidence is None or not evidence.failing:
            return told("traces", {"none": "no run of it was kept for this answer"})
        runs: list[Json] = [
            {"failed": True, **sketch_json(one)} for one in evidence.failing[:MAX_TRACES]
        ]
        runs += [{"failed": False, **sketch_json(one)} for one in evidence.passing[:1]]
        return told("traces", {"finding": found.id, "runs": runs})

    async def lessons(self, words: str) -> str:
        """Search what was tried before for failures like these words, and what came of it."""
        ws = self.ground.ws
        try:
            found = await asyncio.to_thread(_lessons, ws, words)
        except ConfigError as error:
            found = {"none": one_line(str(error))}
        return told("lessons", found)

    async def compare(self, start: str, end: str) -> str:
        """Count the same failures in another window; `start` and `end` as RFC 3339 times."""
        try:
            window = [datetime.fromisoformat(one) for one in (start, end)]
        except ValueError:
            return told("compare", {"none": "start and end need RFC 3339 times with a zone"})
        if any(one.tzinfo is None for one in window) or window[0] >= window[1]:
            return told("compare", {"none": "needs times with a zone, start before end"})
        if self._reads >= MAX_READS:
            return told("compare", {"none": ENOUGH})
        self._reads += 1
        ws = self.ground.ws
        try:
            other = await read_window(ws, open_source(ws), window[0], window[1])
        except (SourceError, ConfigError) as error:
            return told("compare", {"none": one_line(str(error))})
        return told("compare", {"start": start, "end": end, **_compared(self.ground, other)})

    async def profile(self) -> str:
        """Tell calls, errors, p95, tokens and cost by tool, model and step, over the window."""
        if self._reads >= MAX_READS:
            return told("profile", {"none": ENOUGH})
        self._reads += 1
        ws, time = self.ground.ws, self.ground.facts.time
        try:
            query = TraceQuery(start=time.start, end=time.end)
            found, read = await profile_of(open_source(ws), query)
        except (SourceError, ConfigError) as error:
            return told("profile", {"none": one_line(str(error))})
        return told("profile", {"status": read.status, **profile_json(found)})

    def _find(self, finding_id: str) -> Finding | None:
        wanted = finding_id.strip().strip("[]`")
        return next((f for f in self.ground.facts.findings if f.id == wanted), None)

    def _unknown(self, finding_id: str) -> str:
        known = ", ".join(f.id for f in self.ground.facts.findings[:MAX_LISTED]) or "none"
        return told("nothing", {"none": f"no finding {one_line(finding_id, 40)}; known: {known}"})


def told(label: str, body: Json) -> str:
    """A result as a model is told it: masked, cut, fenced."""
    text = safe(json.dumps(body, ensure_ascii=False, default=str))
    if len(text) > MAX_CHARS:
        text = f"{text[:MAX_CHARS]} [... {len(text) - MAX_CHARS} more characters]"
    return fenced(label, text)


def _says(finding: Finding, words: str) -> bool:
    text = f"{finding.title} {finding.signature} {finding.diagnosis.summary}".lower()
    return all(word in text for word in words.lower().split())


def _short(finding: Finding) -> dict[str, Json]:
    return {
        "id": finding.id, "title": finding.title, "units": finding.units,
        "units_total": finding.units_total, "rate": list(finding.rate), "change": finding.change,
        "severity": finding.severity, "cause": finding.diagnosis.cause,
        "contrasts": [one.sentence for one in finding.contrasts[:2]],
        "trace": finding.exemplars[0][0] if finding.exemplars else None,
    }  # fmt: skip


def _read(ground: Ground) -> dict[str, Json]:
    facts = ground.facts
    return {
        "start": facts.time.start.isoformat(), "end": facts.time.end.isoformat(),
        "status": facts.read.status, "traces": facts.read.traces, "unit": facts.read.unit,
        "units_total": facts.read.units_total, "from_earlier_analyses": facts.read.stored,
    }  # fmt: skip


def _compared(ground: Ground, other: Analysis) -> dict[str, Json]:
    """Each finding's counts in both windows."""
    there = {f.signature: f for f in other.findings}
    here: Sequence[Finding] = ground.facts.findings
    rows: list[Json] = [
        {
            "id": f.id,
            "title": f.title,
            "asked": [f.units, f.units_total],
            "there": [there[f.signature].units if f.signature in there else 0, other.units_total],
        }
        for f in here[:MAX_LISTED]
    ]
    known = {f.signature for f in here}
    only: list[Json] = [
        {"title": f.title, "there": [f.units, f.units_total]}
        for f in other.findings[:MAX_LISTED]
        if f.signature not in known
    ]
    return {"status": other.status, "findings": rows, "only_there": only}


def _lessons(ws: Workspace, words: str) -> dict[str, Json]:
    memory = open_memory(ws)
    if memory is None:
        return {"none": "memory is off (memory.embedder)"}
    found = memory.search(words, kind="lesson", limit=MAX_LISTED, mend=False)
    ranked = tries(lessons_of(ws.ledger, [one.id for one in found.near]))
    return {
        "how": found.how,
        "tried": [
            {"lesson": one.lesson, "finding": one.finding_id, "signature": one.signature,
             "cause": one.cause, "what": one.sentence, "at": one.at.isoformat()}
            for one in ranked
        ],
    }  # fmt: skip
