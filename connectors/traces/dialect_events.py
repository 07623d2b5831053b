"""Input and output of a step that its framework wrote as events of the span.

Source: GenAI conventions of 2024 to 2026 (`gen_ai.user.message`, `gen_ai.choice`, and
`gen_ai.client.inference.operation.details`), as Strands Agents, Semantic Kernel and OpenLIT emit.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from connectors.traces.chat_rows import opened_json
from connectors.traces.dialect_frames import KIND, fill
from connectors.traces.raw import as_text
from contracts.json_types import Json

_DETAILS: Final = "gen_ai.client.inference.operation.details"
_CARRIED: Final = (
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
    "gen_ai.tool.definitions", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
)  # fmt: skip
_IN: Final = (
    "langfuse.observation.input", "input.value", "gen_ai.input.messages",
    "gen_ai.tool.call.arguments",
)  # fmt: skip
_OUT: Final = (
    "langfuse.observation.output", "output.value", "gen_ai.output.messages",
    "gen_ai.tool.call.result",
)  # fmt: skip
_TOOL: Final = frozenset({"tool", "execute_tool"})


def from_events(out: dict[str, Json], events: Sequence[tuple[str, Mapping[str, Json]]]) -> None:
    """Fill in what only the events hold; messages of model calls are read from them elsewhere."""
    kind = (as_text(out.get(KIND)) or as_text(out.get("gen_ai.operation.name"))).lower()
    is_call = kind in ("llm", "chat", "text_completion", "generate_content")
    asked: list[Json] = []
    for name, attributes in events:
        if name == _DETAILS:
            for key in _CARRIED:
                fill(out, key, attributes.get(key), (key,))
        elif name == "gen_ai.content.prompt":
            fill(out, "input.value", attributes.get("gen_ai.prompt"), _IN)
        elif name == "gen_ai.content.completion":
            fill(out, "output.value", attributes.get("gen_ai.completion"), _OUT)
        elif is_call:
            continue
        elif name == "gen_ai.choice":
            _answer(out, attributes)
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            asked.append(_plain(attributes.get("content")))
    given = [value for value in asked if value is not None]
    if given:
        fill(out, "input.value", given[-1] if kind in _TOOL or len(given) == 1 else given, _IN)


def _answer(out: dict[str, Json], attributes: Mapping[str, Json]) -> None:
    message = attributes.get("message")
    if message is None:
        message = attributes.get("content")
    fill(out, "output.value", _plain(message), _OUT)


def _plain(recorded: Json) -> Json:
    """The text of parts `[{"text": ...}]` that were written as JSON; anything else as it is."""
    value = (
        opened_json(recorded) if isinstance(recorded, str) and recorded[:2] == "[{" else recorded
    )
    if not isinstance(value, list) or not value:
        return recorded
    texts = [part.get("text") for part in value if isinstance(part, dict)]
    if len(texts) == len(value) and all(isinstance(text, str) for text in texts):
        return "\n".join(as_text(text) for text in texts)
    return recorded
