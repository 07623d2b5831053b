"""Real captures of many frameworks say what was called, with what, and what came of it."""

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from connectors.traces.ai_sdk import spans, takes
from connectors.traces.raw import RawSpan
from connectors.traces.tree import build_trace
from contracts.traces import Trace
from tests.trace_worlds import read_all, shared


def opened(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def captured(path: Path) -> list[Trace]:
    document = opened(path)
    items = document if isinstance(document, list) else [document]
    assert all(takes(item) for item in items)
    traces: dict[str, list[RawSpan]] = defaultdict(list)
    for item in items:
        for raw in spans(item):
            assert isinstance(raw, RawSpan)
            traces[raw.trace_id].append(raw)
    return [build_trace(raws, 1 << 18).trace for raws in traces.values()]


def test_every_capture_of_the_ai_sdk_is_read_whole() -> None:
    counts = {
        path.name.partition("__")[2].removesuffix(".json.gz"): sum(
            len(trace.spans) for trace in captured(path)
        )
        for path in sorted(shared("data", "openinference").glob("*.json.gz"))
    }
    assert counts == {
        "ai-embed": 1, "ai-embed-doEmbed": 1, "ai-generateObject": 1,
        "ai-generateObject-doGenerate": 1, "ai-generateText": 2, "ai-generateText-doGenerate": 2,
        "ai-streamText": 1, "ai-streamText-doStream": 1, "all-spans": 10, "capture-results": 0,
        "spans-by-operation": 10,
    }  # fmt: skip


def test_the_model_calls_of_the_ai_sdk_say_everything() -> None:
    traces = captured(shared("data", "openinference") / "v6-spans__all-spans.json.gz")
    found = [span for trace in traces for span in trace.spans]
    assert Counter(span.kind for span in found) == {
        "llm": 4, "agent": 3, "chain": 2, "embedding": 1,
    }  # fmt: skip
    for span in found:
        assert span.input is not None
        if span.kind == "llm":
            assert span.model == "gpt-4o-mini-2024-07-18"
            assert span.finish_reason == "stop"
            assert span.input_tokens
            assert span.output_tokens
            assert span.messages_in[-1].role == "user"
            assert span.messages_out[-1].content.strip()


@pytest.fixture(scope="module")
def faulted() -> list[Trace]:
    traces, report = read_all(shared("data", "otelfault"))
    assert (report.traces, report.spans, report.status) == (12, 72, "complete")
    return traces


def test_agents_tools_and_runs_are_told_apart(faulted: list[Trace]) -> None:
    for trace in faulted:
        assert [span.kind for span in trace.spans] == ["chain", "llm", "llm", "tool", "llm", "llm"]
        assert trace.root.input is not None
        for span in trace.spans:
            if span.kind == "llm":
                assert span.model
                assert span.input_tokens
                assert [m.role for m in span.messages_in] == ["user"]
                assert [m.role for m in span.messages_out] == ["assistant"]


def test_every_tool_has_its_arguments_and_its_whole_answer(faulted: list[Trace]) -> None:
    failed = 0
    for trace in faulted:
        [tool] = [span for span in trace.spans if span.kind == "tool"]
        assert tool.tool_name == "ProductCatalogSearch"
        assert tool.input is not None
        assert isinstance(tool.input.value, dict)
        assert tool.output is not None
        assert isinstance(tool.output.value, dict)
        refused = tool.output.value.get("ok") is False
        assert (tool.status == "error") is refused
        if refused:
            failed += 1
            assert tool.error is not None
            assert tool.error.message
            assert tool.error.type
    assert failed == 7


def test_the_answers_that_the_data_leaks_are_nowhere_in_what_is_read(faulted: list[Trace]) -> None:
    for path in sorted(shared("data", "otelfault").glob("*.otel.json.gz")):
        document = opened(path)
        [trace] = [t for t in faulted if t.id == document["spans"][0]["trace_id"]]
        expected = document["task_metadata"]["expected_result"]
        for span in trace.spans:
            kept = json.dumps(dict(span.attributes))
            shown = "".join(p.text for p in (span.input, span.output) if p is not None)
            assert expected not in kept + shown
            assert "fault.injected" not in kept
            assert not {"task.expected_result", "validation.criteria_json"} & set(span.attributes)


EXPORTS = {  # export: (model calls, messages of them, calls they ask for, tools, agents)
    "agno-2025-06-11": (4, 11, 1, 1, 1),
    "autogen-2025-06-06": (1, 2, 0, 0, 0),
    "beeai-2025-08-01": (4, 10, 0, 1, 1),
    "claude-agent-2025-12-22": (4, 8, 2, 2, 0),
    "crewai-2025-07-11": (1, 3, 0, 0, 1),
    "csharp-agent-with-gemini-2026-03-09": (3, 14, 2, 2, 0),
    "google-adk-2025-08-28": (2, 8, 1, 1, 1),
    "google-gemini-2025-08-01": (1, 2, 0, 0, 0),
    "koog-2025-08-26": (2, 11, 2, 2, 2),
    "langgraph-js-2025-10-30": (2, 6, 1, 1, 0),
    "langgraph-python-2025-08-22": (2, 8, 1, 1, 0),
    "llamaindex-2025-06-05": (1, 2, 0, 0, 0),
    "microsoft-agent-2025-12-17": (2, 4, 1, 1, 1),
    "openai-agents-2025-09-30": (2, 8, 1, 1, 2),
    "pydantic-ai-2025-06-06": (1, 3, 0, 0, 1),
    "pydantic-ai-tools-2025-06-06": (1, 3, 0, 0, 1),
    "pydantic-ai-tools-2025-12-04": (4, 22, 4, 3, 3),
    "pydantic-ai-with-gemini-2025-12-24": (1, 2, 0, 0, 0),
    "vercel-aisdk-2025-11-17": (1, 2, 1, 1, 1),
    "vertex-ai-2025-08-01": (1, 2, 0, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("export", EXPORTS)
def test_an_export_of_a_framework_tells_calls_tools_and_agents(export: str) -> None:
    [trace], _ = read_all(shared("data", "langfuse") / f"{export}.trace.json.gz")
    found = trace.spans
    calls = [span for span in found if span.kind == "llm"]
    messages = [m for span in calls for m in (*span.messages_in, *span.messages_out)]
    tools = [span for span in found if span.kind == "tool"]
    assert (
        len(calls),
        len(messages),
        sum(len(m.tool_calls) for span in calls for m in span.messages_out),
        len(tools),
        sum(span.kind == "agent" for span in found),
    ) == EXPORTS[export]
    for message in messages:
        assert message.role in {"system", "user", "assistant", "tool"}
        assert message.content or message.tool_calls
    for span in tools:
        assert span.input is not None
        assert isinstance(span.input.value, dict) or span.input.text.startswith("{")


def test_no_export_is_left_out() -> None:
    found = {path.name.partition(".")[0] for path in shared("data", "langfuse").glob("*.trace.*")}
    assert found == set(EXPORTS)
