"""Logs of steps: whatever stands in them, reading neither fails nor loses their order."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.traces import atif, chat_logs, inspect_logs, swe_agent
from connectors.traces.logged import content_trace_id, time_ns, usage
from connectors.traces.raw import MAX_NS
from contracts.json_types import Json
from tests.step_logs import Format, built

FORMATS = cast("tuple[Format, ...]", (chat_logs, atif, inspect_logs, swe_agent))
FEW = settings(max_examples=60)
KEYS = st.sampled_from(
    ["messages", "traj", "history", "conversations", "role", "content", "from", "value", "type",
     "data", "name", "tool_calls", "tool_call_id", "function", "arguments", "id", "steps", "source",
     "message", "observation", "results", "source_call_id", "subagent_trajectory_ref",
     "subagent_trajectories", "trajectory_id", "metrics", "extra", "timestamp", "schema_version",
     "agent", "samples", "events", "event", "output", "choices", "usage", "input", "input_refs",
     "message_pool", "attachments", "span_id", "parent_id", "epoch", "scores", "error", "eval",
     "trajectory", "action", "response", "info", "question", "system_prompt", "uuid", "is_demo"]
)  # fmt: skip
PLAIN: st.SearchStrategy[Json] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from(["assistant", "user", "tool", "system", "agent", "model", "span_begin",
                       "tool_result", "tool_use", "\ud800", "attachment://x",
                       "2026-01-01", "ATIF-v1.2"])
)  # fmt: skip
ANY: st.SearchStrategy[Json] = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=7),
    max_leaves=30,
)


@FEW
@given(st.dictionaries(KEYS, ANY, max_size=8))
def test_any_object_is_read_or_left_alone(value: dict[str, Json]) -> None:
    for format_ in FORMATS:
        format_.takes(value)
        built(format_.spans(value))


ROWS = st.dictionaries(KEYS, ANY, max_size=5)


@FEW
@given(st.lists(st.fixed_dictionaries({"role": PLAIN, "content": ANY}, optional={
    "tool_calls": st.lists(ROWS, max_size=3) | ANY, "tool_call_id": PLAIN, "name": PLAIN,
    "timestamp": PLAIN, "usage": ANY, "error": ANY}), max_size=6))  # fmt: skip
def test_any_messages_are_read(rows: list[dict[str, Json]]) -> None:
    messages: list[Json] = list(rows)
    chat_logs.takes_list(messages)
    built(chat_logs.list_spans(messages))
    built(chat_logs.spans({"messages": messages, "system_prompt": {"a": "b"}}))
    steps: list[Json] = [{**row, "source": row["role"], "message": row["content"],
                          "observation": {"results": [row]}} for row in rows]  # fmt: skip
    built(atif.spans({"steps": steps, "agent": {}, "subagent_trajectories": [{"steps": steps}]}))
    events: list[Json] = [{"event": kind, "output": {"choices": [{"message": row}]}, **row}
                          for row in rows for kind in ("model", "tool", "span_begin")]  # fmt: skip
    built(inspect_logs.spans({"messages": messages, "events": events, "id": 1, "epoch": 1,
                              "input": messages}))  # fmt: skip
    acted: list[Json] = [{**row, "action": row["content"], "observation": row["content"]}
                         for row in rows]  # fmt: skip
    built(swe_agent.spans({"trajectory": acted, "history": messages}))
    built(swe_agent.spans({"history": acted}))


def test_depth_and_loops_are_bounded() -> None:
    deep: Json = "x"
    for _ in range(100_000):
        deep = [deep]
    messages: list[Json] = [
        {"role": "assistant", "content": "", "tool_calls": [{"name": "f", "arguments": deep}]},
        {"role": "tool", "content": "ok"},
        {"role": "assistant", "content": deep},
    ]
    assert len(list(chat_logs.list_spans(messages))) == 4
    nested: dict[str, Json] = {"steps": [{"source": "agent", "message": "x"}]}
    for _ in range(3000):
        nested = {"steps": [{"source": "agent", "message": "x"}], "subagent_trajectories": [nested]}
    assert len(list(atif.spans(nested))) == 2 * atif.MAX_TRAJECTORIES
    circle: list[Json] = [
        {"event": "span_begin", "id": "a", "parent_id": "b", "type": "agent"},
        {"event": "span_begin", "id": "b", "parent_id": "a", "type": "agent"},
        {"event": "model", "span_id": "a", "output": {"choices": [{"message": {"content": "x"}}]}},
    ]
    sample: dict[str, Json] = {"id": 1, "epoch": 1, "input": "", "messages": [], "events": circle}
    assert len(built(inspect_logs.spans(sample))) == 1


@FEW
@given(st.lists(st.sampled_from(["user", "assistant", "tool"]), min_size=1, max_size=30),
       st.lists(st.none() | st.integers(0, 40), min_size=30, max_size=30))  # fmt: skip
def test_steps_keep_the_order_of_the_log_whatever_its_clock_says(
    roles: list[str], seconds: list[int | None]
) -> None:
    rows: list[Json] = []
    for number, (role, at) in enumerate(zip(roles, seconds, strict=False)):
        row: dict[str, Json] = {"role": role, "content": str(number)}
        if at is not None:
            row["timestamp"] = f"2026-01-01T00:00:{at:02d}Z"
        rows.append(row)
    (trace,) = built(chat_logs.list_spans(rows))
    told = [int(s.output.text) for s in trace.spans[1:] if s.output is not None]
    assert told == [n for n, role in enumerate(roles) if role != "user"]
    begun = [span.started_at for span in trace.spans]
    assert begun == sorted(begun)
    assert trace.root.ended_at is not None
    assert all(s.started_at <= trace.root.ended_at for s in trace.spans)


@FEW
@given(PLAIN | ANY)
def test_a_time_is_within_what_a_date_can_hold_or_unknown(value: Json) -> None:
    found = time_ns(value)
    assert found is None or 0 < found <= MAX_NS


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        ("2026-03-01T10:00:00", 1_772_359_200_000_000_000),
        ("2026-03-01T12:00:00+02:00", 1_772_359_200_000_000_000),
        (1_772_359_200, 1_772_359_200_000_000_000),
        ("1772359200.5", 1_772_359_200_500_000_000),
        (1_772_359_200_000, 1_772_359_200_000_000_000),
        (1_772_359_200_000_000, 1_772_359_200_000_000_000),
        (12, None),
        ("soon", None),
        (True, None),
    ],
)
def test_times_of_every_unit_are_utc(value: Json, ns: int | None) -> None:
    assert time_ns(value) == ns


@FEW
@given(ANY, ANY, ANY, st.booleans())
def test_what_was_not_counted_is_never_zero(
    sent: Json, received: Json, cost: Json, spoke: bool
) -> None:
    known = usage(sent=sent, received=received, cost_usd=cost, spoke=spoke)
    assert known.get("llm.token_count.prompt") != 0
    assert not (spoke and known.get("llm.token_count.completion") == 0)
    assert None not in known.values()


@FEW
@given(ANY)
def test_ids_are_made_from_content(value: Json) -> None:
    assert content_trace_id("x", value) == content_trace_id("x", value)
    assert len(content_trace_id(value)) == 32
