"""Groups to findings: rate, change, diagnosis, contrasts, and the order in which they are shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from configs.taxonomy import taxonomy
from contracts.findings import Contrast, Finding, FindingId, Signature
from contracts.json_types import content_id
from contracts.traces import SpanId, TraceId
from nodes.insights.choices import NONE, Choices
from nodes.insights.compare import (
    Compared,
    Counted,
    compare,
    rate_interval,
    reasons,
    score,
    why_not_actionable,
)
from nodes.insights.contrast import MIN_CLEAN, Load, Units, contrasts, load_of
from nodes.insights.diagnose import diagnose
from nodes.insights.facts import Facts
from nodes.insights.group import Group
from nodes.insights.grouping import TEMPLATES_KEPT, Grouping, Pair, Rest
from nodes.insights.matched import Matching, Stratum, matching
from nodes.insights.sketch import Evidence
from nodes.insights.tally import NO_HOUR, VARIOUS, Tally

CONTRASTED = 50
"""Findings of highest rank for which failing units are set against passing ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an analysis is asked for."""

    project: str
    chronic_floor: float
    alpha: float
    exemplars: int
    unit: str
    known: Mapping[Signature, Finding]
    """Of earlier analyses."""
    choices: Choices = NONE


@dataclass(frozen=True, slots=True)
class _Windows:
    """The window and its baseline, as counts by hour."""

    now: Tally
    before: Tally | None
    how: Matching | None
    """None: there is no baseline, or it is empty."""
    totals: Mapping[int, tuple[int, int]]
    """Units of the window and of the baseline by stratum."""


def found(
    grouping: Grouping, now: Tally, before: Tally | None, terms: Terms
) -> tuple[tuple[Finding, ...], dict[FindingId, Evidence]]:
    """The findings, worst first, and the condensed traces behind each."""
    windows = _windows(now, before)
    names = sorted(name for name, pair in grouping.pairs.items() if pair.now.units)
    counts = [_counted(name, grouping.pairs[name], windows, terms) for name in names]
    compared = compare(counts, terms.alpha, windows.how)
    passing = tuple(now.passing.items())
    evidence: dict[FindingId, Evidence] = {}
    findings: list[Finding] = []
    for name, count, change in zip(names, counts, compared, strict=True):
        pair = grouping.pairs[name]
        seen = Evidence(failing=tuple(pair.now.sketches.items()), passing=passing)
        finding = _finding(name, pair, count, change, seen, terms)
        if grouping.rest is not None and finding.signature.split(":")[1] == VARIOUS:
            finding = _of_the_rest(finding, grouping.rest)
        findings.append(_said_of_samples(finding, now, before))
        evidence[finding.id] = seen
    findings.sort(key=lambda f: (-f.score, f.signature))
    setting = _Setting(now, grouping)
    top = [replace(f, contrasts=setting.contrasts(f, terms.alpha)) for f in findings[:CONTRASTED]]
    return (*top, *findings[CONTRASTED:]), evidence


def _windows(now: Tally, before: Tally | None) -> _Windows:
    if before is None or not before.units:
        return _Windows(now, before, None, {})
    hours, earlier = _hours(now.units.values()), _hours(before.units.values())
    timeless = hours.pop(NO_HOUR, 0) + earlier.pop(NO_HOUR, 0)
    how = matching(hours, earlier, timeless)
    totals: dict[int, tuple[int, int]] = {}
    for at, side in enumerate((now.units, before.units)):
        for hour in side.values():
            stratum = _stratum(how, hour)
            held = totals.get(stratum, (0, 0))
            totals[stratum] = (held[0] + (at == 0), held[1] + (at == 1))
    return _Windows(now, before, how, totals)


def _hours(units: Iterable[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for hour in units:
        counts[hour] = counts.get(hour, 0) + 1
    return counts


def _stratum(how: Matching, hour: int) -> int:
    """Units without times make a stratum of their own, unless hours do not matter."""
    return -1 if hour == NO_HOUR and how.match != "none" else how.stratum(hour)


def _counted(name: Signature, pair: Pair, windows: _Windows, terms: Terms) -> Counted:
    before, how = windows.before, windows.how
    strata: dict[int, list[int]] = {}
    if before is not None and how is not None:
        for at, (tally, group) in enumerate(((windows.now, pair.now), (before, pair.before))):
            for unit in group.units:
                stratum = _stratum(how, tally.units[unit])
                strata.setdefault(stratum, [0, 0])[at] += 1
    return Counted(
        units=len(pair.now.units),
        total=len(windows.now.units),
        baseline_units=len(pair.before.units) if before is not None else None,
        baseline_total=len(before.units) if before is not None else None,
        strata=tuple(
            Stratum(k1, windows.totals[stratum][0], k0, windows.totals[stratum][1])
            for stratum, (k1, k0) in sorted(strata.items())
        ),
        seen_before=_seen_before(terms.known.get(name), windows.now),
    )


def _seen_before(earlier: Finding | None, now: Tally) -> bool:
    """Whether an earlier analysis saw the finding before this window began."""
    if earlier is None or earlier.first_seen is None or now.first is None:
        return False
    return earlier.first_seen < now.first


def _finding(  # noqa: PLR0917  # one call, one place; the parts of one record
    name: Signature, pair: Pair, count: Counted, compared: Compared, seen: Evidence, terms: Terms
) -> Finding:
    kind, place, code = parts_of(name)
    severity = taxonomy().severity(kind)
    rate = rate_interval(count.units, count.total)
    why_not = why_not_actionable(count, compared, severity, terms.chronic_floor)
    if place == VARIOUS:
        why_not = "too many different places to tell apart"
    group, earlier = pair.now, terms.known.get(name)
    named = terms.choices.title(name)
    return Finding(
        id=FindingId(content_id("f-", terms.project, name)),
        kind=kind,
        signature=name,
        title=named if named is not None else taxonomy().title(kind, place, code),
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
        exemplars=_exemplars(group, terms.exemplars),
        first_seen=group.first_seen,
        last_seen=group.last_seen,
        score=score(severity, rate[1], compared.change),
        reasons=reasons(count, compared, severity, terms.unit),
        merged=tuple(sorted(pair.merged, key=lambda m: (-m.units, m.signature))),
        symptoms_kept=group.symptoms,
        templates=_templates(pair, earlier),
    )


def _exemplars(group: Group, keep: int) -> tuple[tuple[TraceId, SpanId], ...]:
    """Of different units first, so that one long session does not stand for all."""
    entries = group.places.entries()
    order: dict[int, int] = {}
    turns = []
    for at, (_, (unit, _), _) in enumerate(entries):
        order[unit] = order.get(unit, 0) + 1
        turns.append((order[unit], at))
    return tuple(entries[at][2][:2] for _, at in sorted(turns)[:keep])


def _templates(pair: Pair, earlier: Finding | None) -> tuple[str, ...]:
    """Its message templates; the one that led in earlier analyses still leads."""
    remembered = earlier.templates[:1] if earlier is not None else ()
    return tuple(dict.fromkeys((*remembered, *pair.leading())))[:TEMPLATES_KEPT]


def _of_the_rest(finding: Finding, rest: Rest) -> Finding:
    said = (
        f"stands for signatures too many to tell apart: {rest.signatures} of all kinds, in "
        f"{rest.units} units together"
    )
    return replace(finding, reasons=(*finding.reasons, said))


def _said_of_samples(finding: Finding, now: Tally, before: Tally | None) -> Finding:
    """Where only a share of the units is counted, say so."""
    if now.level == 0 and (before is None or before.level == 0):
        return finding
    said = f"counted in one of {now.one_in()} units, drawn by hash"
    if before is not None and before.level != now.level:
        said += f", and in one of {before.one_in()} of the baseline"
    return replace(finding, reasons=(*finding.reasons, said))


class _Setting:
    """Everything that failing units are set against, worked out once."""

    def __init__(self, now: Tally, grouping: Grouping) -> None:
        self._grouping = grouping
        self._load: Load = load_of(now.minutes, now.width)
        entries = [entry for entry in now.traits.entries() if entry[1][0] in now.units]
        self._ranks = [order[0] for _, order, _ in entries]
        self._units = Units([traits for _, _, traits in entries], self._load)
        failed = {unit for pair in grouping.pairs.values() for unit in pair.now.units}
        self._clean = self._mask(failed)

    def contrasts(self, finding: Finding, alpha: float) -> tuple[Contrast, ...]:
        """What sets the finding's failing units apart from passing ones, or from all others."""
        pair = self._grouping.pairs[finding.signature]
        failing = pair.now.traits.items()
        clean = self._clean.bit_count() >= MIN_CLEAN
        mask = self._clean if clean else self._mask(pair.now.units.keys())
        return contrasts(
            failing, self._units, mask, load=self._load, place=parts_of(finding.signature)[1],
            alpha=alpha, sampled=len(pair.now.units) > len(failing), clean=clean,
        )  # fmt: skip

    def _mask(self, without: Iterable[int]) -> int:
        out = set(without)
        return sum(1 << i for i, unit in enumerate(self._ranks) if unit not in out)


def parts_of(signature: str) -> tuple[str, str, str]:
    """Kind, place and code (empty where there is none) of a signature, without its mark."""
    kind, _, rest = signature.partition("~")[0].partition(":")
    place, _, code = rest.partition(":")
    return kind, place, code
