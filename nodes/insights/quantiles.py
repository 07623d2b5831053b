"""Quantiles of many numbers in little memory, within a stated error, whatever their order.

Numbers above zero are counted in buckets whose bounds grow by a fixed factor, so a quantile is
within `RELATIVE_ERROR` of the number that holds that rank. Two histograms are merged by adding
counts: the result does not depend on order or partition. From a microsecond to a century there are
about 850 buckets, so memory has a bound.
"""

import math
from dataclasses import dataclass, field

RELATIVE_ERROR = 0.02
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG = math.log(_GROWTH)
SMALLEST, LARGEST = 1e-6, 3.2e9
"""What lies outside is counted at the bound."""


@dataclass(slots=True)
class Histogram:
    """Counts of numbers that are zero or above."""

    zeros: int = 0
    buckets: dict[int, int] = field(default_factory=dict)
    count: int = 0
    millionths: int = 0
    """The sum, in whole millionths, so that adding up in another order gives the same."""
    largest: float = 0.0

    def add(self, value: float) -> None:
        """Count a number; below zero it counts as zero (clocks that go back)."""
        self.count += 1
        if value < SMALLEST:
            self.zeros += 1
            return
        self.millionths += round(value * 1e6)
        self.largest = max(self.largest, value)
        at = math.ceil(math.log(min(value, LARGEST)) / _LOG)
        self.buckets[at] = self.buckets.get(at, 0) + 1

    def merge(self, other: "Histogram") -> None:
        """Take in what another one counted."""
        self.zeros += other.zeros
        self.count += other.count
        self.millionths += other.millionths
        self.largest = max(self.largest, other.largest)
        for at, count in other.buckets.items():
            self.buckets[at] = self.buckets.get(at, 0) + count

    def quantile(self, share: float) -> float | None:
        """The number below which this share lies, within `RELATIVE_ERROR`; None: there are none."""
        if not self.count:
            return None
        rank = max(1, math.ceil(share * self.count))
        if rank <= self.zeros:
            return 0.0
        seen = self.zeros
        for at in sorted(self.buckets):
            seen += self.buckets[at]
            if seen >= rank:
                # The middle of a bucket is within the error of both its bounds.
                return min(2 * _GROWTH**at / (_GROWTH + 1), self.largest)
        return self.largest

    @property
    def mean(self) -> float | None:
        """The mean; None: there are none."""
        return self.total / self.count if self.count else None

    @property
    def total(self) -> float:
        """The sum."""
        return self.millionths / 1e6
