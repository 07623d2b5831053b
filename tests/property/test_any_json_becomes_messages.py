"""Whatever was recorded, reading it never fails, and what is canonical stays as it is."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.traces.ai_sdk import spans, takes
from connectors.traces.blobs import without_blobs
from connectors.traces.chat_values import said_messages, sent_messages, tool_request
from connectors.traces.dialects import _MARKS, canonical
from connectors.traces.messages import MAX_MESSAGES, Texts
from connectors.traces.normalise import to_span
from connectors.traces.raw import RawSpan
from contracts.json_types import Json

WORDS = st.sampled_from(
    ["role", "content", "parts", "text", "type", "messages", "tool_calls", "function", "name",
     "arguments", "args", "input", "output", "choices", "message", "kwargs", "id", "data", "kind",
     "candidates", "generations", "tool_use", "tool_result", "functionCall", "toolUse", "image",
     "source", "user", "assistant", "tool", "human", "constructor", "traceId", "spanContext",
     "spans", "timestamp", "duration", "context", "startTime", "attributes", "status", "system"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
VALUES: st.SearchStrategy[Json] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(WORDS, inner, max_size=5)
        | inner.map(json.dumps)
    ),
    max_leaves=24,
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt", "exception",
             "gen_ai.client.inference.operation.details"]
        ),
        st.dictionaries(
            st.sampled_from(["content", "message", "gen_ai.prompt", "gen_ai.input.messages"]),
            VALUES,
        ),
    ),
    max_size=3,
)  # fmt: skip
KEYS = st.sampled_from(sorted(_MARKS)) | st.sampled_from(
    ["openinference.span.kind", "langfuse.observation.type", "input.value", "output.value",
     "tool.name", "gen_ai.operation.name", "gen_ai.request.model", "llm.model_name",
     "llm.output_messages.0.message.role", "gen_ai.prompt.0.content"]
)  # fmt: skip
NAMES = st.sampled_from(["", "call_llm", "running tool: x", "running 2 tools", "tool.x.start-1"])


@settings(max_examples=120)
@given(VALUES)
def test_any_request_and_any_answer_is_some_messages(value: Json) -> None:
    for messages in (sent_messages(value, Texts(64)), said_messages(value, Texts(64))):
        assert len(messages) <= MAX_MESSAGES
        assert all(message.role and len(message.content) <= 64 for message in messages)
    tool_request(value)


@settings(max_examples=120)
@given(st.dictionaries(KEYS, VALUES, max_size=8), EVENTS, NAMES)
def test_what_is_canonical_stays_so(
    attributes: dict[str, Json], events: list[tuple[str, dict[str, Json]]], name: str
) -> None:
    before = json.dumps(attributes)
    once = canonical(attributes, events, name)
    assert json.dumps(attributes) == before
    assert json.dumps(canonical(once, events, name), sort_keys=True) == json.dumps(
        once, sort_keys=True
    )


@settings(max_examples=120)
@given(st.dictionaries(KEYS, VALUES, max_size=8), EVENTS, NAMES)
def test_any_attributes_make_a_span(
    attributes: dict[str, Json], events: list[tuple[str, dict[str, Json]]], name: str
) -> None:
    raw = RawSpan(
        trace_id="t", span_id="s", parent_id=None, name=name, start_ns=None, end_ns=None,
        attributes=attributes, events=list(events),
    )  # fmt: skip
    span = to_span(raw, Texts(64))
    assert span.kind != "tool" or span.tool_name is not None


@given(st.dictionaries(WORDS, VALUES, max_size=6))
def test_any_object_is_taken_or_not_and_read_without_a_fault(value: dict[str, Json]) -> None:
    takes(value)
    for raw in spans(value):
        assert raw is None or isinstance(raw, RawSpan)


@given(st.text(st.sampled_from("Aa1+/= \n"), max_size=40).map(lambda text: text * 90))
def test_marks_for_files_are_stable(text: str) -> None:
    once = without_blobs(text)
    assert without_blobs(once) == once
