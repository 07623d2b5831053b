"""Whole traces and JSON values leave without secrets, and say how many masks were set."""

import dataclasses
import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from configs.redaction import find_secrets, names_in_use
from connectors.traces.redact import MARK, MAX_DEPTH, TOO_DEEP, redact_json, redact_trace
from contracts.json_types import Json, sha256_hex
from contracts.traces import (
    Message,
    Payload,
    Score,
    Span,
    SpanError,
    SpanId,
    Trace,
    TraceId,
)

KEY = "sk-" + "a1B2c3D4" * 4
MAIL = "ann" + "@example.com"


def payload(text: str, *, cut: bool = False) -> Payload:
    whole = text + (" and more" if cut else "")
    return Payload(
        text=text, size_bytes=len(whole), truncated=cut, sha256=sha256_hex(whole.encode())
    )


def trace(session_id: str = MAIL, first: Span | None = None) -> Trace:
    span = Span(
        id=SpanId("s"), trace_id=TraceId("t"), parent_id=None, name=f"step {KEY}", kind="llm",
        status="error", started_at=datetime(2026, 11, 30, tzinfo=UTC), ended_at=None,
        error=SpanError(type="E", message=f"bad {KEY}", stack=f"at {MAIL}"),
        input=payload(json.dumps({"password": "hunter2222", "n": 1})), output=payload("fine"),
        tool_name=MAIL, messages_in=(
            Message(role="user", content=MAIL, tool_calls=((None, "f", f'{{"k": "{KEY}"}}'),)),
        ),
        attributes={"metadata": {"mail": MAIL}, "n": 1},
    )  # fmt: skip
    return Trace(
        id=TraceId("t"), spans=(first or span,), session_id=session_id, user_id=MAIL, tags=(MAIL,),
        scores=(Score(name="s", value=KEY, source="user", comment=MAIL),), resource={"h": MAIL},
    )  # fmt: skip


def test_no_field_of_a_trace_keeps_a_secret() -> None:
    masked = redact_trace(trace())
    said = repr(dataclasses.asdict(masked)) + "".join(
        side.text for span in masked.spans for side in (span.input, span.output) if side
    )
    for secret in (KEY, MAIL, "hunter2222"):
        assert secret not in said
    assert not find_secrets(said)


def test_payloads_keep_size_and_hash_and_their_value_is_masked_too() -> None:
    before = trace().spans[0].input
    after = redact_trace(trace()).spans[0].input
    assert before is not None
    assert after is not None
    assert (after.size_bytes, after.sha256) == (before.size_bytes, before.sha256)
    assert after.value == {"password": "[password]", "n": 1}


def test_spans_say_how_many_masks_were_set() -> None:
    masked = redact_trace(trace())
    assert masked.spans[0].attributes[MARK] == 14
    assert MARK not in redact_trace(masked).spans[0].attributes or (
        redact_trace(masked).spans[0].attributes[MARK] == 14
    )


def test_a_trace_without_secrets_stays_as_it_is() -> None:
    clean = Trace(
        id=TraceId("t"),
        spans=(
            dataclasses.replace(
                trace().spans[0], name="step", error=None, input=payload('{"a": 1}'),
                tool_name=None, messages_in=(), attributes={"n": 1},
            ),
        ),
    )  # fmt: skip
    assert redact_trace(clean) == clean


def test_sessions_stay_apart_when_they_are_mail_addresses() -> None:
    one = redact_trace(trace(session_id=MAIL)).session_id
    other = redact_trace(trace(session_id="bob" + MAIL)).session_id
    again = redact_trace(trace(session_id=MAIL)).session_id
    assert one is not None
    assert one.startswith("[email] ")
    assert one == again
    assert one != other


def test_a_cut_payload_loses_its_last_word_which_may_be_half_a_key() -> None:
    cut = payload(f"the key is {KEY[:14]}", cut=True)
    span = dataclasses.replace(trace().spans[0], input=cut)
    masked = redact_trace(trace(first=span)).spans[0].input
    assert masked is not None
    assert masked.text == "the key is "
    assert masked.truncated
    assert (masked.size_bytes, masked.sha256) == (cut.size_bytes, cut.sha256)


def test_a_message_that_the_reader_cut_at_its_limit_loses_its_last_word() -> None:
    said = ("x " * 4096)[: 8192 - 9] + " " + KEY[:8]
    span = dataclasses.replace(trace().spans[0], error=SpanError(type=None, message=said))
    error = redact_trace(trace(first=span)).spans[0].error
    assert error is not None
    assert len(said) == 8192
    assert not error.message.endswith(KEY[:8])


def test_a_value_is_masked_under_a_key_that_names_it() -> None:
    value: Json = {
        "password": "swordfish", "apiKey": "abcdefgh", "Authorization": "Bearer a1b2c3d4e5f6g7",
        "token": "Hello", "pin": None, "password_hint": "fish", "card": 4111111111111111,
        "at_ns": 1795510800000000000, "secret": True, "items": [{"client_secret": "abcdef"}],
    }  # fmt: skip
    assert redact_json(value) == {
        "password": "[password]", "apiKey": "[password]", "Authorization": "[password]",
        "token": "Hello", "pin": None, "password_hint": "fish", "card": "[card number]",
        "at_ns": 1795510800000000000, "secret": True, "items": [{"client_secret": "[password]"}],
    }  # fmt: skip


def test_two_keys_with_one_mask_are_still_two() -> None:
    masked = redact_json({MAIL: 1, "bob" + MAIL: 2})
    assert masked == {"[email]": 1, "[email]'": 2}


def test_names_of_the_project_apply() -> None:
    with names_in_use(["Ann"]):
        assert redact_json(["Ann", {"Ann": "to ann"}]) == ["[name]", {"[name]": "to [name]"}]


def test_depth_is_bounded_and_said() -> None:
    value: Json = "x"
    for _ in range(MAX_DEPTH * 20):
        value = [value]
    masked = json.dumps(redact_json(value))
    assert masked.count("[") == MAX_DEPTH + 1
    assert TOO_DEEP in masked


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.sampled_from([KEY, MAIL])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.text(), st.sampled_from([MAIL, "password"])), inner, max_size=4
        ),
    ),
)


@given(JSON)
def test_masked_json_is_json_without_secrets_and_stays(value: Json) -> None:
    masked = redact_json(value)
    assert KEY not in json.dumps(masked)
    assert MAIL not in json.dumps(masked)
    assert redact_json(masked) == masked
