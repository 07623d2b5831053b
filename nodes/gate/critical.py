"""Critical cases: ten runs of the candidate and no failure; what fails anyway needs a name."""

from dataclasses import dataclass

from contracts.gate import CaseState, PlannedCase
from nodes.gate.claims import passes
from nodes.gate.tally import Place, Tally, beside_places

_BESIDE_LOT = 5  # blocks at once, since one failure without the edit answers the question


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalCase:
    """One critical case."""

    case: PlannedCase
    state: CaseState
    """passed, failed, exempt, or missing: not all of its runs were observed (yet)."""
    before: tuple[int, int] | None
    """(passes, runs) without the edit; run only beside a candidate that failed."""
    after: tuple[int, int]
    waiting: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Critical:
    """Where the critical cases stand."""

    cases: tuple[CriticalCase, ...]
    waiting: tuple[Place, ...]
    lost: bool
    """A run stayed missing, so that some case did not have its clean runs."""

    @property
    def failed(self) -> tuple[CriticalCase, ...]:
        """What blocks the edit."""
        return tuple(each for each in self.cases if each.state == "failed")


def critical(tally: Tally) -> Critical:
    """Read the critical cases.

    After a failure the baseline is run beside fresh candidate runs, five blocks and if need be
    five more, until it fails too: so that a person sees whether the failure is new. It blocks all
    the same, but for a case that a named person exempted, and only where the baseline fails too.
    """
    exempt = {each.case for each in tally.plan.exempt}
    cases = [_read(tally, case, exempt=case.case in exempt) for case in tally.plan.critical]
    blocked = [each for each in cases if each.state == "failed"]
    waiting = tuple(place for each in blocked or cases for place in each.waiting)
    return Critical(
        cases=tuple(cases),
        waiting=waiting,
        lost=not waiting and any(each.state == "missing" for each in cases),
    )


def _read(tally: Tally, case: PlannedCase, *, exempt: bool) -> CriticalCase:
    own = [Place(phase="critical", case=case, index=i) for i in range(case.repeats)]
    runs, more = tally.observed(own), tally.open(own)
    _, k_c = passes(runs)
    if k_c == len(runs):
        state: CaseState = "passed" if k_c == case.repeats else "missing"
        return CriticalCase(
            case=case, state=state, before=None, after=(k_c, len(runs)), waiting=more
        )
    places = beside_places(case)
    lot = _BESIDE_LOT
    if not tally.open(places[:lot]) and _baseline_passed(tally, places[:lot]):
        lot = len(places)
    waiting, beside = tally.open(places[:lot]), tally.observed(places[:lot])
    k_b, also_c = passes(beside)
    state = "failed"
    if exempt and (k_b < len(beside) or waiting):
        state = "exempt" if k_b < len(beside) and len(runs) == case.repeats else "missing"
    return CriticalCase(
        case=case, state=state, before=(k_b, len(beside)) if beside else None,
        after=(k_c + also_c, len(runs) + len(beside)),
        waiting=(*more, *waiting) if exempt else waiting,
    )  # fmt: skip


def _baseline_passed(tally: Tally, places: tuple[Place, ...]) -> bool:
    """Whether no observed run without the edit failed."""
    blocks = tally.observed(places)
    return passes(blocks)[0] == len(blocks)
