"""A small LangGraph agent: instructions come in its context, a word of the input does the rest.

Served by `langgraph dev` in one test and by `tests.fakes.langgraph_server` in others.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.config import get_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict


@dataclass
class Context:
    """What a run is given beside its input."""

    harness: dict[str, str]


class State(TypedDict, total=False):
    """Messages, and what is told beside them."""

    messages: Annotated[list[AnyMessage], add_messages]
    answer: str
    cost_usd: float
    seen: dict[str, Any]


class RateLimitError(Exception):
    """Named as a provider's client names it."""


def _counted(sent: int, received: int) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=sent, output_tokens=received, total_tokens=sent + received
    )  # fmt: skip


async def work(state: State, runtime: Runtime[Context]) -> State:
    """Call one tool and answer, or fail as the message asks."""
    word = str(state["messages"][-1].content)
    if word == "boom":
        raise ValueError("no order")
    if word == "limited":
        raise RateLimitError("slow down")
    if word == "hang":
        await asyncio.sleep(600)
    if word == "pause":
        interrupt({"question": "go on?"})
    text = runtime.context.harness["instructions/main.md"]
    called = AIMessage(
        "", tool_calls=[{"name": "queue_refund", "args": {"order": "A-1"}, "id": "c1"}],
        usage_metadata=_counted(9, 3),
    )  # fmt: skip
    failed = word == "tool fails"
    result = ToolMessage(
        "no such order" if failed else "queued", tool_call_id="c1", name="queue_refund",
        status="error" if failed else "success",
    )  # fmt: skip
    answer = "x" * 200_000 if word == "long" else f"{text}: {word}"
    uncounted = word == "uncounted"
    said = AIMessage(answer, usage_metadata=None if uncounted else _counted(10, 4))
    known = get_config().get("metadata", {})
    told = State(
        messages=[called, result, said], answer=answer,
        seen={
            "metadata": {key: value for key, value in known.items() if "tracemend" in key},
            "files": sorted(runtime.context.harness),
        },
    )  # fmt: skip
    if word == "dear":
        told["cost_usd"] = 0.25
    return told


builder = StateGraph(State, context_schema=Context)
builder.add_node("work", work)
builder.add_edge(START, "work")
builder.add_edge("work", END)
graph = builder.compile()
