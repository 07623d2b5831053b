"""Sort stored blocks into the plan's places: settled, still to run, missing for good."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from contracts.gate import Block, GatePlan, Phase, PlannedCase

MOST_ATTEMPTS = 3  # a block with a missing run is repeated at most twice
MOST_MISSING = 0.05  # of the target blocks, and of the sealed blocks


_PHASES: tuple[Phase, ...] = ("target", "sealed", "critical")


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

    def _last(self, place: Place) -> Block | None:
        stored = self.attempts.get((place.phase, place.case.case, place.index))
        return stored[-1] if stored else None

    def open(self, places: Sequence[Place]) -> tuple[Place, ...]:
        """The places that still have to run."""
        return tuple(place for place in places if self.next_attempt(place) is not None)

    def missing_share(self, phase: Phase) -> float:
        """Blocks missing for good as a share of all blocks planned in the phase."""
        places = tuple(places_of(self.plan, phase))
        return sum(self.lost(place) for place in places) / len(places) if places else 0.0


def cases_of(plan: GatePlan, phase: Phase) -> tuple[PlannedCase, ...]:
    """The planned cases of a phase, in the order in which they run; guards have none yet."""
    if phase == "target":
        return plan.targets
    if phase == "sealed":
        return plan.sealed
    return plan.critical if phase == "critical" else ()


def places_of(plan: GatePlan, phase: Phase) -> Iterator[Place]:
    """Every place of a phase, round by round."""
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


def tally(plan: GatePlan, blocks: Sequence[Block]) -> Tally:
    """Sort the blocks. The order in which they are given does not matter."""
    stored: dict[tuple[Phase, str, int], dict[int, Block]] = defaultdict(dict)
    for block in blocks:
        attempts = stored[(block.phase, block.case, block.index)]
        if attempts.setdefault(block.attempt, block) != block:
            return Tally(plan=plan, problem=f"{_name(block)} is stored twice and differs")
    known = {
        (place.phase, place.case.case, place.index)
        for phase in _PHASES
        for place in places_of(plan, phase)
    }
    for key, attempts in stored.items():
        problem = None if key in known else "is not in the plan"
        problem = problem or _attempts_problem(attempts)
        if problem is not None:
            return Tally(plan=plan, problem=f"{_name(next(iter(attempts.values())))} {problem}")
    ordered = {key: [found[i] for i in sorted(found)] for key, found in stored.items()}
    return Tally(plan=plan, attempts=ordered)


def _name(block: Block) -> str:
    place = f"{block.phase} block {block.index}"
    # The id of a sealed case never reaches a report.
    return place if block.phase == "sealed" else f"{place} of {block.case}"


def _attempts_problem(attempts: Mapping[int, Block]) -> str | None:
    """A block may only be repeated because a run of it was missing, and at most twice."""
    numbers = sorted(attempts)
    if numbers != list(range(len(numbers))) or len(numbers) > MOST_ATTEMPTS:
        return f"has the attempts {numbers!r}"
    if any(not attempts[number].missing for number in numbers[:-1]):
        return "was repeated although it had been observed"
    if any((block.baseline is None) != (block.phase == "critical") for block in attempts.values()):
        return "does not have the arms that the plan asks for"
    return None
