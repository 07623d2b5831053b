"""Weeks of virtual time, filled with real runs of the project's own agents; who failed is known.

Runs are recorded once a condition (`Pools`), all of them failing in that way or none at all. A week
is then laid out by drawing from these pools: each drawn run gets ids of its own and is moved to its
virtual moment, otherwise it stays as it was recorded and read. So the failures of a week, and their
causes, are known exactly, and the traces are those of agents.
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from connectors.traces.files import FilesSource
from contracts.traces import (
    ReadReport,
    SourceInfo,
    Trace,
    TraceBatch,
    TraceId,
    TraceQuery,
)
from examples.refund_agent.back_office import Weather
from examples.refund_agent.record import record as record_refunds
from examples.refund_agent.requests import generate
from examples.research_desk.library import Trouble
from examples.research_desk.record import questions
from examples.research_desk.record import record as record_desk

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
WEEK = timedelta(days=7)

Condition = Literal[
    "clean", "index_down", "withdrawn", "unpaid", "desk_full", "short_years", "short_years_new",
    "refund_clean", "payment_down", "tracking_cut",
]  # fmt: skip
"""What is wrong with every run of a pool; the two "clean" ones: nothing."""

DESK: Mapping[Condition, tuple[Trouble, str]] = {
    "clean": (Trouble(), "13"),
    "index_down": (Trouble(index_down=1.0), "13"),
    "withdrawn": (Trouble(withdrawn=1.0), "13"),
    "unpaid": (Trouble(unpaid=1.0), "13"),
    "desk_full": (Trouble(desk_full=1.0), "13"),
    "short_years": (Trouble(), "14"),
    "short_years_new": (Trouble(new_wording=True), "14"),
}
"""Conditions of the research desk: what goes wrong in the library, and the prompt's version."""
REFUNDS: Mapping[Condition, Weather] = {
    "refund_clean": Weather(address_check=False, quota_used_up=0.0),
    "payment_down": Weather(
        hot_shards=frozenset(range(11)), first_payment_fails=1.0, later_payment_fails=1.0,
        address_check=False, quota_used_up=0.0,
    ),
    "tracking_cut": Weather(
        cut_carriers=frozenset({"Norda", "Kurio", "Blitzpost", "Parvo", "Tellus", "Westline",
                                "Ostra"}),
        address_check=False, quota_used_up=0.0,
    ),
}  # fmt: skip
_HARNESS = Path(__file__).resolve().parents[1] / "examples" / "refund_agent" / "repo"


class Pools:
    """Recorded runs by condition, read as any files are; made when they are first asked for."""

    def __init__(self, folder: Path, size: int, seed: int = 7) -> None:
        self._folder = folder
        self._size = size
        self._seed = seed
        self._made: dict[Condition, tuple[Trace, ...]] = {}

    def __getitem__(self, condition: Condition) -> tuple[Trace, ...]:
        """At least half of `size` runs of one condition."""
        if condition not in self._made:
            path = self._folder / f"{condition}.jsonl"
            self._record(condition, path)
            self._made[condition] = tuple(asyncio.run(_read(path)))
        return self._made[condition]

    def _record(self, condition: Condition, path: Path) -> None:
        if condition in DESK:
            trouble, prompt = DESK[condition]
            asked = questions(self._size, self._seed)
            record_desk(asked, path, seed=self._seed, trouble=trouble, prompt_version=prompt)
            return
        wished = [
            one
            for one in generate(self._size * 6, self._seed)
            # whole ids only, and for a failing pool only requests that meet the failure
            if "A-" in one.message and _meets(condition, one.message)
        ]
        record_refunds(
            wished[: self._size], _HARNESS, path, weather=REFUNDS[condition], seed=self._seed
        )


def _meets(condition: Condition, message: str) -> bool:
    low = message.lower()
    refund = any(word in low for word in ("refund", "money", "reimburse"))
    tracked = any(word in low for word in ("where", "track", "parcel", "package", "carrier"))
    if condition == "payment_down":
        return refund
    return tracked and not refund and "label" not in low if condition == "tracking_cut" else True


async def _read(path: Path) -> list[Trace]:
    source = FilesSource([path])
    return [trace async for batch in source.window(TraceQuery()) for trace in batch.traces]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A share of the runs of a week that fail in one way, where and when it holds."""

    condition: Condition
    share: float
    since: timedelta = timedelta(0)
    """From when on in the week."""
    until: timedelta = WEEK
    hours: frozenset[int] = frozenset(range(24))
    """Hours of the day (UTC) in which it happens."""


def day_and_night(at: datetime) -> float:
    """Traffic of an ordinary service: nights and weekends are quiet."""
    day = 1.0 + 0.9 * math.sin((at.hour - 8) / 24 * 2 * math.pi)
    return day * (0.4 if at.weekday() >= 5 else 1.0)


def always_one(_at: datetime) -> str:
    """The release of an agent that nobody touches."""
    return "1.3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One window of virtual time."""

    traces: int
    faults: tuple[Fault, ...] = ()
    base: Condition = "clean"
    start: datetime = MONDAY
    length: timedelta = WEEK
    weight: Callable[[datetime], float] = day_and_night
    """How busy a moment is, relative to others."""
    release: Callable[[datetime], str] = always_one


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Traces of a window, and what was planted in which of them."""

    traces: tuple[Trace, ...]
    planted: Mapping[TraceId, Condition]
    """Failing runs only."""
    origin: Mapping[TraceId, Trace]
    """The recorded run that each was drawn from."""


def lay_out(plan: Plan, pools: Pools, rng: random.Random, *, whole: bool = True) -> Window:
    """Draw a window: moments by the weight of their hour, failures by their shares.

    Without `whole` the runs have their root span only, for counting what is known of them already.
    """
    hours = [plan.start + timedelta(hours=h) for h in range(round(plan.length / _HOUR))]
    weights = [plan.weight(at) for at in hours]
    traces = []
    planted: dict[TraceId, Condition] = {}
    origin: dict[TraceId, Trace] = {}
    for hour in rng.choices(hours, weights, k=plan.traces):
        at = hour + timedelta(seconds=rng.random() * 3600)
        condition = _condition(plan, at, rng)
        number = rng.getrandbits(120)
        drawn = rng.choice(pools[condition])
        kept = drawn if whole else replace(drawn, spans=drawn.spans[:1])
        trace = stamped(kept, number, at, plan.release(at))
        origin[trace.id] = drawn
        traces.append(trace)
        if condition != plan.base:
            planted[trace.id] = condition
    ordered = tuple(sorted(traces, key=lambda t: t.started_at))
    return Window(traces=ordered, planted=planted, origin=origin)


_HOUR = timedelta(hours=1)


def _condition(plan: Plan, at: datetime, rng: random.Random) -> Condition:
    draw = rng.random()
    for fault in plan.faults:
        since = at - plan.start
        if not (fault.since <= since < fault.until and at.hour in fault.hours):
            continue
        if draw < fault.share:
            return fault.condition
        draw -= fault.share
    return plan.base


def stamped(trace: Trace, number: int, at: datetime, release: str) -> Trace:
    """The run with ids, times and release of its own; a session holds one run."""
    key = TraceId(f"{number:032x}")
    moved = at - trace.started_at
    spans = tuple(
        replace(
            span, trace_id=key, started_at=span.started_at + moved,
            ended_at=None if span.ended_at is None else span.ended_at + moved,
        )
        for span in trace.spans
    )  # fmt: skip
    return replace(trace, id=key, session_id=f"s-{number:x}", spans=spans, release=release)


class Held:
    """A source that holds the traces of a window."""

    name = "planted"

    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = traces

    async def check(self) -> SourceInfo:
        """It is always there."""
        return SourceInfo(source=self.name, reachable=True, reader="memory")

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        """All of them, whatever the query."""
        del query
        spans = sum(len(trace.spans) for trace in self._traces)
        report = ReadReport(
            source=self.name, format="memory", traces=len(self._traces), spans=spans
        )
        yield TraceBatch(traces=tuple(self._traces), read=report)

    async def trace(self, trace_id: TraceId) -> Trace:
        """One of them."""
        return next(trace for trace in self._traces if trace.id == trace_id)


def numbers(seed: int) -> random.Random:
    """The random numbers of one repetition."""
    return random.Random(f"planted|{seed}")  # noqa: S311  (made-up traffic, no secret)
