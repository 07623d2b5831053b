"""Hold cases against the runs that were recorded: their own evidence, and clean ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from configs.settings import ScoreRule
from contracts.gate import Case
from contracts.protocols import TraceSource
from contracts.traces import ReadReport, Trace, TraceId, TraceQuery
from memory.families import family_key
from nodes.cases.soundness import Soundness, check_case, check_ordinary
from nodes.cases.witness import Witness, witness_of_detected
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.lowest import Lowest, rank
from nodes.insights.signature import place_part

CLEAN: Final = 100
"""Clean runs that are kept, drawn by hash."""
ALIKE: Final = 10
"""Clean runs that are kept of each family of a case beside them."""
MOST_ALIKE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Cases held against what was recorded."""

    cases: tuple[Soundness, ...]
    """One for each case, in their order."""
    no_evidence: frozenset[str]
    """Ids of cases whose own run is not in what was read; the clean runs alone speak of them."""
    clean: int
    """Clean runs that they were held against."""
    read: ReadReport


@dataclass(slots=True)
class _Kept:
    """What is kept of a read: bounded, and the same for every order of the traces."""

    wanted: frozenset[str]
    families: frozenset[str]
    scores: Sequence[ScoreRule]
    evidence: dict[str, Witness] = field(default_factory=dict)
    clean: Lowest[Witness] = field(default_factory=lambda: Lowest(CLEAN))
    alike: dict[str, Lowest[Witness]] = field(default_factory=dict)
    scans: Scans = field(default_factory=Scans)

    def see(self, trace: Trace) -> None:
        detected = detect(trace, self.scans, scores=self.scores)
        if trace.id in self.wanted:
            self.evidence[trace.id] = witness_of_detected(detected)
        if detected.failed or trace.own or trace.pending:
            return
        order = (rank(trace.unit), rank(trace.id))
        seen = witness_of_detected(detected)
        if seen.family in self.families and (
            seen.family in self.alike or len(self.alike) < MOST_ALIKE // ALIKE
        ):
            self.alike.setdefault(seen.family, Lowest(ALIKE)).put(trace.id, order, seen)
        self.clean.put(trace.id, order, seen)

    def runs(self, family: str) -> tuple[Witness, ...]:
        """Clean runs for a case of this family, each once."""
        near = self.alike[family].items() if family in self.alike else []
        found = {one.trace_id: one for one in (*near, *self.clean.items())}
        return tuple(found.values())


async def check_recorded(
    cases: Sequence[Case],
    source: TraceSource,
    window: TraceQuery,
    *,
    scores: Sequence[ScoreRule] = (),
) -> Checked:
    """Read a window once and hold every case against it. Memory does not grow with the window.

    A sealed case of no issue comes from a run that went well, so it has to hold there. Any other
    case that names its run has to fail there.

    Raises:
        UsageError: nothing there can be read at all.
        SourceError: the source is unreachable.
    """
    kept = _Kept(
        frozenset(map(_trace, cases)) - {TraceId("")},
        frozenset(family_key(case.input) for case in cases),
        scores,
    )
    report = ReadReport(source=source.name, format="none")
    async for batch in source.window(window):
        for trace in batch.traces:
            kept.see(trace)
        report = batch.read
    return Checked(
        cases=tuple(_checked(case, kept) for case in cases),
        no_evidence=frozenset(case.id for case in cases if _trace(case) not in kept.evidence),
        clean=len(kept.clean),
        read=report,
    )


def _checked(case: Case, kept: _Kept) -> Soundness:
    own = kept.evidence.get(_trace(case))
    runs = kept.runs(family_key(case.input))
    if own is not None and is_ordinary(case):
        return check_ordinary(case, own, runs)
    return check_case(case, own, runs, alike=_alike(case, runs))


def is_ordinary(case: Case) -> bool:
    """Whether the case was made of a run that went well."""
    return "sealed" in case.tags and case.issue is None and case.origin.startswith("trace:")


def _alike(case: Case, runs: Iterable[Witness]) -> frozenset[str]:
    """Tools of the clean runs at the place of the case's issue."""
    if case.issue is None:
        return frozenset()
    place = case.issue.partition("~")[0].split(":")[1] if ":" in case.issue else case.issue
    tools = {tool for run in runs for tool in run.tools}
    return frozenset(tool for tool in tools if place in (tool, place_part(tool)))


def _trace(case: Case) -> TraceId:
    """Id of the run that the case was made of; empty where it was made by hand."""
    kind, _, name = case.origin.partition(":")
    return TraceId(name if kind == "trace" else "")


def told(checked: Checked) -> Mapping[str, int]:
    """Counts for a summary: sound, unsound, with a refused assertion, without evidence."""
    return {
        "sound": sum(one.sound for one in checked.cases),
        "unsound": sum(not one.sound for one in checked.cases),
        "refused_assertions": sum(len(one.refused) for one in checked.cases),
        "without_evidence": len(checked.no_evidence),
    }
