"""A bare LangGraph graph of as many nodes as ours visits, with one interrupt: what ours is beside.

To the interrupt: router, insights, evolution, plan, review. After a reject: decide, learn.
"""

from typing import NotRequired

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

BEFORE = ("router", "insights", "evolution", "plan")
AFTER = ("decide", "learn")


class BareState(TypedDict):
    """A request, how far it came, and what was answered."""

    request: dict[str, str]
    step: NotRequired[str]
    answer: NotRequired[dict[str, list[dict[str, str]]]]


class Stepped(TypedDict):
    """What a node writes."""

    step: str


class Answered(TypedDict):
    """What the review writes."""

    answer: dict[str, list[dict[str, str]]]


async def _step(state: BareState) -> Stepped:
    return {"step": f"{state.get('step', '')}."}


async def _review(state: BareState) -> Answered:
    return {"answer": interrupt({"action_requests": [{"name": "apply", "args": state["request"]}]})}


def build_bare() -> StateGraph[BareState, None, BareState, BareState]:
    """The graph, not compiled."""
    builder = StateGraph(BareState)
    for name in (*BEFORE, *AFTER):
        builder.add_node(name, _step)
    builder.add_node("review", _review)
    names = (*BEFORE, "review", *AFTER)
    builder.add_edge(START, names[0])
    for name, after in zip(names, (*names[1:], END), strict=True):
        builder.add_edge(name, after)
    return builder


graph = build_bare().compile(name="bare")
"""For `langgraph dev`: the server brings the checkpointer."""
