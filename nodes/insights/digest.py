"""A finding's runs as a model is told them: a line a run, a line a step, then quotes. Pure.

Hierarchical, within a number of tokens: every line keeps the ids of its trace and span, long texts
are told as size, head, tail and hash, and only where a diagnosis needs it (the failing step, the
step before, the call that asked for it) is a text told in full. What is left out is said, and is
read again from the artifact that the run's first line names.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.review.clean import one_line
from contracts.traces import SpanId, TraceId
from nodes.fence import fenced
from nodes.insights.skeleton import Skeleton, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How much is told: runs, steps of a run, characters of a line and of an opened text."""

    runs: int
    steps: int
    line: int
    opened: int


LEVELS: Final = (
    Level(runs=4, steps=60, line=160, opened=2_400),
    Level(runs=4, steps=30, line=140, opened=1_400),
    Level(runs=4, steps=16, line=110, opened=900),
    Level(runs=3, steps=12, line=90, opened=500),
    Level(runs=2, steps=8, line=70, opened=300),
    Level(runs=1, steps=6, line=60, opened=0),
)
"""From the most to the least; the first that fits is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What a model is told, and what its ids stand for."""

    text: str
    places: Mapping[str, tuple[TraceId, SpanId]]
    """`e1`, `e2` ... of failing runs; what went well cannot be named as evidence."""
    tokens: int
    parts: Mapping[str, int]
    """Tokens by step: `lines`, `opened`, `passing`."""


def digest(
    failing: Sequence[Skeleton],
    passing: Sequence[Skeleton],
    *,
    limit: int,
    count_tokens: Callable[[str], int],
) -> Digest:
    """As much of the runs as `limit` tokens hold.

    Args:
        failing: in the order in which they are told.
        passing: runs that went well; told last, and first to go.
        limit: tokens for everything; the least that can be told may still be over it.
        count_tokens: of a text.
    """
    made = _told(failing, passing, LEVELS[-1], count_tokens)
    for level in LEVELS:
        made = _told(failing, passing, level, count_tokens)
        if made.tokens <= limit:
            break
    return made


def _told(
    failing: Sequence[Skeleton],
    passing: Sequence[Skeleton],
    level: Level,
    count_tokens: Callable[[str], int],
) -> Digest:
    places: dict[str, tuple[TraceId, SpanId]] = {}
    lines: list[str] = []
    opened: list[str] = []
    for number, run in enumerate(failing[: level.runs], 1):
        names = {}
        for index in _chosen(run, level.steps):
            names[index] = f"e{len(places) + 1}"
            places[names[index]] = (run.trace_id, run.steps[index].span_id)
        lines.append(fenced(f"failing run {number}", _run(run, names, level)))
        opened += _opened(run, names, level)
    well = [
        fenced(f"run {number} that went well", _run(run, dict.fromkeys(_chosen(run, 12)), level))
        for number, run in enumerate(passing[: level.runs // 3], 1)
    ]
    sections = {
        "lines": ["## Failing runs", *lines],
        "opened": ["## In full", *opened] if opened else [],
        "passing": ["## Runs that went well", *well] if well else [],
    }
    texts = {name: "\n".join(said) for name, said in sections.items() if said}
    text = "\n\n".join(texts.values())
    parts = {name: count_tokens(said) for name, said in texts.items()}
    return Digest(text=text, places=places, tokens=count_tokens(text), parts=parts)


def _chosen(run: Skeleton, most: int) -> list[int]:
    """Indexes of the steps that are told, in order: what matters, the ends, then what is near."""
    centre = len(run.steps) - 1 if run.culprit is None else run.culprit
    last = len(run.steps) - 1

    def rank(index: int) -> tuple[bool, bool, bool, int]:
        step = run.steps[index]
        return (
            index not in run.opened,
            not step.failed,
            index not in (0, last),
            abs(index - centre),
        )

    return sorted(sorted(range(len(run.steps)), key=rank)[:most])


def _run(run: Skeleton, names: Mapping[int, str | None], level: Level) -> str:
    trace = one_line(run.trace_id, 64)
    whole = f", whole in artifact {run.whole[:12]}" if run.whole else ""
    out = [f"trace {trace}: {len(run.steps) + run.hidden} steps{whole}"]
    out.append(f"asked: {one_line(run.asked, 2 * level.line)}")
    at = -1
    for index, name in names.items():
        out += _gap(run, at, index)
        step = run.steps[index]
        here = " <- the finding is about this step" if index == run.culprit else ""
        out.append(f"{_id(name, step)} {step.line(level.line)}{here}")
        at = index
    out += _gap(run, at, len(run.steps))
    out.append(f"answered: {one_line(run.answered, 2 * level.line) or 'nothing'}")
    return "\n".join(out)


def _gap(run: Skeleton, before: int, after: int) -> list[str]:
    """A line for the steps between two that are told."""
    left_out = run.steps[before + 1 : after]
    if not left_out:
        return []
    first, last = one_line(left_out[0].span_id, 64), one_line(left_out[-1].span_id, 64)
    return [f"... {len(left_out)} steps left out, {first} to {last}"]


def _opened(run: Skeleton, names: Mapping[int, str], level: Level) -> list[str]:
    """Texts of the steps that matter, where a line has not told them already."""
    out = []
    for index in run.opened:
        step = run.steps[index]
        for passage in (step.given, step.came):
            if passage is None or level.opened == 0 or len(passage.head) <= level.line:
                continue
            label = f"{names[index]} {passage.what}, {passage.size_bytes} bytes"
            out.append(fenced(label, passage.told(level.opened)))
    return out


def _id(name: str | None, step: Step) -> str:
    span = one_line(step.span_id, 64)
    return span if name is None else f"{name} {span}"
