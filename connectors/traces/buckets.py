"""Token buckets, so that all jobs of a process together stay under a backend's rate limit.

A bucket never lets more than `requests` calls start in any window of `seconds`, wherever the window
begins (backends count fixed windows from the first call, sliding ones, or buckets of their own),
and still gives away 95 % of the limit or more when it is always asked.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

BURST_SHARE = 20  # one in so many calls of a window may start at once
MARGIN = 1 - 1e-6  # keeps the count under the limit where a window's end falls on a call
SHORTEST_WAIT_S = 0.001  # a rounding error never becomes a loop without a pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Of one endpoint class: at most `requests` calls in any `seconds`."""

    requests: int
    seconds: float

    def __post_init__(self) -> None:
        if self.requests < 1 or self.seconds <= 0:
            raise ValueError(f"no such limit: {self.requests!r} requests in {self.seconds!r} s")

    @property
    def burst(self) -> int:
        """Calls that may start at once after a rest."""
        return max(1, self.requests // BURST_SHARE)

    @property
    def interval_s(self) -> float:
        """Seconds between calls in the long run.

        In a window there start at most `burst` calls plus one an interval, and since the window is
        open at one end the sum stays below `requests + 1`.
        """
        return self.seconds / ((self.requests - self.burst + 1) * MARGIN)


class Bucket:
    """The bucket of one host, key and endpoint class. Safe across threads and event loops."""

    def __init__(self, limit: Limit, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._due = float("-inf")  # when the bucket would be full again, less one interval
        self._shut_until = float("-inf")

    def take(self) -> float:
        """Take a call and return 0, or take nothing and return the seconds until one may be had."""
        with self._lock:
            now = self._clock()
            interval = self._limit.interval_s
            free_at = max(self._due - (self._limit.burst - 1) * interval, self._shut_until)
            if now < free_at:
                return max(free_at - now, SHORTEST_WAIT_S)
            self._due = max(self._due, now) + interval
            return 0.0

    def shut(self, seconds: float) -> None:
        """Give nothing away for so long, and then from empty: the backend said so to some job."""
        with self._lock:
            until = self._clock() + seconds
            self._shut_until = max(self._shut_until, until)
            self._due = max(self._due, until + (self._limit.burst - 1) * self._limit.interval_s)

    def tighten(self, limit: Limit) -> None:
        """Of two limits for the same calls the slower one holds."""
        with self._lock:
            if limit.interval_s > self._limit.interval_s:
                self._limit = limit


@dataclass(slots=True)
class Buckets:
    """All buckets of a process, by host, hash of the key, and endpoint class."""

    clock: Callable[[], float] = time.monotonic
    _of: dict[tuple[str, str, str], Bucket] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, host: str, key: str, klass: str, limit: Limit) -> Bucket:
        """The one bucket of these calls; the key itself is not kept."""
        digest = hashlib.sha256(key.encode()).hexdigest()[:12]
        with self._lock:
            place = (host, digest, klass)
            bucket = self._of.get(place)
            if bucket is None:
                bucket = self._of[place] = Bucket(limit, clock=self.clock)
                return bucket
        bucket.tighten(limit)
        return bucket


SHARED = Buckets()
