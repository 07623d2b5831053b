"""From a source of traces to ranked findings: a streaming map-reduce in bounded memory."""

from asyncio import to_thread
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Literal

from configs.settings import ScoreRule
from contracts.errors import SourceError
from contracts.findings import Finding, FindingId, Symptom
from contracts.protocols import TraceSource
from contracts.traces import ReadReport, ReadStatus, Skipped, TraceQuery, add_reports
from nodes.insights.choices import NONE, Choices
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.findings import Terms, found, parts_of
from nodes.insights.grouping import Grouping, Rest, grouped
from nodes.insights.parallel import Shared, jobs_for, tally_shares, usable_cores
from nodes.insights.saved import ReadLog, Saved, fill_tally, readable, tally_json
from nodes.insights.sketch import Evidence, Sketch
from nodes.insights.tally import Config, Tally

__all__ = ["Analysis", "Window", "analyze", "parts_of"]

CHRONIC_FLOOR = 0.02
ALPHA = 0.05
MAX_EXEMPLARS = 5
MAX_SYMPTOMS = 50_000
SAVE_EVERY_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span of time that was read; what the query left open is taken from the traces."""

    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What one analysis found."""

    project: str
    read: ReadReport
    baseline_read: ReadReport | None
    window: Window
    baseline: Window | None
    unit: Literal["session", "trace"]
    units_total: int
    symptoms: tuple[Symptom, ...]
    """At most `max_symptoms_kept`, by trace and time, with the signatures of their findings."""
    findings: tuple[Finding, ...]
    """Worst first."""
    evidence: Mapping[FindingId, Evidence]
    passing: tuple[Sketch, ...] = ()
    """A sample of traces in which nothing failed, lowest rank first."""
    one_in: int = 1
    """Of how many units of the window one is counted, drawn by hash; 1: all are."""
    rest: Rest | None = None
    """Signatures too many to tell apart, put together; None: there are none."""

    @property
    def status(self) -> ReadStatus:
        """The worse of both reads: a change rests on the baseline too."""
        if self.baseline_read is None:
            return self.read.status
        return add_reports(self.read, self.baseline_read).status


async def analyze(
    source: TraceSource,
    window: TraceQuery,
    *,
    project: str,
    baseline: tuple[TraceSource, TraceQuery] | None = None,
    chronic_floor: float = CHRONIC_FLOOR,
    alpha: float = ALPHA,
    max_exemplars: int = MAX_EXEMPLARS,
    max_symptoms_kept: int = MAX_SYMPTOMS,
    log: ReadLog | None = None,
    seen: Callable[[ReadReport, int], None] | None = None,
    known: Iterable[Finding] = (),
    choices: Choices = NONE,
    scores: Sequence[ScoreRule] = (),
    jobs: int | None = 1,
) -> Analysis:
    """Read a window, and a baseline if there is one, and say what keeps failing.

    Memory holds one batch of traces, one number a unit, and bounded samples and counts by
    signature; it does not grow with the number or size of traces otherwise. Our own runs are left
    out by the source. The order of traces and spans changes nothing.

    With a `log`, what was read is saved every quarter of a minute with the source's cursor, and an
    analysis that was killed goes on from there. Without one nothing could go on later: where only
    the baseline cannot be read, the window is still told, with a baseline read in part.

    `seen` is told the report and the number of units of the window before the baseline is read; it
    may raise, when the window is not worth an analysis yet.

    `known` are findings of earlier analyses: they keep their signatures, whatever the counts, and
    are not new again. `choices` are what people said: merged, kept apart, renamed.
    `scores` say which recorded scores and feedback are failures.

    `jobs` is how many processes read, where the source can be shared among them and there is no
    `log`; None: as many as there are cores, for large input. The result is the same.

    Raises:
        UsageError: nothing there can be read at all.
        SourceError: the source is unreachable.
    """
    how = _How(log, 1 if log is not None else jobs, tuple(scores))
    full = Config(max_symptoms=max_symptoms_kept)
    now, read = await _counted(source, window, full, "window", how)
    if seen is not None:
        seen(read, len(now.units))
    before: Tally | None = None
    baseline_read: ReadReport | None = None
    if baseline is not None:
        plain = Config(samples=False)
        try:
            before, baseline_read = await _counted(*baseline, plain, "baseline", how)
        except SourceError as error:
            if log is not None:
                raise
            before = Tally.of(plain)
            baseline_read = _unread(baseline[0].name, error)
    return _analysis(
        now, before, (window, read), (baseline[1], baseline_read) if baseline else None,
        _Asked(project, chronic_floor, alpha, max_exemplars, tuple(known), choices),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an analysis is asked for, beside the windows."""

    project: str
    chronic_floor: float
    alpha: float
    exemplars: int
    known: tuple[Finding, ...]
    choices: Choices


def _analysis(
    now: Tally,
    before: Tally | None,
    window: tuple[TraceQuery, ReadReport],
    baseline: tuple[TraceQuery, ReadReport | None] | None,
    asked: _Asked,
) -> Analysis:
    """What the counts say. Pure."""
    grouping = grouped(now, before, known=asked.known, choices=asked.choices)
    unit: Literal["session", "trace"] = "session" if now.sessions * 2 > now.traces else "trace"
    terms = Terms(
        project=asked.project, chronic_floor=asked.chronic_floor, alpha=asked.alpha,
        exemplars=asked.exemplars, unit=unit, known={f.signature: f for f in asked.known},
        choices=asked.choices,
    )  # fmt: skip
    findings, evidence = found(grouping, now, before, terms)
    return Analysis(
        project=asked.project,
        read=window[1],
        baseline_read=baseline[1] if baseline else None,
        window=_window(window[0], now),
        baseline=_window(baseline[0], before) if baseline and before else None,
        unit=unit,
        units_total=len(now.units),
        symptoms=tuple(_named(symptom, grouping) for symptom in now.symptoms()),
        findings=findings,
        evidence=evidence,
        passing=tuple(now.passing.items()),
        one_in=now.one_in(),
        rest=grouping.rest,
    )


def _named(symptom: Symptom, grouping: Grouping) -> Symptom:
    """The symptom under the signature of its finding."""
    name = grouping.name(symptom.signature, symptom.template)
    return symptom if name == symptom.signature else replace(symptom, signature=name)


@dataclass(frozen=True, slots=True)
class _How:
    """How windows are read and counted."""

    log: ReadLog | None
    jobs: int | None
    scores: tuple[ScoreRule, ...]


async def _counted(
    source: TraceSource, query: TraceQuery, config: Config, part: str, how: _How
) -> tuple[Tally, ReadReport]:
    """What a window counts, and what was read, by one process or several."""
    if isinstance(source, Shared):
        jobs = await to_thread(jobs_for, source, how.jobs, usable_cores())
        if jobs > 1:
            shared = await tally_shares(source, query, config, jobs, how.scores)
            if shared is not None:
                return shared
    tally = Tally.of(config)
    return tally, await _tally(source, query, tally, part, how)


async def _tally(
    source: TraceSource, query: TraceQuery, tally: Tally, part: str, how: _How
) -> ReadReport:
    log = how.log
    scans = Scans()
    report = ReadReport(source=source.name, format="none")
    earlier: ReadReport | None = None
    kept = await log.load(part) if log else None
    if kept is not None and readable(kept.tally):
        fill_tally(tally, kept.tally)
        query = replace(query, cursor=kept.cursor)
        report = earlier = kept.read
    saved_at = monotonic()
    async for batch in source.window(query):
        for trace in batch.traces:
            tally.add(detect(trace, scans, scores=how.scores))
        report = batch.read if earlier is None else add_reports(earlier, batch.read)
        if log is not None and batch.cursor is not None and monotonic() - saved_at >= SAVE_EVERY_S:
            await log.save(part, Saved(cursor=batch.cursor, read=report, tally=tally_json(tally)))
            saved_at = monotonic()
    return report


def _unread(name: str, error: SourceError) -> ReadReport:
    skipped = (Skipped(path=name, why=str(error)),)
    return ReadReport(source=name, format="none", status="partial", skipped=skipped)


def _window(query: TraceQuery, tally: Tally) -> Window:
    return Window(start=query.start or tally.first, end=query.end or tally.last)
