"""The dialects that a table cannot say: what a step is, and where its input and output stand.

Every rule takes the attributes of a span, which it fills in place, and the span's name.
"""

import re
from typing import Final

from connectors.traces.chat_rows import opened_json
from connectors.traces.raw import as_objects, as_text
from contracts.json_types import Json

Out = dict[str, Json]
KIND: Final = "openinference.span.kind"
_TYPE: Final = "langfuse.observation.type"
_VAGUE: Final = frozenset({"", "SPAN", "EVENT", "UNKNOWN"})
_IN: Final = ("langfuse.observation.input", "input.value")
_OUT: Final = ("langfuse.observation.output", "output.value")

_AI_SDK_WRAPPERS: Final = {
    "ai.generateText": "AGENT", "ai.streamText": "AGENT", "ai.generateObject": "CHAIN",
    "ai.streamObject": "CHAIN", "ai.embed": "CHAIN", "ai.embedMany": "CHAIN", "ai.rerank": "CHAIN",
}  # fmt: skip
_AI_SDK_ENDS: Final = {
    "doGenerate": "LLM", "doStream": "LLM", "doEmbed": "EMBEDDING", "doRerank": "RERANKER",
    "toolCall": "TOOL",
}  # fmt: skip
_REQUESTS: Final = {
    "chat": "LLM", "completion": "LLM", "embedding": "EMBEDDING", "rerank": "RERANKER",
}  # fmt: skip
_RUN_TYPES: Final = {
    "llm": "LLM", "chat_model": "LLM", "tool": "TOOL", "function": "TOOL", "agent": "AGENT",
    "chain": "CHAIN", "workflow": "CHAIN", "task": "CHAIN", "module": "CHAIN", "parser": "CHAIN",
    "component": "CHAIN", "prompt": "PROMPT", "retriever": "RETRIEVER", "rag": "RETRIEVER",
    "embedding": "EMBEDDING", "reranker": "RERANKER", "guardrail": "GUARDRAIL",
    "evaluator": "EVALUATOR", "evaluation": "EVALUATOR", "score": "EVALUATOR",
}  # fmt: skip
_PIECES: Final = (
    ("ChatGenerator", "LLM"), ("Generator", "LLM"), ("Embedder", "EMBEDDING"),
    ("Retriever", "RETRIEVER"), ("Ranker", "RERANKER"), ("Agent", "AGENT"), ("", "CHAIN"),
)  # fmt: skip
_ADK_ENVELOPE: Final = frozenset(
    {"id", "name", "response", "will_continue", "willContinue", "scheduling", "parts"}
)
_MLFLOW_NAMES: Final = (
    "mlflow.spanType", "mlflow.spanFunctionName", "mlflow.llm.model", "mlflow.trace.session",
    "mlflow.trace.user",
)  # fmt: skip
_BEEAI_EVENT: Final = re.compile(r"\A(tool|backend|agent)\.([\w.-]{1,128})\.([a-z_]{1,32})\Z")


def fill(out: Out, ours: str, value: Json, same: tuple[str, ...]) -> None:
    """Write a value that was recorded, unless one of the keys that say the same is there."""
    if value is None or value == "":
        return
    if all(out.get(key) in (None, "") for key in same):
        out[ours] = value


def set_kind(out: Out, kind: str | None, *, force: bool = False) -> None:
    """What the step is, unless the recorder said it; `force`: whatever a backend guessed."""
    if kind is None:
        return
    vague = all(as_text(out.get(key)).upper() in _VAGUE for key in (_TYPE, KIND))
    if vague or force:
        if as_text(out.get(_TYPE)).upper() not in _VAGUE:
            out[_TYPE] = kind
        out[KIND] = kind


def ai_sdk(out: Out, name: str) -> None:
    """Vercel AI SDK: wrappers, model calls and tools by their operation."""
    operation = as_text(out.get("ai.operationId")) or as_text(out.get("operation.name")) or name
    operation = operation.partition(" ")[0]
    wrapper = _AI_SDK_WRAPPERS.get(operation)
    end = _AI_SDK_ENDS.get(operation.rpartition(".")[2])
    set_kind(out, wrapper or end, force=wrapper is not None)
    for key in ("ai.embedding", "ai.embeddings"):
        out.pop(key, None)  # thousands of numbers
    given = [out.pop(key, None) for key in ("ai.prompt.messages", "ai.prompt", "ai.toolCall.args")]
    given += [out.pop(key, None) for key in ("ai.value", "ai.values")]
    fill(out, "input.value", next((x for x in given if x is not None), None), _IN)
    text, made, calls = (
        popped(out, f"ai.response.{what}", f"ai.result.{what}")
        for what in ("text", "object", "toolCalls")
    )
    if text and calls:
        calls = opened_json(calls) if isinstance(calls, str) else calls
        text = {"role": "assistant", "content": text, "tool_calls": calls}
    fill(out, "output.value", text or made or calls or out.pop("ai.toolCall.result", None), _OUT)
    out.pop("ai.toolCall.result", None)


def popped(out: Out, *keys: str) -> Json:
    """The value of the first of the keys that was recorded; all of them are taken out."""
    found = [out.pop(key, None) for key in keys]
    return next((value for value in found if value is not None), None)


def google_adk(out: Out, name: str) -> None:
    """Google ADK, which writes `{}` where it recorded nothing."""
    merged = as_text(out.get("gen_ai.tool.name")).startswith("(merged")
    if merged:  # the answers of parallel calls once more
        set_kind(out, "CHAIN", force=True)
    elif name == "call_llm":
        set_kind(out, "LLM")
    elif name.startswith(("agent_run", "invoke_agent")):
        set_kind(out, "AGENT")
    elif name.startswith("invocation"):
        set_kind(out, "CHAIN")
    for keys, theirs in (
        (_IN, ("gcp.vertex.agent.llm_request", "gcp.vertex.agent.tool_call_args")),
        (_OUT, ("gcp.vertex.agent.llm_response", "gcp.vertex.agent.tool_response")),
    ):
        found = [out.pop(key, None) for key in theirs]
        best = next((value for value in found if value not in (None, "", "{}", "N/A")), None)
        if best is not None:
            for key in keys:
                if out.get(key) in ("{}", {}) or _is_adk_envelope(out.get(key)):
                    del out[key]
            fill(out, keys[1], best, keys)
        elif "{}" in found:
            fill(out, keys[1], "{}" if "gen_ai.tool.name" in out else None, keys)
    _adk_usage(out)


def _is_adk_envelope(recorded: Json) -> bool:
    """Whether a tool's answer stands in a Gemini function response, which ADK wrote apart too."""
    value = recorded
    if isinstance(recorded, str) and '"response"' in recorded[:512]:
        value = opened_json(recorded)
    return isinstance(value, dict) and "response" in value and set(value) <= _ADK_ENVELOPE


def _adk_usage(out: Out) -> None:
    answer = out.get("output.value")
    if "gen_ai.usage.input_tokens" in out or not isinstance(answer, str):
        return
    value = opened_json(answer) if '"usage_metadata"' in answer else None
    usage = value.get("usage_metadata") if isinstance(value, dict) else None
    if isinstance(usage, dict):
        fill(out, "gen_ai.usage.input_tokens", usage.get("prompt_token_count"),
             ("llm.token_count.prompt",))  # fmt: skip
        fill(out, "gen_ai.usage.output_tokens", usage.get("candidates_token_count"),
             ("llm.token_count.completion", "gen_ai.usage.output_tokens"))  # fmt: skip


def openllmetry(out: Out, name: str) -> None:
    """OpenLLMetry (Traceloop): a step's own input and output out of their wrapping."""
    set_kind(out, _REQUESTS.get(as_text(out.get("llm.request.type"))))
    kind = as_text(out.get("traceloop.span.kind"))
    set_kind(out, _RUN_TYPES.get(kind))
    given, got = out.pop("traceloop.entity.input", None), out.pop("traceloop.entity.output", None)
    if kind == "tool":
        fill(out, "tool.name", out.get("traceloop.entity.name") or name.removesuffix(".tool"),
             ("tool.name", "gen_ai.tool.name"))  # fmt: skip
        given, got = _inside(given, "inputs"), _inside(got, "output")
    fill(out, "input.value", given, _IN)
    fill(out, "output.value", got, _OUT)


def _inside(recorded: Json, key: str) -> Json:
    """The value under the key of a callback's record `{key: ..., "kwargs": ...}`."""
    value = recorded
    if isinstance(recorded, str) and recorded[:1] == "{" and f'"{key}"' in recorded:
        value = opened_json(recorded)
    if not isinstance(value, dict) or not set(value) <= {key, "kwargs", "input_str", "tags",
                                                        "metadata"}:  # fmt: skip
        return recorded
    inner = value.get(key)
    return inner if inner is not None else value.get("input_str") or recorded


def langsmith(out: Out, name: str) -> None:
    """LangSmith's exporter: the whole of inputs and outputs, wrapped once for tools."""
    kind = as_text(out.get("langsmith.span.kind"))
    set_kind(out, _RUN_TYPES.get(kind))
    given, got = out.pop("gen_ai.prompt", None), out.pop("gen_ai.completion", None)
    if kind == "tool":
        fill(out, "tool.name", name, ("tool.name", "gen_ai.tool.name"))
        for key in _IN:
            if key in out:
                out[key] = _inside(out[key], "input")
        given, got = _inside(given, "input"), _inside(got, "output")
    fill(out, "input.value", given, _IN)
    fill(out, "output.value", got, _OUT)


def pydantic_ai(out: Out, name: str) -> None:
    """Pydantic AI through Logfire: runs of agents, groups of tools, and events as attributes."""
    history = popped(out, "pydantic_ai.all_messages", "all_messages_events")
    if history is not None or ("final_result" in out and "agent_name" in out):
        set_kind(out, "AGENT")
        rows = opened_json(history) if isinstance(history, str) else history
        start = out.get("pydantic_ai.new_message_index")
        fill(out, "input.value", _asked(rows, start if isinstance(start, int) else 0), _IN)
    elif "agent_name" in out and "gen_ai.request.model" not in out:
        set_kind(out, "AGENT")
    if "tools" in out and name.startswith("running"):
        set_kind(out, "CHAIN")
    if name.startswith("running tool: "):
        set_kind(out, "TOOL")
        fill(out, "tool.name", name.removeprefix("running tool: "),
             ("tool.name", "gen_ai.tool.name"))  # fmt: skip
    _events(out)


def _asked(rows: Json, start: int) -> Json:
    """The messages that a run began with: up to the model's first word in it."""
    if not isinstance(rows, list):
        return None
    until = next(
        (
            at
            for at, row in enumerate(rows)
            if at >= start and isinstance(row, dict) and row.get("role") == "assistant"
        ),
        len(rows),
    )
    return rows[:until] or None


def _events(out: Out) -> None:
    recorded = out.get("events")
    rows = as_objects(opened_json(recorded) if isinstance(recorded, str) else recorded)
    if not rows or not any("event.name" in row for row in rows):
        return
    del out["events"]
    said = [row for row in rows if row.get("event.name") == "gen_ai.choice"]
    sent: Json = [row for row in rows if row.get("event.name") != "gen_ai.choice"]
    answers: Json = [row.get("message") or row for row in said]
    fill(out, "gen_ai.input.messages", sent or None, ("gen_ai.input.messages",))
    fill(out, "gen_ai.output.messages", answers or None, ("gen_ai.output.messages",))


def _unquoted(recorded: Json) -> Json:
    """The text that stands as JSON; anything else as it is."""
    if not isinstance(recorded, str) or recorded[:1] != '"':
        return recorded
    return opened_json(recorded) or recorded


def mlflow(out: Out, name: str) -> None:
    """MLflow, whose attributes are JSON text, the kind included."""
    for key in ("mlflow.spanInputs", "mlflow.spanOutputs"):
        out[key] = _unquoted(out.get(key))
    for key in _MLFLOW_NAMES:
        while out.get(key) != (plain := _unquoted(out.get(key))):
            out[key] = plain
    kind = as_text(out.get("mlflow.spanType")).lower()
    set_kind(out, _RUN_TYPES.get(kind))
    if kind == "tool":
        fill(out, "tool.name", out.get("mlflow.spanFunctionName") or name,
             ("tool.name", "gen_ai.tool.name"))  # fmt: skip
    usage = out.get("mlflow.chat.tokenUsage")
    usage = opened_json(usage) if isinstance(usage, str) else usage
    if isinstance(usage, dict):
        fill(out, "llm.token_count.prompt", usage.get("input_tokens"),
             ("llm.token_count.prompt", "gen_ai.usage.input_tokens"))  # fmt: skip
        fill(out, "llm.token_count.completion", usage.get("output_tokens"),
             ("llm.token_count.completion", "gen_ai.usage.output_tokens"))  # fmt: skip


def haystack(out: Out, name: str) -> None:
    """Haystack: a component is what its class name ends with."""
    piece = as_text(out.get("haystack.component.type"))
    if piece:
        set_kind(out, next(kind for end, kind in _PIECES if piece.endswith(end)))
    elif "agent" in name or "haystack.agent.input" in out:
        set_kind(out, "AGENT")
    else:
        set_kind(out, "CHAIN")


def platforms(out: Out, name: str) -> None:
    """Braintrust and LangWatch: the kind, and the model in an object of JSON."""
    kind = as_text(out.get("langwatch.span.type"))
    recorded = out.get("braintrust.span_attributes")
    value = opened_json(recorded) if isinstance(recorded, str) else recorded
    if isinstance(value, dict):
        kind = as_text(value.get("type"))
        if kind == "tool":
            fill(out, "tool.name", value.get("name") or name, ("tool.name", "gen_ai.tool.name"))
    set_kind(out, _RUN_TYPES.get(kind))
    about = out.get("braintrust.metadata")
    about = opened_json(about) if isinstance(about, str) else about
    if isinstance(about, dict):
        fill(out, "llm.model_name", about.get("model"), ("llm.model_name", "gen_ai.request.model"))


def beeai(out: Out, name: str) -> None:
    """BeeAI before 0.2, which wrote every event of a step as a span of its own."""
    match = _BEEAI_EVENT.match(as_text(out.get("target")))
    if match is None or not name.startswith(match[0]):
        return
    what, inner, event = match.groups()
    if what == "tool" and event in ("success", "error"):
        fill(out, "tool.name", inner, ("tool.name", "gen_ai.tool.name"))
    elif what != "backend" or event not in ("start", "success", "error"):
        set_kind(out, "CHAIN", force=True)


def plain_agents(out: Out, name: str) -> None:
    """Agents instrumented by hand: a tool has a result, a model call has a model and messages."""
    given, got = out.pop("agent.input_message", None), out.pop("agent.output_message", None)
    if "tool.result_json" in out:
        set_kind(out, "TOOL")
        given = out.pop("tool.args_json", None) or given
        got = out.pop("tool.result_json")
    elif given is None and got is None:
        set_kind(out, "CHAIN" if out.get("experiment.operation_type") == "workflow" else None)
    else:
        set_kind(out, "LLM" if "gen_ai.request.model" in out else "AGENT")
    fill(out, "input.value", given, _IN)
    fill(out, "output.value", got, _OUT)


def bare_values(out: Out, name: str) -> None:
    """`input`, `prompt` and `output` as such, which several frameworks write."""
    for keys, theirs in ((_IN, ("input", "prompt")), (_OUT, ("output",))):
        for key in theirs:
            value = out.get(key)
            if isinstance(value, str | dict | list):
                fill(out, keys[1], value, keys)
