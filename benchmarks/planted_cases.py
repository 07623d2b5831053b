"""The ledger of planted failures: what each scenario plants, and what an analysis should say."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from benchmarks.planted_world import MONDAY, WEEK, Condition, Fault, Plan, day_and_night
from contracts.findings import Change, Factor, Remedy

TRACES = 600
"""Of a week."""
TEXT: frozenset[Remedy] = frozenset({"skill", "instructions"})
OUTSIDE: frozenset[Remedy] = frozenset({"tool", "infrastructure", "data"})
REMEDIES: Mapping[Condition, frozenset[Remedy]] = {
    "index_down": OUTSIDE,
    "withdrawn": OUTSIDE,
    "unpaid": OUTSIDE,
    "desk_full": TEXT,  # what to do instead of a service that does not answer
    "short_years": TEXT,
    "short_years_new": TEXT,
    "payment_down": TEXT,
    "tracking_cut": frozenset({"tool"}),
}
"""Where the fix of each planted cause belongs, by the agents' own code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One planted cause, and how it should be told."""

    conditions: tuple[Condition, ...]
    changes: frozenset[Change]
    """Any of these is right."""
    contrast: tuple[Factor, str] | None = None
    """What should be named: a factor, and what its value or sentence holds."""
    also_true: frozenset[Factor] = frozenset()
    """Further factors that go with the failure by its nature; naming them is no mistake."""
    actionable: bool | None = True
    """None: either is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Two windows and what is in them."""

    name: str
    what: str
    window: Plan
    baseline: Plan
    causes: tuple[Cause, ...]

    def scaled(self, traces: int) -> "Scenario":
        """The same with fewer traces, where it does not ask for few already."""
        size = min(traces, self.window.traces)
        before = round(self.baseline.traces * size / self.window.traces)
        return replace(
            self,
            window=replace(self.window, traces=size),
            baseline=replace(self.baseline, traces=before),
        )


_BEFORE = Plan(traces=TRACES, start=MONDAY - WEEK)
_NEW: frozenset[Change] = frozenset({"new"})
_USUAL: frozenset[Change] = frozenset({"same", "unknown"})
_PEAK = frozenset(range(12, 16))
_MIDWEEK = timedelta(days=3, hours=12)


def busy_days(at: datetime) -> float:
    """A window of working hours mostly, unlike the week before."""
    return day_and_night(at) * (4.0 if 11 <= at.hour < 17 else 1.0)


def released_midweek(at: datetime) -> str:
    """A release that came in the middle of the window."""
    return "1.3" if at - MONDAY < _MIDWEEK else "1.4"


def _plan(*faults: Fault, traces: int = TRACES, base: Condition = "clean") -> Plan:
    return Plan(traces=traces, faults=faults, base=base)


def _before(*faults: Fault, traces: int = TRACES, base: Condition = "clean") -> Plan:
    return replace(_BEFORE, traces=traces, faults=faults, base=base)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="tool bug",
        what="a tool stops answering in the middle of the week, in 2 % of all runs",
        window=_plan(Fault(condition="desk_full", share=0.04, since=_MIDWEEK)),
        baseline=_BEFORE,
        causes=(Cause(conditions=("desk_full",), changes=_NEW, also_true=frozenset({"weekday"})),),
    ),
    Scenario(
        name="rate shift",
        what="a known failure goes from 2 % to 7 %",
        window=_plan(Fault(condition="withdrawn", share=0.07)),
        baseline=_before(Fault(condition="withdrawn", share=0.02)),
        causes=(Cause(conditions=("withdrawn",), changes=frozenset({"risen"})),),
    ),
    Scenario(
        name="season",
        what="fails at peak hours in both weeks alike; the second has more traffic at these hours",
        window=replace(
            _plan(Fault(condition="index_down", share=0.2, hours=_PEAK)), weight=busy_days
        ),
        baseline=_before(
            Fault(condition="index_down", share=0.2, hours=_PEAK), traces=2 * TRACES
        ),
        causes=(
            Cause(
                conditions=("index_down",), changes=_USUAL, contrast=("hour", "1"),
                also_true=frozenset({"load"}), actionable=None,
            ),
        ),
    ),
    Scenario(
        name="look-alikes",
        what="two causes in one tool whose messages share all but two words",
        window=_plan(
            Fault(condition="withdrawn", share=0.05), Fault(condition="unpaid", share=0.03)
        ),
        baseline=_BEFORE,
        causes=(
            Cause(conditions=("withdrawn",), changes=_NEW),
            Cause(conditions=("unpaid",), changes=_NEW),
        ),
    ),
    Scenario(
        name="silent",
        what="a tool answers `ok: false` with a status that is fine",
        window=_plan(Fault(condition="index_down", share=0.03)),
        baseline=_BEFORE,
        causes=(Cause(conditions=("index_down",), changes=_NEW),),
    ),
    Scenario(
        name="prompt version",
        what="a new prompt version, given to 15 % of the runs, makes wrong arguments",
        window=replace(
            _plan(Fault(condition="short_years", share=0.15)), release=released_midweek
        ),
        baseline=_BEFORE,
        causes=(
            Cause(
                conditions=("short_years",), changes=_NEW, contrast=("prompt", "14"),
                also_true=frozenset({"arguments"}),
            ),
        ),
    ),
    Scenario(
        name="low traffic",
        what="twelve runs a week, of which one fails",
        window=_plan(Fault(condition="withdrawn", share=0.085), traces=12),
        baseline=_before(traces=12),
        causes=(
            Cause(
                conditions=("withdrawn",), changes=frozenset({"new", "same", "unknown"}),
                actionable=None,
            ),
        ),
    ),
    Scenario(
        name="reworded",
        what="one cause, told in other words since the tool's newer release",
        window=_plan(
            Fault(condition="short_years", share=0.08, until=_MIDWEEK),
            Fault(condition="short_years_new", share=0.08, since=_MIDWEEK),
        ),
        baseline=_BEFORE,
        causes=(
            Cause(
                conditions=("short_years", "short_years_new"), changes=_NEW,
                contrast=("prompt", "14"), also_true=frozenset({"arguments"}),
            ),
        ),
    ),
    Scenario(
        name="another agent",
        what="the refund desk: payments rise, tracking answers are cut off since midweek",
        window=_plan(
            Fault(condition="payment_down", share=0.08),
            Fault(condition="tracking_cut", share=0.06, since=_MIDWEEK),
            base="refund_clean",
        ),
        baseline=_before(Fault(condition="payment_down", share=0.02), base="refund_clean"),
        causes=(
            Cause(conditions=("payment_down",), changes=frozenset({"risen"})),
            Cause(
                conditions=("tracking_cut",), changes=_NEW, also_true=frozenset({"weekday"})
            ),
        ),
    ),
    Scenario(
        name="nothing",
        what="two weeks in which nothing fails",
        window=_plan(),
        baseline=_BEFORE,
        causes=(),
    ),
)  # fmt: skip
