"""What steered the runs behind a finding, counted: small and bounded, kept beside its evidence."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from contracts.codec import from_json, to_json
from contracts.json_types import Json, JsonObject
from nodes.insights.sketch import Sketch
from nodes.insights.steering import Steer

KEY: Final = "steering"
"""Under which it stands in the evidence of a finding."""
MOST: Final = 8
"""Names and versions of a kind that are kept: those of the most runs."""
TEXTS: Final = 4
"""And prints, at 1.4 kB each at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something that steered, and in how many runs."""

    value: str
    runs: int
    detail: str = ""
    """The version of a prompt; the agent that a text was sent to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Runs that failed, or runs that went well."""

    runs: int = 0
    with_prompt: int = 0
    """Runs of which a managed prompt is recorded; of the others it is not known."""
    with_text: int = 0
    """Runs of which a system text is recorded."""
    with_agent: int = 0
    prompts: tuple[Told, ...] = ()
    texts: tuple[Told, ...] = ()
    """By print (`nodes.textprint`); of runs that went well none is kept."""
    agents: tuple[Told, ...] = ()
    skills: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """Both sides. Of failing runs only the steps that failed, where that can be told."""

    failing: Side = field(default_factory=Side)
    elsewhere: Side = field(default_factory=Side)
    """Steps of the failing runs that another text steered."""
    passing: Side = field(default_factory=Side)


def steered(
    signature: str, failing: Sequence[Sketch], passing: Sequence[Sketch], *, unseen: bool = False
) -> Steered:
    """Count the samples of a finding. `unseen`: runs that tell no step of it count whole."""
    here: list[tuple[Sequence[Steer], Sketch]] = []
    beside: list[tuple[Sequence[Steer], Sketch]] = []
    for sketch in failing:
        mine = sketch.steering.failing(signature)
        if not mine and unseen:
            mine = sketch.steering.steers
        here.append((mine, sketch))
        beside.append(([one for one in sketch.steering.steers if one not in mine], sketch))
    return Steered(
        failing=_side(here),
        elsewhere=_side(beside),
        passing=replace(_side([(sketch.steering.steers, sketch) for sketch in passing]), texts=()),
    )


def kept_steering(signature: str, failing: Sequence[Sketch], passing: Sequence[Sketch]) -> Json:
    """What the ledger keeps. Findings under a name that people gave tell no step of their own."""
    told = steered(signature, failing, passing)
    if told.failing == Side(runs=len(failing)):
        told = steered(signature, failing, passing, unseen=True)
    return to_json(told)


def steered_of(evidence: JsonObject) -> Steered:
    """What was kept beside a finding; nothing known where an older release kept nothing."""
    value = evidence.get(KEY)
    if not isinstance(value, Mapping):
        return Steered()
    try:
        return from_json(Steered, value)
    except ValueError:
        return Steered()


def _side(runs: Sequence[tuple[Sequence[Steer], Sketch]]) -> Side:
    prompts: Counter[tuple[str, str]] = Counter()
    texts: Counter[tuple[str, str]] = Counter()
    agents: Counter[tuple[str, str]] = Counter()
    skills: Counter[tuple[str, str]] = Counter()
    for steers, sketch in runs:
        prompts.update({(one.prompt, one.version) for one in steers if one.prompt})
        by_text = {one.text: one.agent for one in reversed(steers) if one.text}
        texts.update(by_text.items())
        agents.update({(one.agent, "") for one in steers if one.agent})
        skills.update({(name, "") for name in sketch.steering.skills})
    return Side(
        runs=len(runs),
        with_prompt=_having(runs, "prompt"),
        with_text=_having(runs, "text"),
        with_agent=_having(runs, "agent"),
        prompts=_most(prompts),
        texts=_most(texts)[:TEXTS],
        agents=_most(agents),
        skills=_most(skills),
    )


def _having(runs: Iterable[tuple[Sequence[Steer], Sketch]], name: str) -> int:
    return sum(any(getattr(one, name) for one in steers) for steers, _ in runs)


def _most(counts: Counter[tuple[str, str]]) -> tuple[Told, ...]:
    first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST]
    return tuple(Told(value=value, runs=runs, detail=detail) for (value, detail), runs in first)
