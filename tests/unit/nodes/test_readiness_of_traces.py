"""Properties of readiness that traces show are worked out; where nothing is known, unknown."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from contracts.json_types import Json
from contracts.traces import Trace
from nodes.readiness.properties import by_share
from nodes.readiness.recorded import Sample, context, errors, prompts, workflow
from nodes.readiness.windows import window_of
from tests.trace_worlds import OtlpSpan, root, span, tool, trace_of


def sample(*traces: Trace) -> Sample:
    return Sample(traces=traces, said=f"traces are whole (all {len(traces)} read)")


PROMPT: dict[str, Json] = {
    "langfuse.observation.prompt.name": "p",
    "langfuse.observation.prompt.version": "3",
}


def call(also: Mapping[str, Json] | None = None) -> OtlpSpan:
    return span(1, "LLM", "model", also=also)


WHOLE = trace_of(root(), tool(1, "find", {"q": 1}, {"ok": True}))


def test_whole_traces_reconstruct_the_workflow() -> None:
    found = workflow(sample(WHOLE, trace_of(root())))
    assert (found.state, found.advice) == ("ok", "")
    assert found.evidence == "2 of 2 (100%) traces are whole (all 2 read)"


@pytest.mark.parametrize(
    ("spans", "lack", "advice"),
    [
        ([tool(1, "find", {"q": 1}, "x", parent=9)], "1 without a root", "one span around"),
        (
            [root(), tool(1, "find", {"q": 1}, "x", parent=9)],
            "1 with steps whose parent",
            "context",
        ),
        ([root(), tool(1, "find", {"q": 1})], "1 with a tool call without answer", "output"),
        (
            [root(), span(1, "TOOL", "find", tool__name="find", output__value="x")],
            "1 with a tool call without arguments",
            "input",
        ),
    ],
)
def test_what_a_trace_lacks_is_counted_and_advised(
    spans: list[OtlpSpan], lack: str, advice: str
) -> None:
    found = workflow(sample(trace_of(*spans)))
    assert found.state == "no"
    assert found.evidence.startswith("0 of 1 (0%)")
    assert lack in found.evidence
    assert found.advice


def test_failed_steps_with_a_code_are_categorised_and_bare_ones_named() -> None:
    coded = tool(1, "pay", {"n": 1}, {"error": "bad gateway", "status": 502})
    bare = tool(1, "pay", {"n": 1}, {"error": "it did not work"})
    both = errors(sample(trace_of(root(), coded), trace_of(root(), bare)))
    assert both.state == "warn"
    assert both.evidence.startswith("1 of 2 (50%) failed steps")
    assert "most often tool_error:pay" in both.evidence
    assert errors(sample(trace_of(root(), coded))).state == "ok"
    assert errors(sample(WHOLE)).state == "unknown"


def test_a_prompt_version_a_release_or_git_tell_the_version(tmp_path: Path) -> None:
    linked = trace_of(root(), call(PROMPT))
    plain = trace_of(root(), call())
    assert prompts(sample(linked), tmp_path).state == "ok"
    half = prompts(sample(linked, plain), tmp_path)
    assert (half.state, half.evidence[:14]) == ("warn", "1 of 2 (50%) m")
    assert prompts(sample(plain), tmp_path).state == "no"
    assert prompts(sample(), tmp_path).state == "unknown"
    (tmp_path / ".git").mkdir()
    assert prompts(sample(plain), tmp_path / "inside").state == "ok"


def model_call(tokens: int | None, model: str) -> Trace:
    counted: dict[str, Json] = {} if tokens is None else {"llm.token_count.prompt": tokens}
    return trace_of(root(), call({"llm.model_name": model, **counted}))


def test_calls_near_the_window_are_counted() -> None:
    fine = context(sample(model_call(1000, "gpt-4o-mini")))
    assert fine.state == "ok"
    assert "0 of 1 measured" in fine.evidence
    near = context(sample(model_call(120_000, "openai/gpt-4o"), *[model_call(9, "gpt-4o")] * 19))
    assert near.state == "warn"
    assert "the largest 94%" in near.evidence
    assert context(sample(model_call(120_000, "gpt-4o"))).state == "no"


def test_unknown_tokens_and_models_are_said_and_never_counted_as_fine() -> None:
    found = context(sample(model_call(None, "gpt-4o"), model_call(5, "in-house-7b")))
    assert found.state == "unknown"
    assert "1 calls tell no tokens, 1 a model whose window is not known" in found.evidence
    assert context(sample(WHOLE)).state == "unknown"


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("gpt-4o-2024-08-06", 128_000),
        ("gpt-4-0613", 8_192),
        ("us.anthropic.claude-sonnet-4", 200_000),
        ("models/gemini-2.5-pro", 1_048_576),
        ("in-house-7b", None),
        (None, None),
    ],
)
def test_a_window_is_told_by_the_longest_known_beginning(
    model: str | None, size: int | None
) -> None:
    assert window_of(model) == size


def test_no_trace_is_unknown_and_never_ok() -> None:
    empty = sample()
    assert {workflow(empty).state, errors(empty).state, context(empty).state} == {"unknown"}


@pytest.mark.parametrize(
    ("good", "total", "state"),
    [(0, 0, "unknown"), (0, 9, "no"), (5, 10, "warn"), (94, 100, "warn"), (95, 100, "ok")],
)
def test_a_share_gives_the_state(good: int, total: int, state: str) -> None:
    assert by_share("p", good, total, "e", "a").state == state
