"""A stretch of time in halves, for a server that cannot answer for the whole of it."""

import time
from typing import Final

SHORTEST_NS: Final = 60_000_000_000
FIRST_NS: Final = 1_577_836_800_000_000_000  # the start of 2020: before the first Langfuse
DAY_NS: Final = 86_400_000_000_000


def halves(low: int | None, high: int | None) -> list[tuple[int, int]]:
    """(older half, newer half) on whole milliseconds; empty where it is too short to halve.

    An open end is closed first: at the start of 2020, and a day from now.
    """
    begin = FIRST_NS if low is None else low
    end = time.time_ns() + DAY_NS if high is None else high
    if end - begin <= SHORTEST_NS:
        return []
    middle = begin + (end - begin) // 2
    middle -= middle % 1_000_000
    return [(begin, middle), (middle, end)]
