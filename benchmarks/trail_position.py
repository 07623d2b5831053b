"""What position and kind of a span alone predict on TRAIL: the baseline that sees no content.

A span is described by its kind and its parent's kind, how deep it hangs, and how many such spans
come before it and after it, in rough steps. For each category the share of annotated spans of the
same description is the confidence, held back by the shares of coarser descriptions. The six
predictions are chosen as the rules' are.
"""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.trail_map import CAP, SPAN_GAIN
from benchmarks.trail_score import Pair
from contracts.traces import Trace

BACK_OFF = 4.0
_STEPS = (0, 1, 2, 3, 4, 6, 9, 14, 24, 49)

Place = tuple[tuple[str, ...], ...]
"""Descriptions of one span, coarse first."""


def places(trace: Trace) -> dict[str, Place]:
    """Model calls and tools of a trace, described by position and kind."""
    spans = [span for span in trace.spans if span.kind in ("llm", "tool")]
    above: dict[str, tuple[str, int]] = {}
    for span in trace.spans:
        depth = above[span.parent_id][1] + 1 if span.parent_id in above else 0
        above[span.id] = (span.kind, depth)
    found: dict[str, Place] = {}
    for index, span in enumerate(spans):
        parent, depth = above.get(span.parent_id or "", ("", 0))
        kind = f"{span.kind} in {parent} at {depth}"
        before, after = _step(index), _step(len(spans) - 1 - index)
        found[span.id] = (
            (kind,),
            (kind, "before", before),
            (kind, "after", after),
            (kind, before, after),
        )
    return found


def _step(number: int) -> str:
    return str(max(step for step in _STEPS if step <= number))


class Positions:
    """Shares by description, learned from annotated traces."""

    def __init__(
        self, gold: Mapping[str, set[Pair]], where: Mapping[str, Mapping[str, Place]]
    ) -> None:
        self._hits: dict[tuple[tuple[str, ...], str], int] = {}
        self._seen: dict[tuple[str, ...], int] = {}
        self._names = sorted({name for pairs in gold.values() for _, name in pairs})
        for trace, pairs in gold.items():
            marked = {span for span, _ in pairs}
            for span, place in where[trace].items():
                names = [name for name in self._names if (span, name) in pairs]
                for key in place:
                    self._seen[key] = self._seen.get(key, 0) + 1
                    for name in [*names, *([""] if span in marked else [])]:
                        self._hits[key, name] = self._hits.get((key, name), 0) + 1

    def share(self, place: Place, name: str) -> float:
        """How often spans of this description carry the category; "" for any at all."""
        coarse = self._smooth(place[0], name, 0.0)
        sides = [self._smooth(key, name, coarse) for key in place[1:3]]
        return self._smooth(place[3], name, sum(sides) / 2)

    def _smooth(self, key: tuple[str, ...], name: str, back: float) -> float:
        hits, seen = self._hits.get((key, name), 0), self._seen.get(key, 0)
        return (hits + BACK_OFF * back) / (seen + BACK_OFF)

    def rank(self, where: Mapping[str, Place], cap: int = CAP) -> list[Pair]:
        """At most `cap` pairs, by what each adds."""
        sure = {(span, name): p for span, name, p in self._all(where)}
        spans = {span: self.share(place, "") for span, place in where.items()}
        chosen: list[Pair] = []
        covered: set[str] = set()
        while sure and len(chosen) < cap:
            best = max(
                sure,
                key=lambda p: (
                    sure[p] + (SPAN_GAIN * spans[p[0]] if p[0] not in covered else 0),
                    p,
                ),
            )
            del sure[best]
            chosen.append(best)
            covered.add(best[0])
        return chosen

    def _all(self, where: Mapping[str, Place]) -> Iterator[tuple[str, str, float]]:
        for span, place in where.items():
            for name in self._names:
                yield span, name, self.share(place, name)


def predicted(
    train: Mapping[str, set[Pair]],
    test: Sequence[str],
    where: Mapping[str, Mapping[str, Place]],
) -> dict[str, set[Pair]]:
    """Predictions for some traces, learned from others."""
    learned = Positions(train, where)
    return {trace: set(learned.rank(where[trace])) for trace in test}
