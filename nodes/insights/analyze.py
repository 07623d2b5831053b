"""From a source of traces to ranked findings: a streaming map-reduce in bounded memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Literal

from configs.taxonomy import taxonomy
from contracts.errors import SourceError
from contracts.findings import Finding, FindingId, Signature, Symptom
from contracts.json_types import content_id
from contracts.protocols import TraceSource
from contracts.traces import ReadReport, ReadStatus, Skipped, TraceQuery, add_reports
from nodes.insights.compare import (
    Compared,
    Counted,
    compare,
    rate_interval,
    score,
    why_not_actionable,
)
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.diagnose import diagnose
from nodes.insights.facts import Facts
from nodes.insights.saved import ReadLog, Saved, fill_tally, tally_json
from nodes.insights.signature import split_templates
from nodes.insights.sketch import Evidence
from nodes.insights.tally import VARIOUS, Group, Tally

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

    Raises:
        UsageError: nothing there can be read at all.
        SourceError: the source is unreachable.
    """
    now = Tally(max_symptoms=max_symptoms_kept)
    read = await _tally(source, window, now, log, "window")
    if seen is not None:
        seen(read, len(now.units))
    before: Tally | None = None
    baseline_read: ReadReport | None = None
    if baseline is not None:
        before = Tally(samples=False)
        try:
            baseline_read = await _tally(baseline[0], baseline[1], before, log, "baseline")
        except SourceError as error:
            if log is not None:
                raise
            before = Tally(samples=False)
            baseline_read = _unread(baseline[0].name, error)
    groups, marks = _grouped(now, before)
    findings, evidence = _findings(
        groups, now, before, project, chronic_floor=chronic_floor, alpha=alpha, keep=max_exemplars
    )
    return Analysis(
        project=project,
        read=read,
        baseline_read=baseline_read,
        window=_window(window, now),
        baseline=_window(baseline[1], before) if baseline and before else None,
        unit="session" if now.sessions * 2 > now.traces else "trace",
        units_total=len(now.units),
        symptoms=tuple(_marked(symptom, marks) for symptom in now.symptoms()),
        findings=findings,
        evidence=evidence,
    )


async def _tally(
    source: TraceSource, query: TraceQuery, tally: Tally, log: ReadLog | None, part: str
) -> ReadReport:
    scans = Scans()
    report = ReadReport(source=source.name, format="none")
    earlier: ReadReport | None = None
    kept = await log.load(part) if log else None
    if kept is not None:
        fill_tally(tally, kept.tally)
        query = replace(query, cursor=kept.cursor)
        report = earlier = kept.read
    saved_at = monotonic()
    async for batch in source.window(query):
        for trace in batch.traces:
            tally.add(detect(trace, scans))
        report = batch.read if earlier is None else add_reports(earlier, batch.read)
        if log is not None and batch.cursor is not None and monotonic() - saved_at >= SAVE_EVERY_S:
            await log.save(part, Saved(cursor=batch.cursor, read=report, tally=tally_json(tally)))
            saved_at = monotonic()
    return report


def _unread(name: str, error: SourceError) -> ReadReport:
    skipped = (Skipped(path=name, why=str(error)),)
    return ReadReport(source=name, format="none", status="partial", skipped=skipped)


@dataclass(frozen=True, slots=True)
class _Pair:
    """One signature in the window and in the baseline."""

    now: Group
    before: Group


def _grouped(
    now: Tally, before: Tally | None
) -> tuple[dict[Signature, _Pair], dict[str, dict[str, str]]]:
    """Groups by final signature, and the mark of each template by key.

    Both windows together decide which templates belong together, so that they are split alike.
    """
    current = dict(now.groups())
    earlier = dict(before.groups()) if before else {}
    pairs: dict[Signature, _Pair] = {}
    marks: dict[str, dict[str, str]] = {}
    for key in {**current, **earlier}:
        sides = (current.get(key, {}), earlier.get(key, {}))
        counts: dict[str, int] = {}
        for side in sides:
            for template, group in side.items():
                counts[template] = counts.get(template, 0) + len(group.units)
        marks[key] = split_templates({t: c for t, c in counts.items() if t})
        for at, side in enumerate(sides):
            for template, group in side.items():
                name = Signature(key + marks[key].get(template, ""))
                pair = pairs.setdefault(name, _Pair(Group(), Group()))
                (pair.now, pair.before)[at].add(group)
    return pairs, marks


def _findings(
    groups: Mapping[Signature, _Pair],
    now: Tally,
    before: Tally | None,
    project: str,
    *,
    chronic_floor: float,
    alpha: float,
    keep: int,
) -> tuple[tuple[Finding, ...], dict[FindingId, Evidence]]:
    names = sorted(name for name, pair in groups.items() if pair.now.units)
    counts = [
        Counted(
            units=len(groups[name].now.units),
            total=len(now.units),
            baseline_units=len(groups[name].before.units) if before else None,
            baseline_total=len(before.units) if before else None,
        )
        for name in names
    ]
    findings = []
    evidence = {}
    passing = tuple(now.passing.items())
    for name, count, compared in zip(names, counts, compare(counts, alpha), strict=True):
        group = groups[name].now
        seen = Evidence(failing=tuple(group.sketches.items()), passing=passing)
        finding = _finding(name, count, compared, group, seen, project, chronic_floor, keep)
        findings.append(finding)
        evidence[finding.id] = seen
    findings.sort(key=lambda f: (-f.score, f.signature))
    return tuple(findings), evidence


def _finding(  # noqa: PLR0917  # one call, one place; the parts of one record
    name: Signature,
    count: Counted,
    compared: Compared,
    group: Group,
    seen: Evidence,
    project: str,
    chronic_floor: float,
    keep: int,
) -> Finding:
    kind, place, code = parts_of(name)
    severity = taxonomy().severity(kind)
    rate = rate_interval(count.units, count.total)
    why_not = why_not_actionable(count, compared, severity, chronic_floor)
    if place == VARIOUS:
        why_not = "too many different places to tell apart"
    return Finding(
        id=FindingId(content_id("f-", project, name)),
        kind=kind,
        signature=name,
        title=taxonomy().title(kind, place, code),
        units=count.units,
        units_total=count.total,
        rate=rate,
        baseline_units=count.baseline_units,
        baseline_total=count.baseline_total,
        change=compared.change,
        p_holm=compared.p_holm,
        severity=severity,
        diagnosis=diagnose(
            Facts(
                kind=kind,
                place=place,
                code=code,
                quotes=tuple(quote for _, _, quote in group.places.items()),
                failing=seen.failing,
                passing=seen.passing,
            )
        ),
        actionable=why_not is None,
        why_not=why_not,
        exemplars=tuple((trace, span) for trace, span, _ in group.places.items()[:keep]),
        first_seen=group.first_seen,
        last_seen=group.last_seen,
        score=score(severity, rate[1], compared.change),
    )


def parts_of(signature: str) -> tuple[str, str, str]:
    """Kind, place and code (empty where there is none) of a signature, without its mark."""
    kind, _, rest = signature.partition("~")[0].partition(":")
    place, _, code = rest.partition(":")
    return kind, place, code


def _marked(symptom: Symptom, marks: Mapping[str, Mapping[str, str]]) -> Symptom:
    mark = marks.get(symptom.signature, {}).get(symptom.template, "")
    return replace(symptom, signature=Signature(symptom.signature + mark)) if mark else symptom


def _window(query: TraceQuery, tally: Tally) -> Window:
    return Window(start=query.start or tally.first, end=query.end or tally.last)
