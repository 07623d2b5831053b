"""Whatever JSON stands where a run should: nothing raises, and no time without a zone comes out."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.traces.langsmith.errors import split_error
from connectors.traces.langsmith.exports import BATCH, RUNS
from connectors.traces.langsmith.values import as_time_ns, steps
from connectors.traces.raw import MAX_NS
from connectors.traces.tree import build_trace

FIELDS = (
    "id", "trace_id", "parent_run_ids", "parent_run_id", "dotted_order", "name", "run_type",
    "status", "start_time", "end_time", "error", "inputs", "outputs", "extra", "metadata", "tags",
    "feedback_stats", "prompt_tokens", "total_cost", "thread_id", "child_runs", "events",
    "inputs_s3_urls",
)  # fmt: skip
IDS = st.sampled_from(["a", "b", "c", "", "ca945c13-0537-4888-a45b-d3228c5e8853"])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | IDS
JSON = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=4,
)
RUN = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, IDS | JSON))


@given(st.lists(RUN, max_size=3), st.lists(RUN, max_size=2))
@settings(max_examples=40)
def test_any_runs_become_traces_without_a_crash(post: list[Any], patch: list[Any]) -> None:
    bodies: list[tuple[Any, Any]] = [
        (BATCH, {"post": post, "patch": patch}),
        (RUNS, {"items": post, "next_cursor": None}),
    ]
    bodies += [(RUNS, run) for run in (*post, *patch)]
    for form, body in bodies:
        form.takes(body)
        found = [record for record in form.spans(body) if record is not None]
        for trace_id in {record.trace_id for record in found}:
            own = [record for record in found if record.trace_id == trace_id]
            if any(hasattr(record, "span_id") for record in own):
                trace = build_trace(own, 1000).trace
                assert all(span.started_at.tzinfo is not None for span in trace.spans)


@given(JSON)
def test_a_time_is_unknown_or_within_what_a_datetime_holds(value: Any) -> None:
    ns = as_time_ns(value)
    assert ns is None or 0 < ns <= MAX_NS
    assert isinstance(steps(value), list)


@given(st.text(max_size=200))
def test_an_error_text_keeps_its_words(text: str) -> None:
    kind, message, stack = split_error(text)
    assert kind or message or stack or not text.strip()


@given(st.sampled_from(["ValueError", "KeyError", "a.b.HTTPError"]), st.text(max_size=60))
def test_the_repr_of_an_exception_gives_its_message_back(kind: str, message: str) -> None:
    found = split_error(f"{kind}({message!r})")
    expected = repr(message) if kind == "KeyError" else message
    assert found[0] == kind
    assert found[1] == expected
