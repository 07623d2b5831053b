"""Which text a run was made with: by the version that its spans carry, never by the clock.

After a label is moved, services go on for a while with the text that they keep in memory, so that
runs of the old and of the new version are mixed. A release is watched on both sides of that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from contracts.traces import Span, Trace

Side = Literal["old", "new", "both", "other"]
"""Of a unit: only the released version, only earlier ones, both, or none that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Steps by the version of one prompt that they were made with."""

    steps: Mapping[str, int]
    """Version to number of steps; sorted by version."""
    mixed_until: datetime | None
    """Start of the first step of the new version after the last one of another; None: no step of
    another version was seen, or none of the new one came after it."""


def exposure(spans: Iterable[Span], prompt: str, version: str) -> Exposure:
    """Which versions of the prompt the steps carry, and until when they were mixed.

    Args:
        spans: in any order; those without this prompt's version are left out.
        prompt: the prompt's name, as recorded.
        version: the released one.
    """
    steps = [span for span in spans if span.prompt_name == prompt and span.prompt_version]
    counts = Counter(str(span.prompt_version) for span in steps)
    others = [span.started_at for span in steps if span.prompt_version != version]
    last = max(others, default=None)
    after = [
        span.started_at
        for span in steps
        if span.prompt_version == version and last is not None and span.started_at > last
    ]
    return Exposure(
        steps={name: counts[name] for name in sorted(counts, key=_order)},
        mixed_until=min(after, default=None),
    )


def side_of(trace: Trace, prompt: str, version: str) -> Side:
    """On which side of a release a trace stands. `both` counts for neither side."""
    carried = {
        span.prompt_version == version
        for span in trace.spans
        if span.prompt_name == prompt and span.prompt_version
    }
    if len(carried) == 2:
        return "both"
    return "other" if not carried else "new" if carried.pop() else "old"


def _order(version: str) -> tuple[int, str]:
    return (int(version), "") if version.isdecimal() else (1 << 62, version)
