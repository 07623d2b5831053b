"""Sort stored blocks into the plan's places: settled, still to run, missing for good."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from contracts.gate import Block, GatePlan, Phase, PlannedCase
from nodes.gate.sizes import guarded_cases

MOST_ATTEMPTS = 3  # a block with a missing run is repeated at most twice
MOST_MISSING = 0.05  # of the target blocks, and of the sealed blocks
SCREEN = range(1, 4)  # of phase "guard": candidate runs of a case that signalled beside others
TEST = range(4, 14)  # of phase "guard": fresh blocks of a case that is tested
BESIDE = 10  # fresh blocks of a critical case that failed: does it fail without the edit too?
PHASES: tuple[Phase, ...] = ("target", "sealed", "critical", "guard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One block of the plan, whatever the number of attempts it takes."""

    phase: Phase
    case: PlannedCase
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What the stored blocks say about each place of the plan."""

    plan: GatePlan
    attempts: Mapping[tuple[Phase, str, int], Sequence[Block]] = field(default_factory=dict)
    """Stored blocks by phase, case and index, in the order of their attempts."""
    problem: str | None = None
    """How the stored blocks differ from what the plan allows; None: they do not."""

    def block(self, place: Place) -> Block | None:
        """The observed block of a place; None: nothing was observed (yet, or for good)."""
        last = self._last(place)
        return None if last is None or last.missing else last

    def next_attempt(self, place: Place) -> int | None:
        """The number of the attempt to run; None: the place is settled."""
        last = self._last(place)
        if last is None:
            return 0
        if last.missing and last.attempt + 1 < MOST_ATTEMPTS:
            return last.attempt + 1
        return None

    def lost(self, place: Place) -> bool:
        """Whether every attempt is used up and none was observed."""
        return self.next_attempt(place) is None and self.block(place) is None

    @property
    def lost_blocks(self) -> int:
        """Blocks of any phase that stay missing."""
        return sum(
            len(stored) == MOST_ATTEMPTS and stored[-1].missing for stored in self.attempts.values()
        )

    def _last(self, place: Place) -> Block | None:
        stored = self.attempts.get((place.phase, place.case.case, place.index))
        return stored[-1] if stored else None

    def open(self, places: Sequence[Place]) -> tuple[Place, ...]:
        """The places that still have to run."""
        return tuple(place for place in places if self.next_attempt(place) is not None)

    def missing_share(self, phase: Phase) -> float:
        """Blocks missing for good as a share of all blocks planned in the phase, at most 1.

        Where sealed cases run in rounds, of all rounds or of the first, whichever is more: the
        first alone decides the claim about unseen cases.
        """
        shares = [self._share_lost(tuple(places_of(self.plan, phase)))]
        if phase == "sealed" and self.plan.listed_rounds:
            shares.append(self._share_lost(round_of(self.plan, phase, 0)))
        return max(shares)

    def _share_lost(self, places: Sequence[Place]) -> float:
        return sum(self.lost(place) for place in places) / len(places) if places else 0.0

    def observed(self, places: Iterable[Place]) -> tuple[Block, ...]:
        """The observed blocks of these places."""
        return tuple(block for place in places if (block := self.block(place)) is not None)


def cases_of(plan: GatePlan, phase: Phase) -> tuple[PlannedCase, ...]:
    """The planned cases of a phase, in the order in which they run."""
    if phase == "target":
        return plan.targets
    if phase == "sealed":
        return plan.sealed
    return plan.critical if phase == "critical" else plan.guards


def places_of(plan: GatePlan, phase: Phase) -> Iterator[Place]:
    """Every place of a phase, round by round; of guards their first run, the rest hangs on it."""
    cases = cases_of(plan, phase)
    for index in range(max((case.repeats for case in cases), default=0)):
        yield from round_of(plan, phase, index)


def round_of(plan: GatePlan, phase: Phase, index: int) -> tuple[Place, ...]:
    """One block of every case that has that many, in the order of the plan."""
    return tuple(
        Place(phase=phase, case=case, index=index)
        for case in cases_of(plan, phase)
        if index < case.repeats
    )


def screen_places(case: PlannedCase) -> tuple[Place, ...]:
    """The screen of a guarded case."""
    return tuple(Place(phase="guard", case=case, index=i) for i in SCREEN)


def tested_places(case: PlannedCase) -> tuple[Place, ...]:
    """The test of a guarded case."""
    return tuple(Place(phase="guard", case=case, index=i) for i in TEST)


def beside_places(case: PlannedCase) -> tuple[Place, ...]:
    """The blocks that show how a failed critical case does without the edit."""
    first = case.repeats
    return tuple(Place(phase="critical", case=case, index=first + i) for i in range(BESIDE))


def runs_alone(place: Place) -> bool:
    """Whether the candidate alone runs."""
    if place.phase == "critical":
        return place.index < place.case.repeats
    return place.phase == "guard" and place.index < TEST.start


def tally(plan: GatePlan, blocks: Sequence[Block]) -> Tally:
    """Sort the blocks. The order in which they are given does not matter."""
    stored: dict[tuple[Phase, str, int], dict[int, Block]] = defaultdict(dict)
    for block in blocks:
        attempts = stored[(block.phase, block.case, block.index)]
        if attempts.setdefault(block.attempt, block) != block:
            return Tally(plan=plan, problem=f"{_name(plan, block)} is stored twice and differs")
    known = _known_cases(plan)
    for (phase, name, index), attempts in sorted(stored.items()):
        place = _place(plan, known.get((phase, name)), phase, index)
        problem = "is not in the plan" if place is None else _attempts_problem(place, attempts)
        if problem is not None:
            return Tally(
                plan=plan, problem=f"{_name(plan, next(iter(attempts.values())))} {problem}"
            )
    ordered = {key: [found[i] for i in sorted(found)] for key, found in stored.items()}
    return Tally(plan=plan, attempts=ordered)


def _known_cases(plan: GatePlan) -> dict[tuple[Phase, str], PlannedCase]:
    """The cases that may run in each phase; in "guard" the protected ones of other phases too."""
    known: dict[tuple[Phase, str], PlannedCase] = {
        ("guard", case.case): case for case in guarded_cases(plan)
    }
    for phase in PHASES:
        known |= {(phase, case.case): case for case in cases_of(plan, phase)}
    return known


def _place(plan: GatePlan, case: PlannedCase | None, phase: Phase, index: int) -> Place | None:
    """The place of this index; None: no block of the plan may stand there."""
    if case is None or index < 0:
        return None
    last = case.repeats
    if phase == "critical":
        last += BESIDE
    elif phase == "guard":
        last = TEST.stop if case.protected else case.repeats
        if index < SCREEN.start and case not in plan.guards:
            return None
    return Place(phase=phase, case=case, index=index) if index < last else None


def _name(plan: GatePlan, block: Block) -> str:
    place = f"{block.phase} block {block.index}"
    open_ids = {case.case for case in (*plan.targets, *plan.guards, *plan.critical)}
    sealed = {case.case for case in plan.sealed}
    sealed |= {case.case for case in (*plan.guards, *plan.critical) if case.hidden}
    # The id of a sealed case never reaches a report; one that the plan does not know could be it.
    return f"{place} of {block.case}" if block.case in open_ids - sealed else place


def _attempts_problem(place: Place, attempts: Mapping[int, Block]) -> str | None:
    """A block may only be repeated because a run of it was missing, and at most twice."""
    numbers = sorted(attempts)
    if numbers != list(range(len(numbers))) or len(numbers) > MOST_ATTEMPTS:
        return f"has the attempts {numbers!r}"
    if any(not attempts[number].missing for number in numbers[:-1]):
        return "was repeated although it had been observed"
    if any((block.baseline is None) != runs_alone(place) for block in attempts.values()):
        return "does not have the arms that the plan asks for"
    return None
