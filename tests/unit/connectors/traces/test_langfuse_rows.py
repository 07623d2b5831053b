"""One Langfuse observation, however it is written: what becomes known, and what stays unknown."""

import json
from collections.abc import Mapping

import pytest

from connectors.traces.langfuse.rows import AS_ROOT, free_roots, is_row, row_span
from connectors.traces.raw import RawSpan
from connectors.traces.tree import build_trace
from contracts.json_types import Json
from contracts.traces import Span

TRACE = "9d593dcc30affb73abd74501bf1cac40"
Row = dict[str, Json]


def row(number: int = 1, kind: str = "GENERATION", **also: Json) -> Row:
    """A row of observations v2 as a 4.16 server gives it: "" and 0 where nothing was recorded."""
    return {
        "id": f"{number:016x}", "traceId": TRACE, "type": kind, "name": f"step {number}",
        "startTime": "2026-11-24T09:00:00.050Z", "endTime": "2026-11-24T09:00:01.050Z",
        "projectId": "p", "parentObservationId": None if number == 1 else f"{1:016x}",
        "level": "DEFAULT", "statusMessage": "", "version": "", "environment": "production",
        "userId": "", "sessionId": "s-1", "isRootObservation": number == 1,
        "input": '[{"role": "user", "content": "hi"}]',
        "output": '{"role": "assistant", "content": "hello"}',
        "metadata": {}, "model": "gpt-4o-mini", "usageDetails": {"input": 40, "output": 8},
        "costDetails": {"input": 1e-5, "output": 2e-5, "total": 3e-5}, "totalCost": 3e-5,
        "tags": ["a"], "traceName": "run", "release": "", **also,
    }  # fmt: skip


def blob(number: int = 1, **also: Json) -> Row:
    """The same as a row of a blob export."""
    return {
        "id": f"{number:016x}", "trace_id": TRACE, "type": "GENERATION", "name": f"step {number}",
        "start_time": "2026-11-24 09:00:00.050000", "end_time": "2026-11-24 09:00:01.050000",
        "project_id": "p", "parent_observation_id": "", "level": "DEFAULT", "status_message": "",
        "version": "", "environment": "production", "user_id": "", "session_id": "s-1",
        "input": '[{"role": "user", "content": "hi"}]',
        "output": '{"role": "assistant", "content": "hello"}',
        "metadata": {}, "provided_model_name": "gpt-4o-mini",
        "model_parameters": '{"temperature": 0.7}',
        "usage_details": {"input": 40, "output": 8},
        "cost_details": {"input": 1e-5, "output": 2e-5}, "total_cost": 3e-5,
        "tags": ["a"], "trace_name": "run", "release": "", **also,
    }  # fmt: skip


def raw(recorded: Mapping[str, Json], *, cut: bool = False) -> RawSpan:
    found = row_span(recorded, cut_metadata=cut)
    assert found is not None
    return found


def span(recorded: Mapping[str, Json]) -> Span:
    return build_trace([raw(recorded)], 1 << 18).trace.spans[0]


def test_a_row_of_the_api_and_one_of_a_blob_export_are_the_same_span() -> None:
    assert span(row()) == span(blob())
    one = span(row())
    assert (one.kind, one.model, one.input_tokens, one.output_tokens) == (
        "llm", "gpt-4o-mini", 40, 8,
    )  # fmt: skip
    assert one.cost_usd == pytest.approx(3e-5)
    assert one.started_at.isoformat() == "2026-11-24T09:00:00.050000+00:00"
    assert [m.content for m in one.messages_out] == ["hello"]


@pytest.mark.parametrize(
    "usage",
    [{}, None, {"input": 0, "output": 0, "total": 0}, "", "{}"],
    ids=["empty", "null", "zeros", "unset text", "empty text"],
)
def test_usage_that_was_not_counted_is_unknown_and_so_is_its_cost(usage: Json) -> None:
    one = span(row(usageDetails=usage, costDetails={}, totalCost=0, inputUsage=0, outputUsage=0))
    assert (one.input_tokens, one.output_tokens, one.cost_usd) == (None, None, None)


def test_zeros_all_over_are_no_count_even_where_nothing_was_said() -> None:
    one = span(row(output="", usageDetails={"input": 0, "output": 0}, costDetails={}))
    assert (one.input_tokens, one.output_tokens) == (None, None)


def test_a_real_zero_is_a_zero() -> None:
    cost: Json = {"input": 1.35e-05, "output": 0.0, "total": 1.35e-05}
    one = span(row(output="", usageDetails={"input": 90, "output": 0}, costDetails=cost))
    assert (one.input_tokens, one.output_tokens, one.cost_usd) == (90, 0, 1.35e-05)


def test_no_tokens_for_words_that_were_said_are_unknown() -> None:
    one = span(row(usageDetails={"input": 90, "output": 0, "total": 90}))
    assert (one.input_tokens, one.output_tokens) == (90, None)


@pytest.mark.parametrize(
    "usage",
    [
        {"promptTokens": 40, "completionTokens": 8},
        {"usage": {"unit": "TOKENS", "input": 40, "output": 8, "total": 48}},
        {"inputUsage": "40", "outputUsage": "8"},
        {"usageDetails": '{"input": "40", "output": "8"}'},
        {"usageDetails": "{'input':40,'output':8}"},
        {"usageDetails": [["input", 40], ["output", 8]]},
        {"usageDetails": [{"key": "input", "value": 40}, {"key": "output", "value": 8}]},
        {"usageDetails": {"prompt_tokens": 40, "completion_tokens": 8}},
    ],
    ids=["older", "usage", "columns", "json text", "database map", "pairs", "entries", "openai"],
)
def test_usage_is_read_however_it_is_written(usage: dict[str, Json]) -> None:
    one = span({**row(usageDetails=None), **usage})
    assert (one.input_tokens, one.output_tokens) == (40, 8)


def test_characters_are_no_tokens() -> None:
    one = span(row(usageDetails={}, usage={"unit": "CHARACTERS", "input": 40, "output": 8}))
    assert one.input_tokens is None


def test_unset_columns_record_nothing() -> None:
    unset = row(model="", input=None, output="", promptName="", promptVersion=None, traceName="",
                version="", userId="")  # fmt: skip
    attributes = raw(unset).attributes
    assert not {key for key, value in attributes.items() if value in ("", None)}
    assert "langfuse.observation.input" not in attributes
    assert "langfuse.user.id" not in attributes


def test_trace_fields_prompt_and_level_keep_their_names() -> None:
    recorded = row(promptName="desk", promptVersion=7, release="r1", version="v1", userId="u",
                   level="WARNING", statusMessage="slow")  # fmt: skip
    attributes = raw(recorded).attributes
    assert attributes["langfuse.observation.prompt.name"] == "desk"
    assert attributes["langfuse.observation.prompt.version"] == "7"
    assert attributes["langfuse.trace.tags"] == ["a"]
    trace = build_trace([raw(recorded)], 1 << 18).trace
    assert (trace.session_id, trace.user_id, trace.release, trace.version, trace.environment) == (
        "s-1", "u", "r1", "v1", "production",
    )  # fmt: skip
    assert (trace.name, trace.tags) == ("run", ("a",))
    assert trace.spans[0].status == "unset"
    assert trace.spans[0].attributes["langfuse.observation.level"] == "WARNING"
    assert trace.spans[0].attributes["langfuse.observation.status_message"] == "slow"


@pytest.mark.parametrize(
    ("message", "status", "type_"),
    [
        ("KeyError: 'city'", "error", "KeyError"),
        ("GraphInterrupt((Interrupt(value={'a': 1}, id='x'),))", "interrupted", "GraphInterrupt"),
        ("ParentCommand(Command(goto='refunds'))", "interrupted", "ParentCommand"),
        ("PaymentGraphInterruptError: session closed", "error", "PaymentGraphInterruptError"),
        ("", "error", None),
    ],
)
def test_an_error_is_one_unless_the_graph_only_paused(
    message: str, status: str, type_: str | None
) -> None:
    one = span(row(kind="TOOL", level="ERROR", statusMessage=message, output=None))
    assert one.error is not None
    assert (one.status, one.error.type) == (status, type_)


def test_a_tool_that_failed_at_level_default_keeps_its_answer() -> None:
    said = '{"ok": false, "error": "channel_not_found"}'
    one = span(row(kind="TOOL", name="post", output=said, model="", usageDetails={}))
    assert (one.kind, one.tool_name, one.status) == ("tool", "post", "unset")
    assert one.output is not None
    assert one.output.value == {"ok": False, "error": "channel_not_found"}


@pytest.mark.parametrize("written", ["object", "text", "dotted"])
def test_the_attributes_of_an_opentelemetry_span_are_taken_out_of_metadata(written: str) -> None:
    resource: Row = {"tracemend.run_id": "r-1", "service.version": "2.1"}
    parts: dict[str, Row] = {
        "attributes": {
            "openinference.span.kind": "TOOL", "tool.name": "search", "input.value": "q",
        },
        "resourceAttributes": resource,
        "scope": {"name": "langfuse-sdk", "attributes": {"public_key": "pk-lf-1"}},
    }  # fmt: skip
    nested: Row = {**parts, "team": "blue"}
    metadata: Json = nested
    if written == "text":
        metadata = json.dumps(nested)
    elif written == "dotted":
        metadata = {
            f"{head}.{key}": value for head, part in parts.items() for key, value in part.items()
        } | {"team": "blue"}
    found = raw(row(kind="SPAN", metadata=metadata))
    assert found.resource == resource
    assert found.attributes["tool.name"] == "search"
    assert "input.value" not in found.attributes  # the row's own input says the same
    assert found.attributes["langfuse.observation.metadata"] == {"team": "blue"}
    assert "pk-lf" not in str(found)
    built = build_trace([found], 1 << 18).trace
    assert built.own
    assert (built.spans[0].kind, built.spans[0].tool_name) == ("tool", "search")


def test_a_graph_node_in_metadata_is_the_spans_node() -> None:
    assert span(row(metadata={"langgraph_node": "tools"})).attributes["node"] == "tools"


@pytest.mark.parametrize("metadata", ["just words", '{"half": ', "[1, 2]", 7, ["a"]])
def test_metadata_that_is_no_object_is_kept_as_it_is(metadata: Json) -> None:
    assert raw(row(metadata=metadata)).attributes["langfuse.observation.metadata"] == metadata


def test_metadata_that_the_server_cut_never_stands_for_a_message() -> None:
    long = "x" * 200
    attributes: Json = {
        "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": long,
        "llm.model_name": "m", "all_messages_events": long,
    }  # fmt: skip
    cut = raw(row(metadata={"attributes": attributes}), cut=True).attributes
    assert "llm.model_name" in cut
    assert not [key for key in cut if "messages" in key]
    assert "all_messages_events" in raw(row(metadata={"attributes": attributes})).attributes


def test_calls_in_columns_of_their_own_are_the_answer_of_a_model_without_one() -> None:
    call = json.dumps({"id": "c1", "arguments": '{"q": 1}', "type": "tool_use"})
    one = span(row(output="", toolCalls=[call], toolCallNames=["search"]))
    assert [c for m in one.messages_out for c in m.tool_calls] == [("c1", "search", '{"q": 1}')]


def test_a_root_that_was_not_closed_is_open_and_an_event_is_a_moment() -> None:
    assert raw(row(endTime=None, output=None)).open
    assert not raw(row(endTime=None)).open  # it has its answer
    assert not raw(row(endTime=None, output=None, level="ERROR")).open
    assert not raw(row(2, endTime=None, output=None)).open
    event = raw(row(kind="EVENT", endTime=None, output=None))
    assert (event.open, event.end_ns) == (False, event.start_ns)


def test_a_logical_root_loses_a_parent_that_was_recorded_elsewhere() -> None:
    recorded = row(2, isRootObservation=True, parentObservationId="f" * 16)
    alone, beside = raw(recorded), raw(recorded)
    assert alone.attributes[AS_ROOT] is True
    free_roots([alone])
    free_roots([beside, raw(row(15, id="f" * 16))])
    assert (alone.parent_id, beside.parent_id) == (None, "f" * 16)


@pytest.mark.parametrize("key", ["id", "traceId"])
def test_a_row_without_an_id_is_no_span(key: str) -> None:
    assert row_span({**row(), key: None}) is None


@pytest.mark.parametrize(
    "other",
    [
        {"traceId": TRACE, "spanId": "1" * 16, "startTimeUnixNano": "1"},
        {"id": "r", "trace_id": TRACE, "run_type": "tool", "start_time": "2026-01-01"},
        {"trace_id": TRACE, "span_id": "1" * 16, "span_name": "x"},
        {"role": "user", "content": "hi"},
        {"id": "s", "traceId": TRACE, "name": "q", "value": 1, "dataType": "NUMERIC"},
    ],
    ids=["otlp span", "langsmith run", "openinference span", "chat message", "score"],
)
def test_other_formats_rows_are_not_taken(other: Mapping[str, Json]) -> None:
    assert not is_row(other)
    assert is_row(row())
    assert is_row(blob())
