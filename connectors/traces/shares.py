"""Several processes read the same files, each its own share of the traces: who takes what.

A trace belongs to one share by its id alone, so it is whole there, wherever its spans stand. What
is said of a piece (a torn line, spans without an id) is said by one share, and `joined` puts it
where one process would have.
"""

import zlib
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from connectors.traces.reading import MAX_SKIPPED, Reading
from contracts.traces import ReadReport


class CannotShare(Exception):
    """The files can only be read by one process; nothing is lost, and it starts over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One of `of` shares, counted from 0."""

    index: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.of:
            raise ValueError(f"no share: {self.index!r} of {self.of!r}")

    def has(self, trace_id: str) -> bool:
        """Whether the trace belongs to it."""
        return zlib.crc32(trace_id.encode("utf-8", "surrogatepass")) % self.of == self.index

    def tells(self, mentioned: Set[str], number: int) -> bool:
        """Whether it is the one that says what is wrong with piece `number`.

        Args:
            mentioned: ids of traces in the piece; empty where they are not known beforehand.
            number: of the piece, from 0 over all files.
        """
        return self.has(min(mentioned)) if mentioned else number % self.of == self.index


def joined(shares: Sequence[Reading]) -> ReadReport:
    """What one process that had read everything would report; in the order of their indices."""
    pairs = [pair for one in shares for pair in zip(one.order, one.skipped, strict=True)]
    pairs.sort(key=lambda pair: pair[0])  # stable: of one piece in the order in which it was said
    whole = replace(
        shares[0],
        skipped=[skip for _, skip in pairs[:MAX_SKIPPED]],
        order=[at for at, _ in pairs[:MAX_SKIPPED]],
        unlisted=sum(one.unlisted for one in shares) + max(0, len(pairs) - MAX_SKIPPED),
        partial=any(one.partial for one in shares),
        formats={name for one in shares for name in one.formats},
        counts={},
        marks={},
        read_through=all(one.read_through for one in shares),
    )
    for one in shares:
        whole.mark(one.marks)
        for name, count in one.counts.items():
            whole.count(name, count)
    return whole.report()
