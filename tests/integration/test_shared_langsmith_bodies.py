"""Real LangSmith batch bodies of the shared data, where they are at hand."""

from pathlib import Path

from contracts.traces import Trace
from tests.trace_worlds import FIELD_CASES, read_all, shared

MODELS = {"gpt-4o-mini", "o1-mini"}


def bodies() -> list[Path]:
    return sorted(shared("data", "langsmith").glob("langsmith_*.json.gz"))


def test_every_body_is_one_finished_model_call() -> None:
    assert len(bodies()) == 8
    traces, report = read_all(*bodies())
    assert (report.traces, report.spans, report.duplicates) == (8, 8, 0)
    assert (report.status, report.skipped, report.format) == ("complete", (), "langsmith-batch")
    for trace in traces:
        assert len(trace.spans) == 1
        assert_finished_call(trace)


def assert_finished_call(trace: Trace) -> None:
    call = trace.root
    assert (call.kind, call.status, call.name) == ("llm", "ok", "ChatOpenAI")
    assert call.model in MODELS
    assert call.finish_reason == "stop"
    assert call.ended_at is not None
    assert call.ended_at > call.started_at
    assert [message.role for message in call.messages_in] == ["user"]
    assert call.messages_out
    assert call.messages_out[-1].content
    assert trace.environment == "default"


def test_tokens_are_read_where_they_were_recorded_and_unknown_elsewhere() -> None:
    for path in bodies():
        (trace,), _ = read_all(path)
        counted = "usage" not in path.name or "no" not in path.name
        tokens = (trace.root.input_tokens, trace.root.output_tokens)
        assert (None not in tokens) if counted else (tokens == (None, None))


def test_a_run_that_was_never_closed_is_left_out_and_counted() -> None:
    traces, report = read_all(FIELD_CASES / "06-run-never-closed" / "runs_v2.json")
    assert traces == []
    assert (report.pending, report.status, report.format) == (1, "pending", "langsmith-runs")
