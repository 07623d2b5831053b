"""The tools that a model was offered and what a tool was given, where only a schema tells them."""

from collections.abc import Mapping
from typing import Final

from connectors.traces.chat_rows import json_text, opened_json
from connectors.traces.dialect_frames import Out, fill, popped
from contracts.json_types import Json

MAX_TOOLS: Final = 64
_INPUT: Final = ("langfuse.observation.input", "input.value", "gen_ai.tool.call.arguments")


def tool_parameters(out: Out, name: str) -> None:
    """`gen_ai.tool.parameters`: a tool's arguments to some, its schema to others."""
    recorded = out.get("gen_ai.tool.parameters")
    value = opened_json(recorded) if isinstance(recorded, str) else recorded
    if isinstance(value, dict) and not _is_schema(value):
        fill(out, "input.value", recorded, _INPUT)


def _is_schema(value: Mapping[str, Json]) -> bool:
    if "properties" in value or "$schema" in value:
        return True
    return bool(value) and all(isinstance(x, dict) and "type" in x for x in value.values())


def offered_tools(out: Out, name: str) -> None:
    """The tools that the model was offered, each as its JSON."""
    if "llm.tools.0.tool.json_schema" in out:
        return
    for key in ("gen_ai.tool.definitions", "model_request_parameters", "ai.prompt.tools",
                "llm.tools", "llm.request.functions", "mlflow.chat.tools"):  # fmt: skip
        recorded = out.get(key)
        value = opened_json(recorded) if isinstance(recorded, str) else recorded
        if isinstance(value, dict):
            value = value.get("function_tools")
        if isinstance(value, list) and value:
            del out[key]
            for at, tool in enumerate(value[:MAX_TOOLS]):
                out[f"llm.tools.{at}.tool.json_schema"] = json_text(tool)
            return
    _numbered_functions(out)


def _numbered_functions(out: Out) -> None:
    for at in range(MAX_TOOLS):
        prefix = f"llm.request.functions.{at}."
        about = {what: out.pop(prefix + what, None) for what in ("name", "description")}
        if about["name"] is None:
            return
        schema = popped(out, prefix + "parameters", prefix + "arguments", prefix + "input_schema")
        about["parameters"] = opened_json(schema) if isinstance(schema, str) else schema
        out[f"llm.tools.{at}.tool.json_schema"] = json_text(about)
