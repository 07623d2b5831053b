"""Every Langfuse export of the shared data is read whole: 20 exports, 138 observations."""

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from connectors.traces.langfuse.exports import EXPORT
from connectors.traces.raw import RawSpan
from connectors.traces.tree import Built, build_trace
from contracts.traces import Span
from tests.trace_worlds import shared

# What the agents of each export did: (model calls, tool calls, tools by name).
DONE: dict[str, tuple[int, int, set[str]]] = {
    "agno": (4, 1, {"duckduckgo_search"}),
    "autogen": (1, 0, set()),
    "claude-agent": (4, 2, {"mcp__weather__get_weather"}),
    "crewai": (1, 0, set()),
    "csharp-agent-with-gemini": (3, 2, {"get_custom_report", "final_result"}),
    "google-adk": (2, 1, {"say_hello"}),
    "google-gemini": (1, 0, set()),
    "koog": (2, 2, {"ByeTool", "HelloTool"}),
    "langgraph-js": (2, 1, {"get_weather"}),
    "langgraph-python": (2, 1, {"Web-Search"}),
    "llamaindex": (1, 0, set()),
    "microsoft-agent": (2, 1, {"get_weather"}),
    "openai-agents": (2, 1, {"get_weather"}),
    "pydantic-ai": (1, 0, set()),
    "pydantic-ai-tools": (1, 0, set()),
    "pydantic-ai-with-gemini": (1, 0, set()),
    "vertex-ai": (1, 0, set()),
}


def documents() -> dict[str, dict[str, Any]]:
    folder = shared("data", "langfuse")
    return {
        path.name.removesuffix(".trace.json.gz"): json.loads(gzip.decompress(path.read_bytes()))
        for path in sorted(folder.glob("*.trace.json.gz"))
    }


def built(document: dict[str, Any]) -> Built:
    assert EXPORT.takes(document)
    records = list(EXPORT.spans(document))
    assert None not in records
    return build_trace([one for one in records if one is not None], 1 << 18)


def test_every_observation_of_every_export_is_read_once() -> None:
    read = {name: built(document) for name, document in documents().items()}
    assert len(read) == 20
    assert sum(one.spans for one in read.values()) == 138
    assert sum(one.duplicates for one in read.values()) == 0
    orphans = {name: one.trace.orphans for name, one in read.items() if one.trace.orphans}
    assert orphans == {"csharp-agent-with-gemini-2026-03-09": 1}
    assert not any(one.trace.pending or one.trace.own for one in read.values())


@pytest.mark.parametrize("framework", DONE)
def test_model_and_tool_calls_are_told_apart_by_name(framework: str) -> None:
    named = {name.rsplit("-", 3)[0]: document for name, document in documents().items()
             if name != "pydantic-ai-tools-2025-12-04"}  # fmt: skip
    kinds = Counter(span.kind for span in built(named[framework]).trace.spans)
    tools = {s.tool_name for s in built(named[framework]).trace.spans if s.kind == "tool"}
    assert (kinds["llm"], kinds["tool"], tools) == DONE[framework]


def test_what_was_counted_is_known_and_nothing_else() -> None:
    for document in documents().values():
        rows = {row["id"]: row for row in document["observations"]}
        for span in built(document).trace.spans:
            usage = rows.get(span.id, {}).get("usageDetails", {})
            if span.input_tokens is not None:
                assert span.input_tokens == usage["input"]
            if not usage:
                assert (span.input_tokens, span.output_tokens) == (None, None)
    assert sum(_tokens(built(document).trace.spans) for document in documents().values()) > 9000


def _tokens(spans: tuple[Span, ...]) -> int:
    return sum((span.input_tokens or 0) + (span.output_tokens or 0) for span in spans)


def test_messages_of_model_calls_are_read() -> None:
    silent = [
        (name, span.name)
        for name, document in documents().items()
        for span in built(document).trace.spans
        if span.kind == "llm" and span.input is not None and not span.messages_in
    ]
    assert silent == []


def test_what_users_and_evaluators_said_stands_at_the_trace() -> None:
    read = {name.rsplit("-", 3)[0]: built(document).trace for name, document in documents().items()}
    beeai = read["beeai"].scores
    assert {(score.name, score.value, score.source) for score in beeai} == {
        ("hallucination", 0.2, "eval"), ("toxicity", 0.0, "eval"),
    }  # fmt: skip
    (correction,) = read["pydantic-ai"].scores
    assert correction.source == "annotation"
    assert str(correction.value).startswith("Langfuse is a tool")
    assert (read["autogen"].session_id, read["autogen"].user_id, read["autogen"].version) == (
        "session_abc", "user_123", "1.0.0",
    )  # fmt: skip
    assert read["autogen"].tags == ("autogen", "dev")


def test_attributes_of_the_recorders_own_spans_are_kept_and_keys_are_not() -> None:
    document = documents()["agno-2025-06-11"]
    spans = [one for one in EXPORT.spans(document) if isinstance(one, RawSpan)]
    assert any(span.attributes.get("tool.name") == "duckduckgo_search" for span in spans)
    assert not any("pk-lf-" in str(span) for span in spans)
