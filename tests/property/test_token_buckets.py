"""Token buckets: never over the limit in any window, and never far below it when always asked."""

import bisect
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.traces.buckets import Bucket, Buckets, Limit


@dataclass
class FakeClock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


limits = st.builds(
    Limit, requests=st.integers(1, 2000), seconds=st.floats(0.5, 86_400, allow_nan=False)
)


def most_in_a_window(times: list[float], seconds: float) -> int:
    """The largest number of calls in any window [t, t + seconds)."""
    return max(bisect.bisect_left(times, t + seconds) - i for i, t in enumerate(times))


@settings(max_examples=60)
@given(limits, st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=40), st.data())
def test_no_window_holds_more_calls_than_the_limit(
    limit: Limit, rests: list[float], data: st.DataObject
) -> None:
    clock = FakeClock()
    bucket = Bucket(limit, clock=clock)
    times: list[float] = []
    for rest in rests:
        clock.now += rest * limit.seconds  # a pause of up to three windows, then a rush
        for _ in range(data.draw(st.integers(0, 2 * limit.burst + 2))):
            while (wait := bucket.take()) > 0:
                clock.now += wait
            times.append(clock.now)
    if times:
        assert most_in_a_window(times, limit.seconds) <= limit.requests


@settings(max_examples=60)
@given(limits)
def test_who_always_asks_gets_95_percent_of_the_limit_or_more_and_never_more_than_all(
    limit: Limit,
) -> None:
    clock = FakeClock()
    bucket = Bucket(limit, clock=clock)
    begun = clock.now
    times = []
    while clock.now < begun + 4 * limit.seconds:
        wait = bucket.take()
        clock.now += wait
        times += [clock.now] if wait == 0 else []
    assert len(times) >= 0.95 * 4 * limit.requests - 1
    assert most_in_a_window(times, limit.seconds) <= limit.requests


def test_a_shut_bucket_gives_nothing_to_any_job_and_starts_empty() -> None:
    clock = FakeClock()
    buckets = Buckets(clock=clock)
    limit = Limit(requests=100, seconds=10)
    one, other = (buckets.of("host", "key", "general", limit) for _ in range(2))
    assert one is other
    one.shut(30)
    assert other.take() == 30
    clock.now += 30
    assert other.take() == 0
    assert other.take() > 0


def test_buckets_are_apart_by_host_key_and_class_and_the_slower_limit_holds() -> None:
    clock = FakeClock()
    buckets = Buckets(clock=clock)
    limit = Limit(requests=2, seconds=10)
    one = buckets.of("a", "key", "general", limit)
    others = [
        buckets.of(*place, limit)
        for place in (("b", "key", "general"), ("a", "yek", "general"), ("a", "key", "metrics"))
    ]
    assert one.take() == 0
    assert all(other.take() == 0 for other in others)
    buckets.of("a", "key", "general", Limit(requests=1, seconds=1000))
    clock.now += 6
    assert one.take() == 0
    assert one.take() > 900
    assert "yek" not in repr(buckets)
