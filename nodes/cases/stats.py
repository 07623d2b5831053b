"""What a project's cases can prove, how often they were used, and how many more it would take."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from contracts.gate import Case
from memory.case_runs import Passes
from memory.cases import fingerprint
from memory.sealed import SealedCase
from nodes.gate.flaky import DEFAULT_DISCORDANCE, discordance, stability
from nodes.gate.sizes import MOST_CASES, POWER, STANDARD_FAMILIES, level_of
from nodes.gate.stats import required_cases, smallest_provable_margin

DISCORDANCES: Final = (0.02, 0.05, 0.10, 0.20)
LEVELS: Final = (0.05, 0.01)
_LARGEST_ROW = 400  # cases: above it the row takes seconds, and every margin is a few points

Profile = Literal["starter", "standard", "strict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings that say what is asked of the cases."""

    profile: Profile
    margin: float
    uses: int
    max_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetState:
    """What the ledger knows of the sealed set."""

    epoch: int
    manifest: str
    """SHA-256 over the manifest."""
    listed: Sequence[SealedCase]
    uses: int
    """Gates that ran any case that is sealed now, or one of its family."""
    unused: int = 0
    """Sealed families of which no gate ran a case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStats:
    """Counts of families unless the name says cases."""

    cases: int
    families: int
    tags: Mapping[str, int]
    """Cases by tag, as they are used now."""
    weak: int
    """Cases that an agent that does nothing could pass."""
    sealed_cases: int
    sealed: int
    retired: int
    epoch: int
    manifest: str
    uses: int
    uses_allowed: int
    unused: int
    """Sealed families that no gate ran; where the uses are spent a plan may still use these."""
    level: float | None
    """Of the next use; None: every use is spent."""
    stable_pass: int
    stable_fail: int
    flaky: int
    unknown: int
    """Cases with fewer than ten stored runs of the harness as it is now."""
    discordance: float
    assumed: bool
    """No sealed case has two stored runs, so its share is assumed."""
    margin_asked: float
    margin: float
    """Smallest harm that can be excluded with power .80 in one reading, 0..1; 1.0: none."""
    needed: int | None
    """Sealed families for the margin asked at this level; None: more than `MOST_CASES`."""
    profile_asked: Profile
    profile: Profile
    max_runs: int
    row: tuple[tuple[float, float, float], ...]
    """(discordance, margin at .05, margin at .01) for so many families; docs/gate.md."""

    @property
    def more(self) -> int | None:
        """Families to be sealed for the margin asked; 0: enough; None: unknown, above a limit."""
        return None if self.needed is None else max(0, self.needed - self.sealed)


def case_stats(
    cases: Sequence[Case], state: SetState, runs: Mapping[str, Passes], rules: Rules
) -> CaseStats:
    """Count and compute; pure.

    Args:
        cases: the casebook, with the tags of now.
        state: of the sealed set.
        runs: stored runs of the harness as it is now, by fingerprint.
        rules: the settings.
    """
    sealed = [case for case in cases if "sealed" in case.tags]
    n = len({case.family for case in sealed})
    found = discordance(runs, {fingerprint(case) for case in sealed})
    share = DEFAULT_DISCORDANCE if found is None else found
    spent = state.uses >= rules.uses
    level = None if spent else level_of(uses=rules.uses, use=state.uses + 1)
    asked = level or level_of(uses=rules.uses, use=1)  # of fresh cases, where these are used up
    kinds = Counter(stability(runs.get(fingerprint(case), _NONE)) for case in cases)
    return CaseStats(
        cases=len(cases), families=len({case.family for case in cases}),
        tags=Counter(tag for case in cases for tag in sorted(case.tags)),
        weak=sum(case.weak for case in cases), sealed_cases=len(sealed), sealed=n,
        retired=sum(line.retired_at is not None for line in state.listed), epoch=state.epoch,
        manifest=state.manifest, uses=state.uses, uses_allowed=rules.uses, unused=state.unused,
        level=level,
        stable_pass=kinds["stable_pass"], stable_fail=kinds["stable_fail"],
        flaky=kinds["flaky"], unknown=kinds["unknown"],
        discordance=share, assumed=found is None, margin_asked=rules.margin,
        margin=1.0 if spent else smallest_provable_margin(n, share, asked, POWER),
        needed=_needed(rules.margin, share, asked), profile_asked=rules.profile,
        profile=rules.profile if n >= STANDARD_FAMILIES and not spent else "starter",
        max_runs=rules.max_runs, row=_row(min(n, _LARGEST_ROW)),
    )  # fmt: skip


_NONE = Passes(passes=0, runs=0)


def _needed(margin: float, share: float, level: float) -> int | None:
    return required_cases(margin, share, level, POWER, limit=MOST_CASES)


def _row(n: int) -> tuple[tuple[float, float, float], ...]:
    if n == 0:
        return ()
    at = [[smallest_provable_margin(n, psi, a, POWER) for a in LEVELS] for psi in DISCORDANCES]
    return tuple((psi, a, b) for psi, (a, b) in zip(DISCORDANCES, at, strict=True))


def first_line(stats: CaseStats) -> str:
    """What the sealed cases can prove, for somebody who is no statistician."""
    asked = f"{_points(stats.margin_asked)} of 100"
    more = _more(stats)
    if stats.sealed == 0:
        return f"no case is sealed, so nothing can be said of unseen requests; {more}"
    cases = _count(stats.sealed, "sealed case")
    if stats.sealed_cases != stats.sealed:
        families = _count(stats.sealed, "family", "families")
        cases = f"{families} of {stats.sealed_cases} sealed cases"
    if stats.level is None:
        had = "its one use" if stats.uses_allowed == 1 else f"its {stats.uses_allowed} uses"
        if stats.unused:
            return (
                f"{cases}: the set has had {had}, but for {stats.unused} that no gate ran; {more}"
            )
        return f"{cases}, but the set has had {had} and is left out now; {more}"
    if stats.margin >= 1.0:
        return f"{cases} cannot exclude any harm that matters; {more}"
    shown = f"{cases} can show that an edit loses no more than {_points(stats.margin)} of 100"
    if stats.margin <= stats.margin_asked:
        return f"{shown}, as is asked" if stats.margin == stats.margin_asked else (
            f"{shown}; {asked} is asked"
        )  # fmt: skip
    return f"{shown}; {more}"


def _more(stats: CaseStats) -> str:
    asked = f"{_points(stats.margin_asked)} of 100"
    fresh = " fresh" if stats.level is None else ""
    if stats.needed is None:
        return f"{asked} needs more than {MOST_CASES}{fresh} cases"
    if stats.level is None:
        return f"{stats.needed} fresh ones would show {asked}"
    if stats.more == 0:  # the power is saw-toothed: these few are unlucky, and the next ones not
        return f"{asked} is just out of reach, a few more would show it"
    return (
        f"{stats.more} more would show {asked}"
        if stats.sealed
        else f"{stats.more} would show {asked}"
    )


def lines(stats: CaseStats) -> tuple[str, ...]:
    """Everything else, one fact a line, then the row of margins."""
    tags = ", ".join(f"{count} {tag}" for tag, count in sorted(stats.tags.items()))
    said = [
        f"cases: {stats.cases} in {_count(stats.families, 'family', 'families')} ({tags or 'none'})"
        + (f"; {stats.weak} weak: an agent that does nothing could pass them" * bool(stats.weak)),
        f"sealed: {stats.sealed_cases} in {_count(stats.sealed, 'family', 'families')},"
        f" {stats.retired} retired; epoch {stats.epoch}, manifest {stats.manifest[:12]}",
        _level_line(stats),
        f"runs: {stats.stable_pass} pass stably, {stats.stable_fail} fail stably,"
        f" {stats.flaky} are flaky, {stats.unknown} have fewer than ten runs of this harness",
        f"runs that differ: {stats.discordance:.0%} of the cases"
        + (" (assumed: no sealed case ran twice)" if stats.assumed else " (from stored runs)"),
        _profile_line(stats),
    ]
    if 2 * stats.sealed > stats.max_runs:
        said.append(
            f"gate.max_runs: {stats.max_runs} runs pay for {stats.max_runs // 2} of these cases"
        )
    return (*said, *_row_lines(stats))


def _level_line(stats: CaseStats) -> str:
    had = f"uses: {stats.uses} of {stats.uses_allowed}"
    if stats.level is None:
        left = f"only {stats.unused} that no gate has run are" if stats.unused else "nothing is"
        return f"{had}; {left} left until fresh cases are sealed"
    return f"{had}; the next gate tests at level {stats.level:.2g}"


def _profile_line(stats: CaseStats) -> str:
    if stats.profile == stats.profile_asked:
        if stats.profile == "starter":
            return 'profile: starter; the best verdict is inconclusive, "known cases only"'
        return f"profile: {stats.profile}"
    why = (
        f"fewer than {STANDARD_FAMILIES} sealed families"
        if stats.sealed < STANDARD_FAMILIES
        else "the sealed set is used up"
    )
    return (
        f"profile: starter instead of {stats.profile_asked} ({why}); the best verdict is"
        ' inconclusive, "known cases only"'
    )


def _row_lines(stats: CaseStats) -> list[str]:
    if not stats.row:
        return []
    n = min(stats.sealed, _LARGEST_ROW)
    head = "".join(f"{f'{share:.0%}':>12}" for share, _, _ in stats.row)
    cells = "".join(f"{_cell(a) + '/' + _cell(b):>12}" for _, a, b in stats.row)
    return [
        f"smallest harm that {_count(n, 'sealed case')} can exclude, at level .05/.01, by the share"
        " of cases whose runs differ:",
        f"  differ      {head}",
        f"  harm        {cells}",
    ]


def _cell(margin: float) -> str:
    return "-" if margin >= 1.0 else f"{margin:.2f}".removeprefix("0")


def _points(margin: float) -> str:
    return f"{100 * margin:g}"


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
