"""The refund agent: a LangGraph graph of a chat model and its tools, for any LangChain model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.semconv.trace import OpenInferenceSpanKindValues, SpanAttributes
from opentelemetry.trace import Status, StatusCode, Tracer
from tracemend_runtime.replay import replayed

from examples.refund_agent.offline_model import OfflineModel
from examples.refund_agent.prices import cost_usd
from examples.refund_agent.tools import OfficeClient, OfficeError, build_tools

MAX_STEPS = 60
"""Of the graph: enough for a plan of four calls with ten repeats each way."""


def build_model(name: str | None = None) -> BaseChatModel:
    """The offline model, or any other by LangChain's name for it, such as `openai:gpt-5-mini`.

    A real model needs its own package (`langchain-openai`) and its key in the environment.

    Raises:
        ValueError: there is no such model here; one line that names it and says why.
    """
    if name is None:
        return OfflineModel()
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 -- only where it is asked for

    try:
        return init_chat_model(name)
    except Exception as error:  # each provider's package raises errors of its own
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"model {name!r}: {why}") from error


def system_text(harness: Path) -> str:
    """Everything the model is told: the instruction files, then each skill in full.

    Raises:
        FileNotFoundError: the folder has no instructions.
    """
    files = sorted(harness.glob("instructions/*.md"))
    if not files:
        raise FileNotFoundError(f"no instructions/*.md in {harness}")
    parts = [file.read_text("utf-8-sig").strip() for file in files]
    parts += [_skill(file) for file in sorted(harness.glob("skills/*/SKILL.md"))]
    return "\n\n".join(parts) + "\n"


def _skill(file: Path) -> str:
    """A skill under its name and with its description, without the YAML around them."""
    text = file.read_text("utf-8-sig").replace("\r\n", "\n")
    name, description, body = file.parent.name, "", text
    if text.startswith("---\n") and "\n---" in text[4:]:
        head, _, body = text[4:].partition("\n---")
        front = yaml.safe_load(head)
        if isinstance(front, dict):
            name, description = str(front.get("name", name)), str(front.get("description", ""))
    return f"# Skill: {name}\n\nWhen to use: {description}\n\n{body.strip()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one request used; None is unknown."""

    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the customer is told, and what it took."""

    text: str
    tools: tuple[str, ...]
    """Tools called, in order, repeats included."""
    usage: Usage


class RefundAgent:
    """Answers customers with one model, one harness and one back office."""

    def __init__(self, *, model: BaseChatModel, harness: Path, office: OfficeClient) -> None:
        self._office = office
        self._system = SystemMessage(system_text(harness))
        tools = replayed(build_tools(office))
        bound = model.bind_tools(tools)

        def call_model(state: MessagesState) -> dict[str, list[AnyMessage]]:
            return {"messages": [bound.invoke([self._system, *state["messages"]])]}

        builder = StateGraph(MessagesState)
        builder.add_node("model", call_model)
        builder.add_node("tools", ToolNode(tools, handle_tool_errors=_error_text))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition, ["tools", END])
        builder.add_edge("tools", "model")
        self._steps = builder.compile(name="refunds")

    def answer(
        self, request: Mapping[str, str], *, seed: int, run_id: str, session: str, tracer: Tracer
    ) -> Reply:
        """Answer one request (`message`, `customer`) under one AGENT span.

        Whatever the model or the graph raises is recorded on the span and goes on to the caller.
        """
        with tracer.start_as_current_span("refund_agent") as span:
            span.set_attributes(
                {
                    SpanAttributes.OPENINFERENCE_SPAN_KIND: OpenInferenceSpanKindValues.AGENT.value,
                    SpanAttributes.INPUT_VALUE: json.dumps(dict(request), ensure_ascii=False),
                    SpanAttributes.INPUT_MIME_TYPE: "application/json",
                    SpanAttributes.SESSION_ID: session,
                }
            )
            text = f"Customer {request.get('customer', '')} writes:\n{request['message']}"
            with self._office.run(seed=seed, run_id=run_id):
                state = self._steps.invoke(
                    {"messages": [HumanMessage(text)]}, {"recursion_limit": MAX_STEPS}
                )
            messages = cast("list[AnyMessage]", state["messages"])
            answer = str(messages[-1].text)
            span.set_attributes(
                {
                    SpanAttributes.OUTPUT_VALUE: answer,
                    SpanAttributes.OUTPUT_MIME_TYPE: "text/plain",
                }
            )
            span.set_status(Status(StatusCode.OK))
            called = [c["name"] for m in messages if isinstance(m, AIMessage) for c in m.tool_calls]
            return Reply(text=answer, tools=tuple(called), usage=usage_of(messages))


def _error_text(error: OfficeError) -> str:
    """What the model is told about a tool that raised. Other exceptions are bugs and go up."""
    return f"Error: {error}"


def usage_of(messages: Sequence[AnyMessage]) -> Usage:
    """The sum over all model calls; unknown as soon as one of them is."""
    calls = [m for m in messages if isinstance(m, AIMessage)]
    used = [m.usage_metadata for m in calls if m.usage_metadata is not None]
    if len(used) < len(calls):
        return Usage(input_tokens=None, output_tokens=None, cost_usd=None)
    costs = [
        cost_usd(str(m.response_metadata.get("model_name")), u["input_tokens"], u["output_tokens"])
        for m, u in zip(calls, used, strict=True)
    ]
    known = [cost for cost in costs if cost is not None]
    return Usage(
        input_tokens=sum(u["input_tokens"] for u in used),
        output_tokens=sum(u["output_tokens"] for u in used),
        cost_usd=sum(known) if len(known) == len(costs) else None,
    )
