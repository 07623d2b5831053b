"""The small attributes of a span, worked out when somebody asks for them."""

from collections.abc import Iterator, Mapping
from typing import Final

import orjson

from connectors.traces.raw import RawSpan, as_text
from contracts.json_types import Json

MAX_ATTRIBUTES = 64
MAX_ATTRIBUTE_CHARS = 512
_BULKY: Final = (
    "llm.prompts.", "llm.input_messages.", "llm.output_messages.", "gen_ai.prompt.",
    "gen_ai.completion.", "gen_ai.input.", "gen_ai.output.", "gen_ai.system_instructions",
    "gen_ai.tool.", "langfuse.observation.input", "langfuse.observation.output", "input.",
    "output.", "retrieval.documents.", "metadata", "llm.token_count.", "embedding.",
)  # fmt: skip
"""Attributes that other fields of a span already hold, or that nothing reads."""


class SmallAttributes(Mapping[str, Json]):
    """Small attributes, the node of the graph, and the tools that were offered to the model.

    Worked out when first asked for: of most spans nobody looks at them.
    """

    __slots__ = ("_made", "_raw")

    def __init__(self, raw: RawSpan) -> None:
        self._raw: RawSpan | None = raw
        self._made: dict[str, Json] = {}

    def __getitem__(self, key: str) -> Json:
        """The value of one attribute."""
        return self._whole()[key]

    def __iter__(self) -> Iterator[str]:
        """The keys."""
        return iter(self._whole())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._whole())

    def _whole(self) -> dict[str, Json]:
        if self._raw is not None:
            self._made = _kept(self._raw)
            self._raw = None
        return self._made


def _kept(raw: RawSpan) -> dict[str, Json]:
    kept: dict[str, Json] = {}
    tools: list[str] = []
    for key, value in raw.attributes.items():
        if key.startswith("llm.tools."):
            if isinstance(value, str):
                tools.append(value)
        elif len(kept) == MAX_ATTRIBUTES or key.startswith(_BULKY):
            continue
        elif isinstance(value, str):
            kept[key] = value[:MAX_ATTRIBUTE_CHARS]
        elif isinstance(value, bool | int | float):
            kept[key] = value
    if tools:
        kept["llm.tools"] = tools[:MAX_ATTRIBUTES]
    node = node_of(raw.attributes)
    if node:
        kept["node"] = node
    if raw.replaced:
        kept["tracemend.invalid_utf8"] = True
    return kept


def node_of(a: Mapping[str, Json]) -> str:
    """The graph node in which the step ran, where the recorder wrote it down."""
    named = as_text(a.get("graph.node.id"))
    metadata = a.get("metadata")
    if not named and isinstance(metadata, str) and "langgraph_node" in metadata:
        try:
            value = orjson.loads(metadata)
        except ValueError:
            return ""
        named = as_text(value.get("langgraph_node")) if isinstance(value, dict) else ""
    return named[:128]
