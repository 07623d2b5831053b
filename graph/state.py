"""What travels along the edges: the sum of what the nodes write. JSON only."""

from typing import NotRequired

from typing_extensions import TypedDict

from contracts.json_types import Json
from contracts.proposals import CardKind
from nodes.insights.node import InsightsNext
from nodes.router import Request


class LoopInput(TypedDict):
    """The graph's input."""

    request: Request


class LoopState(LoopInput):
    """Every value survives a checkpoint round trip, on any server."""

    route: NotRequired[str]
    next: NotRequired[InsightsNext]
    finding: NotRequired[str]
    why: NotRequired[str | None]
    analysis: NotRequired[dict[str, Json]]
    drafted: NotRequired[bool]
    proposal: NotRequired[str]
    card: NotRequired[CardKind]
    planned: NotRequired[bool]
    revision: NotRequired[int]
    answer: NotRequired[dict[str, Json] | None]
    answer_problem: NotRequired[str | None]
    gate_runs: NotRequired[int]
    applied: NotRequired[str]
    handoff: NotRequired[str]
    reply: NotRequired[str]
    watched: NotRequired[str]
    lesson: NotRequired[str | None]
