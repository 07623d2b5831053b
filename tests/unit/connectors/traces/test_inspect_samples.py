"""Inspect logs: samples by their events or messages, texts put back, verdicts kept apart."""

from datetime import UTC, datetime

import pytest

from connectors.traces import inspect_logs, inspect_texts
from connectors.traces.raw import RawNote
from contracts.json_types import Json
from contracts.traces import Span, Trace
from tests.step_logs import built, one, steps, texts

CALL: Json = {"id": "c1", "function": "bash", "arguments": {"cmd": "attachment://a1"}}
ASKED: Json = {"role": "user", "content": "attachment://a2", "source": "input"}
SAID: Json = {"role": "assistant", "content": "", "tool_calls": [CALL]}
TOLD: Json = {"role": "tool", "content": "no such file", "tool_call_id": "c1", "function": "bash",
              "error": {"type": "file_not_found", "message": "no such file"}}  # fmt: skip
ENDED: Json = {"role": "assistant", "content": "tc://a3"}
TEXTS: Json = {"a1": "cat x", "a2": "read x", "a3": "there is none"}


def model(at: int, message: Json, *, given: Json = None, **more: Json) -> dict[str, Json]:
    usage: Json = {"input_tokens": 10, "output_tokens": 3, "input_tokens_cache_read": 0}
    choice: Json = {"message": message, "stop_reason": "stop"}
    return {
        "event": "model", "timestamp": f"2026-05-01T10:00:{at:02d}+02:00", "model": "p/m",
        "completed": f"2026-05-01T10:00:{at + 1:02d}+02:00", "input": given or [ASKED],
        "output": {"model": "m", "choices": [choice], "usage": usage}, **more,
    }  # fmt: skip


def tool(at: int, **more: Json) -> dict[str, Json]:
    return {
        "event": "tool", "timestamp": f"2026-05-01T10:00:{at:02d}+02:00", "id": "c1",
        "completed": f"2026-05-01T10:00:{at + 2:02d}+02:00", "function": "bash",
        "arguments": {"cmd": "cat x"}, "result": "no such file",
        "error": {"type": "file_not_found", "message": "no such file"}, **more,
    }  # fmt: skip


def sample(**more: Json) -> dict[str, Json]:
    return {
        "id": 1, "epoch": 1, "input": "attachment://a2", "target": "VERDICT",
        "messages": [ASKED, SAID, TOLD, ENDED], "attachments": TEXTS, "uuid": "u" * 22,
        "scores": {"match": {"value": "I", "answer": "x", "explanation": "VERDICT"}},
        "metadata": {"answer": "VERDICT", "session_id": "s1"}, **more,
    }  # fmt: skip


def log(*samples: Json, **more: Json) -> dict[str, Json]:
    evaluated: Json = {"task": "files", "created": "2026-05-01T09:00:00+02:00", "tags": ["night"]}
    return {"version": 2, "status": "success", "eval": evaluated, "samples": list(samples), **more}


def read(value: dict[str, Json]) -> Trace:
    assert inspect_logs.takes(value)
    return one(inspect_logs.spans(value))


def said(trace: Trace, text: str) -> Span:
    """The model call that said it."""
    return next(s for s in trace.spans if s.messages_out and s.messages_out[0].content == text)


EVENTS: list[Json] = [model(1, SAID), tool(3), model(6, ENDED, given=[ASKED, SAID, TOLD])]


@pytest.mark.parametrize("events", [[], EVENTS])
def test_messages_and_events_tell_the_same_run(events: list[Json]) -> None:
    trace = read(log(sample(events=events)))
    assert steps(trace) == ["agent sample", "llm model", "tool bash", "llm model"]
    root, call, bash, last = trace.spans
    assert root.input is not None
    assert root.output is not None
    assert (root.input.text, root.output.text) == ("read x", "there is none")
    assert [m.content for m in call.messages_in] == ["read x"]
    assert bash.input is not None
    assert bash.input.value == {"cmd": "cat x"}
    assert bash.error is not None
    assert (bash.status, bash.error.type) == ("error", "file_not_found")
    assert last.messages_out[0].content == "there is none"
    assert (trace.session_id, trace.tags) == ("s1", ("night",))


def test_events_tell_times_and_counts_too() -> None:
    trace = read(sample(events=EVENTS))
    _, call, bash, last = trace.spans
    assert call.started_at == datetime(2026, 5, 1, 8, 0, 1, tzinfo=UTC)
    assert call.ended_at == datetime(2026, 5, 1, 8, 0, 2, tzinfo=UTC)
    assert (bash.started_at.second, bash.ended_at and bash.ended_at.second) == (3, 5)
    assert (call.model, call.input_tokens, call.output_tokens) == ("m", 10, 3)
    assert (call.cost_usd, last.finish_reason) == (None, "stop")


def test_without_any_time_the_evaluations_own_is_taken() -> None:
    trace = read(log(sample()))
    assert trace.started_at == datetime(2026, 5, 1, 7, 0, tzinfo=UTC)


def test_a_verdict_stands_beside_the_trace_and_nowhere_in_it() -> None:
    grading = model(8, {"role": "assistant", "content": "VERDICT"},
                    given=[{"role": "user", "content": "VERDICT"}], span_id="g")  # fmt: skip
    begun: Json = {"event": "span_begin", "id": "g", "type": "scorer", "name": "match"}
    old: list[Json] = [
        {"event": "step", "action": "begin", "type": "scorer", "name": "match"},
        model(8, {"role": "assistant", "content": "VERDICT"}),
        {"event": "step", "action": "end", "type": "scorer", "name": "match"},
    ]
    for judging in ([begun, grading], old):
        trace = read(log(sample(events=[*EVENTS, *judging])))
        assert len(trace.spans) == 4
        assert "VERDICT" not in texts(trace)
        (score,) = trace.scores
        assert (score.name, score.value, score.source) == ("match", "I", "eval")


def test_input_by_reference_to_the_pool_is_put_back() -> None:
    pooled = model(1, SAID, input_refs=[[1, 2], [9, 12], [True], "x"])
    pooled["input"] = []
    trace = read(sample(events=[pooled], message_pool=[ENDED, ASKED, SAID]))
    assert [m.content for m in trace.spans[1].messages_in] == ["read x"]


def test_a_text_referred_to_at_will_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inspect_texts, "MAX_CHARS", 10_000)
    many: Json = {"role": "user", "content": ["attachment://a"] * 300}
    large: Json = {"a": "x" * 1000}
    trace = read(sample(messages=[many, ENDED], attachments=large, input=[many], events=[]))
    held = sum(len(message.content) for message in trace.spans[1].messages_in)
    assert 5000 < held < 20_000


def test_an_agent_within_the_run_has_its_own_span() -> None:
    started = tool(3, agent_span_id="a", error=None)
    events: list[Json] = [
        model(1, SAID),
        started,
        {"event": "span_begin", "id": "s", "type": "solver", "name": "x"},
        {"event": "span_begin", "id": "a", "parent_id": "s", "type": "agent", "name": "helper"},
        model(4, {"role": "assistant", "content": "inner"}, span_id="a"),
        model(9, ENDED, span_id="s"),
    ]
    trace = read(sample(events=events))
    helper = next(span for span in trace.spans if span.name == "helper")
    bash = next(span for span in trace.spans if span.kind == "tool")
    inner = said(trace, "inner")
    assert (helper.parent_id, inner.parent_id) == (bash.id, helper.id)
    assert trace.root.output is not None
    assert trace.root.output.text == "there is none"


def test_what_older_logs_keep_within_a_tool_hangs_under_it() -> None:
    nested = tool(2, events=[model(3, {"role": "assistant", "content": "inner"})])
    trace = read(sample(events=[model(1, SAID), nested, model(7, ENDED)]))
    bash = next(span for span in trace.spans if span.kind == "tool")
    inner = said(trace, "inner")
    (within,) = [span for span in trace.spans if span.parent_id == bash.id]
    assert (within.kind, inner.parent_id) == ("agent", within.id)


@pytest.mark.parametrize(
    ("ended", "status", "said"),
    [
        ({"error": {"message": "RuntimeError('no model')", "traceback": "..."}}, "error",
         "RuntimeError('no model')"),
        ({"limit": {"type": "message", "limit": 30}}, "error",
         "reached max: the message limit of 30 was exceeded"),
        ({"limit": {"type": "operator", "limit": 1}}, "unset", None),
    ],
)  # fmt: skip
def test_how_a_run_ended_is_said_at_its_own_span(
    ended: dict[str, Json], status: str, said: str | None
) -> None:
    root = read(sample(**ended)).root
    assert root.status == status
    assert (root.error.message if root.error else None) == said


def test_epochs_and_runs_without_ids_are_traces_of_their_own() -> None:
    several = [sample(uuid=None, epoch=epoch) for epoch in (1, 2)]
    traces = built(inspect_logs.spans(log(*several)))
    assert len({trace.id for trace in traces}) == 2
    assert read(several[0]).id == traces[0].id  # as in an archive, so in a log


def test_a_header_is_taken_and_holds_no_trace() -> None:
    header: dict[str, Json] = {"version": 2, "status": "started", "eval": {"task": "x"}}
    assert inspect_logs.takes(header)
    assert list(inspect_logs.spans(header)) == []


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "epoch": 1, "input": "x", "target": "y", "scores": {}},
        {"version": 1, "eval": "x"},
        {"eval": {"task": "x"}},
        {"messages": [ASKED, ENDED]},
    ],
)
def test_summaries_and_other_json_are_not_taken(value: dict[str, Json]) -> None:
    assert not inspect_logs.takes(value)


def test_scores_of_every_shape_are_kept() -> None:
    scores: Json = {"a": {"value": 0.5}, "b": {"value": {"x": 1}}, "c": True, "d": {"value": None}}
    notes = [r for r in inspect_logs.spans(sample(scores=scores)) if isinstance(r, RawNote)]
    assert {s.name: s.value for s in notes[0].scores} == {
        "a": 0.5, "b": '{"x":1}', "c": True, "d": None,
    }  # fmt: skip
