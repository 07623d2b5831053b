"""One LangSmith run in every shape that the APIs, tracers and exports write."""

import json
from decimal import Decimal
from typing import Any

import pytest

from connectors.traces.langsmith.errors import split_error
from connectors.traces.langsmith.rows import records, to_raw
from connectors.traces.langsmith.values import as_time_ns, steps
from connectors.traces.raw import RawNote, RawSpan
from connectors.traces.tree import build_trace
from contracts.json_types import Json
from contracts.traces import Span, Trace

ROOT = "ca945c13-0537-4888-a45b-d3228c5e8853"
CHILD = "da00583c-4cef-40b5-aa32-e6d2380127d5"
LEAF = "e78d03da-ef53-479c-abc5-c6d074f1455c"
ORDER = f"20261124T090000000000Z{ROOT}.20261124T090000040000Z{CHILD}"
SECOND = 1_000_000_000


def run(**fields: Json) -> dict[str, Json]:
    return {"id": ROOT, "trace_id": ROOT, "name": "step", "run_type": "CHAIN",
            "status": "SUCCESS", "start_time": "2026-11-24T09:00:00.000Z",
            "end_time": "2026-11-24T09:00:01.000Z", **fields}  # fmt: skip


def span(**fields: Json) -> Span:
    return trace(run(**fields)).spans[0]


def trace(*runs: dict[str, Json]) -> Trace:
    found = [raw for one in runs for raw in records(one) if raw is not None]
    return build_trace(found, 1 << 16).trace


def raw(**fields: Json) -> RawSpan:
    found = to_raw(run(**fields))
    assert found is not None
    return found


def test_ids_stay_as_they_were_recorded() -> None:
    found = raw(id=CHILD, parent_run_ids=[ROOT])
    assert (found.trace_id, found.span_id, found.parent_id) == (ROOT, CHILD, ROOT)


@pytest.mark.parametrize(
    ("fields", "parent"),
    [
        ({"parent_run_ids": [ROOT, CHILD]}, CHILD),
        ({"parent_run_id": CHILD}, CHILD),
        ({"dotted_order": f"{ORDER}.20261124T090000050000Z{LEAF}"}, CHILD),
        ({"parent_run_ids": []}, None),
        ({"parent_run_id": LEAF}, None),
    ],
)
def test_the_parent_is_found_wherever_it_stands(fields: Any, parent: str | None) -> None:
    assert raw(id=LEAF, **fields).parent_id == parent


def test_a_dotted_order_alone_gives_ids_and_start() -> None:
    found = to_raw({"dotted_order": ORDER, "run_type": "llm"})
    assert found is not None
    assert (found.trace_id, found.span_id, found.parent_id) == (ROOT, CHILD, ROOT)
    assert found.start_ns == as_time_ns("2026-11-24T09:00:00.040Z")


@pytest.mark.parametrize("order", ["", "x", f"2026Z{ROOT}", f"{ORDER}.", 7, None])
def test_what_is_no_dotted_order_has_no_steps(order: Json) -> None:
    assert steps(order) == []


@pytest.mark.parametrize(
    "recorded",
    ["2026-11-24T09:00:00Z", "2026-11-24T09:00:00", "2026-11-24 09:00:00.000000",
     "2026-11-24T10:00:00+01:00", 1795510800, 1795510800.0, 1795510800000, 1795510800000000,
     1795510800000000000, "1795510800000"],
)  # fmt: skip
def test_times_are_utc_in_every_writing(recorded: Json) -> None:
    assert as_time_ns(recorded) == 1_795_510_800 * SECOND


@pytest.mark.parametrize("recorded", ["", "soon", 0, -1, True, None, "2026", 1e300, "9" * 40])
def test_what_is_no_time_is_unknown(recorded: Json) -> None:
    assert as_time_ns(recorded) is None


def test_a_run_without_a_type_of_status_is_done_when_it_ended() -> None:
    assert span(status=None).status == "ok"
    assert trace(run(status=None, end_time=None)).pending
    assert span(status=None, error="boom").status == "error"


def test_a_pending_run_is_open_and_says_nothing_of_success() -> None:
    found = trace(run(status="PENDING", end_time=None))
    assert (found.pending, found.root.status, found.root.ended_at) == (True, "unset", None)


def test_an_end_that_was_not_selected_does_not_make_a_run_pending() -> None:
    found = trace(run(end_time=None))
    assert (found.pending, found.root.status) == (False, "ok")


@pytest.mark.parametrize(
    ("text", "kind", "message", "stack"),
    [
        ("ValueError('it\\'s \\n bad')Traceback (most recent call last):\n  x", "ValueError",
         "it's \n bad", "Traceback (most recent call last):\n  x"),
        ("KeyError('x')", "KeyError", "'x'", None),
        ("openai.RateLimitError: Code 429", "openai.RateLimitError", "Code 429", None),
        ("Error: bad\n    at f (a.js:1)\n    at g", "Error", "bad", "    at f (a.js:1)\n    at g"),
        ("Traceback (most recent call last):\n  File\nTypeError: no", "TypeError", "no",
         "Traceback (most recent call last):\n  File\nTypeError: no"),
        ("ValueError('a', 2)", "ValueError", "'a', 2", None),
        ("TimeoutError()", "TimeoutError", "TimeoutError", None),
        ("the tool said no: never", None, "the tool said no: never", None),
        ("call(x)", None, "call(x)", None),
    ],
)  # fmt: skip
def test_an_error_text_is_taken_apart(
    text: str, kind: str | None, message: str, stack: str | None
) -> None:
    assert split_error(text) == (kind, message, stack)


@pytest.mark.parametrize(
    "text",
    ["GraphInterrupt((Interrupt(value='ok?'),))Traceback (most recent call last):\n x",
     "ParentCommand(Command(goto='x'))", "langgraph.errors.NodeInterrupt: wait"],
)  # fmt: skip
def test_a_pause_of_the_graph_is_no_failure(text: str) -> None:
    assert span(status="ERROR", error=text).status == "interrupted"


def test_a_status_of_interrupted_is_a_pause() -> None:
    assert span(status="interrupted").status == "interrupted"


def test_a_wrapped_value_is_opened_for_reading_and_marked() -> None:
    found = raw(run_type="TOOL", inputs={"input": "q"}, outputs={"output": {"error": "no"}})
    assert found.attributes["input.value"] == "q"
    assert found.attributes["output.value"] == {"error": "no"}
    assert found.attributes["langsmith.output.wrapped"] is True
    kept = raw(outputs={"output": 1, "more": 2})
    assert kept.attributes["output.value"] == {"output": 1, "more": 2}
    assert "langsmith.output.wrapped" not in kept.attributes


@pytest.mark.parametrize("nothing", [None, {}, "", {"output": None}])
def test_outputs_that_were_not_recorded_are_unknown(nothing: Json) -> None:
    assert span(outputs=nothing).output is None


def test_an_answer_that_was_recorded_as_empty_is_handed_on() -> None:
    assert raw(outputs={"output": ""}).attributes["output.value"] == ""


def test_zero_tokens_and_cost_are_unknown() -> None:
    found = span(run_type="LLM", prompt_tokens=0, completion_tokens=0, total_cost="0")
    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (None, None, None)


def test_costs_are_numbers_in_every_writing() -> None:
    for cost in ("0.00125", 0.00125, str(Decimal("0.00125"))):
        assert span(run_type="llm", total_cost=cost).cost_usd == 0.00125
    assert span(run_type="llm", prompt_cost="0.001", completion_cost="0.002").cost_usd == 0.003


@pytest.mark.parametrize(
    "where",
    [
        {"prompt_tokens": 9, "completion_tokens": 3},
        {"outputs": {"usage_metadata": {"input_tokens": 9, "output_tokens": 3}}},
        {"outputs": {"llm_output": {"token_usage": {"prompt_tokens": 9, "completion_tokens": 3}}}},
        {"outputs": {"generations": [[{"message": {"kwargs": {"usage_metadata": {
            "input_tokens": 9, "output_tokens": 3}}}}]]}},
        {"extra": {"metadata": {"usage_metadata": {"input_tokens": 9, "output_tokens": 3}}}},
        {"outputs": json.dumps({"usage": {"prompt_tokens": "9", "completion_tokens": 3.0}})},
    ],
)  # fmt: skip
def test_tokens_are_found_wherever_a_tracer_put_them(where: Any) -> None:
    found = span(run_type="LLM", **where)
    assert (found.input_tokens, found.output_tokens) == (9, 3)


@pytest.mark.parametrize(
    "where",
    [
        {"extra": {"metadata": {"ls_model_name": "m-1"}}},
        {"metadata": {"ls_model_name": "m-1"}},
        {"extra": {"invocation_params": {"model": "m-1", "_type": "chat"}}},
        {"outputs": {"llm_output": {"model_name": "m-1"}}},
        {"inputs": {"model": "m-1", "messages": []}},
    ],
)
def test_the_model_is_found_wherever_a_tracer_put_it(where: Any) -> None:
    assert span(run_type="LLM", **where).model == "m-1"


def test_offered_tools_and_the_finish_reason_are_kept() -> None:
    tool: Json = {"type": "function", "function": {"name": "pay"}}
    info: Json = {"text": "x", "generation_info": {"finish_reason": "length"}}
    found = span(run_type="LLM", extra={"invocation_params": {"tools": [tool]}},
                 outputs={"generations": [[info]]})  # fmt: skip
    assert found.finish_reason == "length"
    assert json.loads(str(found.attributes["llm.tools"][0])) == tool  # type: ignore[index]


def test_thread_user_node_prompt_and_release_come_from_the_metadata() -> None:
    metadata: Json = {
        "conversation_id": "th-2", "user_id": 7, "langgraph_node": "plan", "lc_hub_owner": "acme",
        "lc_hub_repo": "refund", "lc_hub_commit_hash": "ab12", "revision_id": "v3",
        "environment": "prod",
    }  # fmt: skip
    found = raw(extra={"metadata": metadata}, session_id="a-project")
    assert found.attributes["session.id"] == "th-2"
    assert found.attributes["user.id"] == "7"
    assert found.attributes["prompt.name"] == "acme/refund"
    assert found.attributes["prompt.version"] == "ab12"
    whole = trace(run(extra={"metadata": metadata}))
    assert (whole.session_id, whole.environment, whole.release) == ("th-2", "prod", "v3")
    assert whole.root.attributes["node"] == "plan"


def test_the_projects_id_is_no_session() -> None:
    assert trace(run(session_id="7013905b-57bd-4c1f-a2d7-ac295dc5430d")).session_id is None


def test_our_own_runs_are_known_by_project_or_mark() -> None:
    assert trace(run(session_name="tracemend-gate")).own
    assert trace(run(metadata={"tracemend.run_id": "b1.2"})).own
    assert not trace(run(session_name="refunds")).own


def test_feedback_becomes_scores_and_no_feedback_none() -> None:
    stats: Json = {
        "user_score": {"n": 2, "avg": 0.5, "comments": ["meh"]},
        "tone": {"n": 3, "avg": None, "values": {"rude": 2, "kind": 1}},
        "nothing": {"n": 0, "avg": None, "values": {}},
    }
    scores = trace(run(feedback_stats=stats)).scores
    assert [(s.name, s.value, s.comment, s.span_id) for s in scores] == [
        ("tone", "rude", None, None),
        ("user_score", 0.5, "meh", None),
    ]
    child = run(id=CHILD, parent_run_ids=[ROOT], feedback_stats=stats)
    notes = [one for one in records(child) if isinstance(one, RawNote)]
    assert {score.span_id for score in notes[0].scores} == {CHILD}


def test_secrets_of_a_run_are_not_read() -> None:
    found = raw(share_url="https://x/public/s3cret", attachments={"a": "https://b/?sig=s3cret"},
                inputs_s3_urls={"ROOT": {"presigned_url": "https://b/?sig=s3cret"}})  # fmt: skip
    assert "s3cret" not in str(found)


def test_a_run_without_any_id_is_counted_as_such() -> None:
    assert list(records({"name": "x", "run_type": "tool"})) == [None]
