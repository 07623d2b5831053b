"""G: cases that passed stably and may not get worse, each by itself. A failure is only a signal.

Of a block that stays missing: a lost first or screening run leaves G unknown, unless another case
is confirmed; a lost block of a test counts for the candidate nowhere: only what was observed can
confirm, and a case is cleared only if it still is with the lost blocks against the candidate. So
a missing run never makes an accept easier.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.gate import CaseState, ClaimState, Phase, PlannedCase
from nodes.gate.claims import passes
from nodes.gate.sizes import guarded_cases
from nodes.gate.stats import guard_p, holm
from nodes.gate.tally import Place, Tally, places_of, screen_places, tested_places

GUARD_LEVEL = 0.05
CLEARED_AT = 7  # candidate passes of ten, from which no p reaches .05


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """One protected case whose candidate failed, or one of the operator's own guards."""

    case: PlannedCase
    origin: Phase
    """Where its first candidate run was: "target", "sealed" or "guard"."""
    state: CaseState
    before: tuple[int, int] | None
    """(passes, runs) of the baseline in the test; None: not tested."""
    after: tuple[int, int]
    """(passes, runs) of the candidate in the test, else in its first and screening runs."""
    p: float | None
    """Of the test, after Holm."""
    ran: bool
    """Some block of phase "guard" was stored for it."""

    @property
    def secret(self) -> bool:
        """It is sealed: named by its fingerprint only."""
        return self.origin == "sealed" or self.case.hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Where the guards stand."""

    protected: int
    """Cases that must not get worse."""
    signals: int
    """Of these the candidate failed so many in the runs that were made anyway."""
    cases: tuple[Guarded, ...]
    waiting: tuple[Place, ...]
    """Open places of the next step; none: everything is settled."""
    unsure: bool
    """A missing run leaves open whether some case got worse."""

    @property
    def confirmed(self) -> tuple[Guarded, ...]:
        """Cases that are shown to have got worse."""
        return tuple(each for each in self.cases if each.state == "confirmed")

    @property
    def state(self) -> ClaimState:
        """Where G stands, critical cases aside."""
        if self.confirmed:
            return "not_held"
        return "unknown" if self.waiting or self.unsure else "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """Ten fresh blocks of one case, as far as they are needed."""

    k_b: int
    k_c: int
    seen: int
    lost: int
    waiting: tuple[Place, ...]

    @property
    def p(self) -> float:
        """Of what was observed; 1 once cleared.

        In ten blocks or fewer p <= .05 means a drop of .4 or more, so none is asked for besides.
        """
        if self.k_c >= CLEARED_AT or not self.seen:
            return 1.0
        return guard_p(self.k_c, self.k_b, self.seen)

    @property
    def p_missing(self) -> float:
        """The same with every lost block against the candidate."""
        blocks = self.seen + self.lost
        if self.k_c >= CLEARED_AT or not blocks:
            return 1.0
        return guard_p(self.k_c, self.k_b + self.lost, blocks)


def guards(tally: Tally, sealed_read: int) -> Guards:
    """Read the guards; of the sealed cases the first `sealed_read` of the plan gave signals."""
    plan = tally.plan
    first = tuple(places_of(plan, "guard"))
    signals = _signals(tally, sealed_read)
    waiting = tally.open(first)
    unsure = any(tally.lost(place) for place in first)
    going_on: Sequence[tuple[PlannedCase, Phase]] = ()
    if not waiting:
        screened = len(signals) > 1  # a single signal is tested at once
        screens = [place for case, _ in signals for place in screen_places(case)]
        waiting = tally.open(screens) if screened else ()
        unsure = unsure or (screened and any(tally.lost(place) for place in screens))
        if not waiting:
            going_on = [s for s in signals if not screened or _failed(tally, screen_places(s[0]))]
    tests = [_test(tally, case) for case, _ in going_on]
    waiting = waiting or tuple(place for test in tests for place in test.waiting)
    adjusted = holm([test.p for test in tests])
    against = holm([test.p_missing for test in tests])
    unsure = unsure or any(w <= GUARD_LEVEL < p for p, w in zip(adjusted, against, strict=True))
    tested = {
        case.case: (test, p, worst <= GUARD_LEVEL)
        for (case, _), test, p, worst in zip(going_on, tests, adjusted, against, strict=True)
    }
    signalled = {case for case, _ in signals}
    quiet: list[tuple[PlannedCase, Phase]] = [
        (case, "guard") for case in plan.guards if case not in signalled
    ]
    return Guards(
        protected=len(guarded_cases(plan)),
        signals=len(signals),
        cases=tuple(
            _guarded(tally, case, origin, tested.get(case.case), settled=not waiting)
            for case, origin in (*signals, *quiet)
        ),
        waiting=waiting,
        unsure=unsure and not waiting,
    )


def _signals(tally: Tally, sealed_read: int) -> list[tuple[PlannedCase, Phase]]:
    """Protected cases that the candidate failed, in the order of the plan, each with its phase."""
    plan = tally.plan
    found: list[tuple[PlannedCase, Phase]] = []
    groups: tuple[tuple[Phase, Sequence[PlannedCase]], ...] = (
        ("target", plan.targets),
        ("sealed", plan.sealed[:sealed_read]),
        ("guard", plan.guards),
    )
    for phase, cases in groups:
        for case in cases:
            # Later rounds over the listed cases come after the guards, and raise no signal.
            repeats = 1 if phase == "sealed" and plan.listed_rounds else case.repeats
            places = [Place(phase=phase, case=case, index=i) for i in range(repeats)]
            if case.protected and _failed(tally, places):
                found.append((case, phase))
    return found


def _failed(tally: Tally, places: Sequence[Place]) -> bool:
    return any(block.candidate.result == "fail" for block in tally.observed(places))


def _test(tally: Tally, case: PlannedCase) -> _Test:
    """As many blocks of the test as it takes to clear the case, else all ten.

    They run in lots: as many at once as are still missing to the pass that clears it.
    """
    places = tested_places(case)
    lot = CLEARED_AT
    while True:
        waiting = tally.open(places[:lot])
        blocks = tally.observed(places[:lot])
        k_b, k_c = passes(blocks)
        if waiting or k_c >= CLEARED_AT or lot == len(places):
            lost = lot - len(waiting) - len(blocks)
            return _Test(k_b=k_b, k_c=k_c, seen=len(blocks), lost=lost, waiting=waiting)
        lot = min(len(places), lot + CLEARED_AT - k_c)


def _guarded(
    tally: Tally,
    case: PlannedCase,
    origin: Phase,
    tested: tuple[_Test, float, bool] | None,
    *,
    settled: bool,
) -> Guarded:
    first = [Place(phase="guard", case=case, index=0)] if origin == "guard" else []
    before_test = [*first, *screen_places(case)]
    runs = tally.observed(before_test)
    ran = any(tally.next_attempt(place) != 0 for place in (*before_test, *tested_places(case)))
    if tested is not None:
        test, p, worse_if_lost = tested
        state: CaseState = "signal"
        if settled:
            missing: CaseState = "missing" if worse_if_lost else "cleared"
            state = "confirmed" if p <= GUARD_LEVEL else missing
        return Guarded(
            case=case, origin=origin, state=state, before=(test.k_b, test.seen),
            after=(test.k_c, test.seen), p=p if settled else None, ran=ran,
        )  # fmt: skip
    after = (passes(runs)[1], len(runs))
    return Guarded(
        case=case, origin=origin, state=_untested(tally, before_test, origin, settled=settled),
        before=None, after=after, p=None, ran=ran,
    )  # fmt: skip


def _untested(tally: Tally, places: Sequence[Place], origin: Phase, *, settled: bool) -> CaseState:
    """A case that is not in the test: quiet from the start, cleared by its screen, or open."""
    quiet = origin == "guard" and not _failed(tally, places[:1])
    if quiet:
        return "passed" if tally.block(places[0]) is not None else "missing"
    if any(tally.lost(place) for place in places):
        return "missing"
    return "cleared" if settled else "signal"
