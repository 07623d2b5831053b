"""What real instrumentations write, under the keys that the normaliser reads.

A dialect fills in what is missing and never overrides a key that is there, with two exceptions
that their frameworks force: a step that only wraps others is no model call, and an empty object
that stands where nothing was recorded gives way.

Source: the attributes of the Vercel AI SDK 4 to 6, OpenLLMetry, Pydantic AI with Logfire, Google
ADK, LangSmith's OpenTelemetry exporter, MLflow, Haystack, Strands, BeeAI, LiveKit, Braintrust and
LangWatch, as recorded in exports of 2025 and 2026 and as their sources write them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from connectors.traces import dialect_frames as frames
from connectors.traces import dialect_tools as tools
from connectors.traces.dialect_events import from_events
from connectors.traces.dialect_frames import fill
from contracts.json_types import Json

Event = tuple[str, Mapping[str, Json]]

_MOVED: Final[tuple[tuple[str, str], ...]] = (
    ("input.value", "gcp.vertex.agent.tool_call_args"),
    ("input.value", "tool_arguments"),
    ("input.value", "tool.arguments"),
    ("input.value", "tool.input"),
    ("input.value", "gen_ai.tool.arguments"),
    ("input.value", "gen_ai.tool.input"),
    ("input.value", "gen_ai.tool.call.args"),
    ("input.value", "gen_ai.retrieval.query.text"),
    ("input.value", "mlflow.spanInputs"),
    ("input.value", "braintrust.input_json"),
    ("input.value", "langwatch.input"),
    ("input.value", "haystack.component.input"),
    ("input.value", "haystack.agent.input"),
    ("input.value", "haystack.pipeline.input_data"),
    ("input.value", "gen_ai.prompt"),
    ("input.value", "gen_ai.content.prompt"),
    ("input.value", "lk.function_tool.arguments"),
    ("input.value", "lk.input_text"),
    ("input.value", "lk.user_transcript"),
    ("input.value", "lk.user_input"),
    ("input.value", "lk.chat_ctx"),
    ("input.value", "task.input"),
    ("input.value", "llm.prompts"),
    ("output.value", "gcp.vertex.agent.tool_response"),
    ("output.value", "tool_response"),
    ("output.value", "tool.result"),
    ("output.value", "tool.output"),
    ("output.value", "gen_ai.tool.result"),
    ("output.value", "gen_ai.tool.output"),
    ("output.value", "gen_ai.retrieval.documents"),
    ("output.value", "mlflow.spanOutputs"),
    ("output.value", "braintrust.output_json"),
    ("output.value", "langwatch.output"),
    ("output.value", "haystack.component.output"),
    ("output.value", "haystack.agent.output"),
    ("output.value", "haystack.pipeline.output_data"),
    ("output.value", "gen_ai.completion"),
    ("output.value", "gen_ai.content.completion"),
    ("output.value", "lk.function_tool.output"),
    ("output.value", "lk.response.text"),
    ("output.value", "final_result"),
)
"""(ours, theirs) of what a step was given and gave back: theirs goes, wherever ours comes from."""

_COPIED: Final[tuple[tuple[str, str], ...]] = (
    ("tool.name", "ai.toolCall.name"),
    ("tool.name", "lk.function_tool.name"),
    ("tool.name", "haystack.tool.name"),
    ("gen_ai.tool.call.id", "ai.toolCall.id"),
    ("gen_ai.tool.call.id", "lk.function_tool.id"),
    ("session.id", "gcp.vertex.agent.session_id"),
    ("session.id", "ai.telemetry.metadata.sessionId"),
    ("session.id", "ai.telemetry.metadata.threadId"),
    ("session.id", "traceloop.association.properties.session_id"),
    ("session.id", "traceloop.association.properties.thread_id"),
    ("session.id", "traceloop.association.properties.conversation_id"),
    ("session.id", "traceloop.association.properties.chat_id"),
    ("session.id", "langsmith.metadata.thread_id"),
    ("session.id", "langsmith.metadata.session_id"),
    ("session.id", "langsmith.metadata.conversation_id"),
    ("session.id", "mlflow.trace.session"),
    ("session.id", "langwatch.thread.id"),
    ("user.id", "ai.telemetry.metadata.userId"),
    ("user.id", "traceloop.association.properties.user_id"),
    ("user.id", "langsmith.metadata.user_id"),
    ("user.id", "gcp.vertex.agent.user_id"),
    ("user.id", "mlflow.trace.user"),
    ("user.id", "langwatch.user.id"),
    ("graph.node.id", "traceloop.association.properties.langgraph_node"),
    ("graph.node.id", "langsmith.metadata.langgraph_node"),
    ("graph.node.id", "langfuse.observation.metadata.langgraph_node"),
    ("graph.node.id", "koog.node.name"),
    ("llm.finish_reason", "ai.response.finishReason"),
    ("llm.finish_reason", "ai.finishReason"),
    ("llm.finish_reason", "llm.response.finish_reason"),
    ("llm.finish_reason", "llm.response.stop_reason"),
    ("llm.finish_reason", "gen_ai.response.finish_reason"),
    ("llm.finish_reason", "gen_ai.completion.0.finish_reason"),
    ("llm.model_name", "ai.response.model"),
    ("llm.model_name", "ai.model.id"),
    ("llm.model_name", "llm.response.model"),
    ("llm.model_name", "llm.request.model"),
    ("llm.model_name", "mlflow.llm.model"),
    ("llm.token_count.prompt", "ai.usage.inputTokens"),
    ("llm.token_count.prompt", "ai.usage.promptTokens"),
    ("llm.token_count.prompt", "ai.usage.tokens"),
    ("llm.token_count.prompt", "llm.usage.prompt_tokens"),
    ("llm.token_count.prompt", "llm.usage.input_tokens"),
    ("llm.token_count.prompt", "braintrust.metrics.prompt_tokens"),
    ("llm.token_count.completion", "ai.usage.outputTokens"),
    ("llm.token_count.completion", "ai.usage.completionTokens"),
    ("llm.token_count.completion", "llm.usage.completion_tokens"),
    ("llm.token_count.completion", "llm.usage.output_tokens"),
    ("llm.token_count.completion", "braintrust.metrics.completion_tokens"),
    ("llm.cost.total", "operation.cost"),
    ("llm.cost.total", "llm.usage.cost"),
    ("tool.status", "gen_ai.tool.status"),
    ("tool.status", "lk.function_tool.status"),
)
"""(ours, theirs) of small things; theirs stays among the attributes."""

_LEAKS: Final = ("task.expected_result", "validation.criteria_json")
"""What a benchmark wrote about the right answer; the agent never saw it, nor must its analyst."""

_FRAMES: Final = (
    (("ai.operationId", "ai.toolCall.name", "ai.response.text", "ai.prompt.messages", "ai.prompt"),
     frames.ai_sdk),
    (("gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response",
      "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response",
      "gcp.vertex.agent.invocation_id", "gcp.vertex.agent.event_id"), frames.google_adk),
    (("traceloop.span.kind", "traceloop.entity.input", "traceloop.entity.output",
      "traceloop.entity.name", "llm.request.type"), frames.openllmetry),
    (("langsmith.span.kind",), frames.langsmith),
    (("logfire.msg", "logfire.json_schema", "agent_name", "all_messages_events", "events",
      "pydantic_ai.all_messages", "model_request_parameters", "tool_arguments", "tool_response"),
     frames.pydantic_ai),
    (("mlflow.spanType", "mlflow.chat.tokenUsage"), frames.mlflow),
    (("haystack.component.type", "haystack.pipeline.input_data", "haystack.agent.input"),
     frames.haystack),
    (("braintrust.span_attributes", "braintrust.metadata", "langwatch.span.type"),
     frames.platforms),
    (("target",), frames.beeai),
    (("agent.input_message", "agent.output_message", "tool.args_json", "tool.result_json",
      "experiment.operation_type"), frames.plain_agents),
    (("gen_ai.tool.definitions", "model_request_parameters", "ai.prompt.tools", "llm.tools",
      "llm.request.functions", "llm.request.functions.0.name", "mlflow.chat.tools"),
     tools.offered_tools),
    (("gen_ai.tool.parameters",), tools.tool_parameters),
    (("input", "output", "prompt"), frames.bare_values),
)  # fmt: skip
"""(keys, rule): a rule is asked when one of its keys is there, in this order."""

_MARKS: Final = frozenset(
    {theirs for _, theirs in (*_MOVED, *_COPIED)}
    | {key for keys, _ in _FRAMES for key in keys}
    | set(_LEAKS)
)
_SAME: Final[Mapping[str, tuple[str, ...]]] = {
    "input.value": ("langfuse.observation.input", "input.value", "gen_ai.tool.call.arguments"),
    "output.value": ("langfuse.observation.output", "output.value", "gen_ai.tool.call.result"),
    "session.id": ("langfuse.session.id", "session.id", "gen_ai.conversation.id"),
    "user.id": ("langfuse.user.id", "user.id", "enduser.id"),
    "tool.name": ("tool.name", "gen_ai.tool.name"),
    "llm.finish_reason": ("llm.finish_reason", "gen_ai.response.finish_reasons"),
    "llm.model_name": ("langfuse.observation.model.name", "llm.model_name",
                       "gen_ai.response.model", "gen_ai.request.model"),
    "llm.token_count.prompt": ("llm.token_count.prompt", "gen_ai.usage.input_tokens",
                               "gen_ai.usage.prompt_tokens"),
    "llm.token_count.completion": ("llm.token_count.completion", "gen_ai.usage.output_tokens",
                                   "gen_ai.usage.completion_tokens"),
    "llm.cost.total": ("llm.cost.total", "gen_ai.usage.cost", "gen_ai.usage.total_cost"),
}  # fmt: skip
"""Keys of ours, each with all that say the same: with any of them there, nothing is filled in."""


def canonical(
    attributes: dict[str, Json], events: Sequence[Event] = (), name: str = ""
) -> dict[str, Json]:
    """The attributes under our keys; the same object where no dialect is spoken. Idempotent.

    Args:
        attributes: of one span, flat.
        events: of the span; some frameworks write a step's input and output there.
        name: of the span; some frameworks say the step's kind there.
    """
    spoken = bool(events) and any(event[0].startswith("gen_ai.") for event in events)
    if not spoken and _MARKS.isdisjoint(attributes):
        return attributes
    out = dict(attributes)
    for key in _LEAKS:
        out.pop(key, None)
    for keys, rule in _FRAMES:
        if any(key in attributes for key in keys):
            rule(out, name)
    for ours, theirs in _COPIED:
        if theirs in out:
            fill(out, ours, out[theirs], _SAME.get(ours, (ours,)))
    for ours, theirs in _MOVED:
        if theirs in out:
            fill(out, ours, out.pop(theirs), _SAME[ours])
    if spoken:
        from_events(out, events)
    return out
