import asyncio
import json
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.traces.files import FilesSource
from connectors.traces.raw import clean_id
from connectors.traces.salvage import closed_prefix, load
from contracts.errors import TracemendError
from contracts.json_types import Json
from contracts.traces import Trace, TraceQuery
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.detect.all import detect_trace
from nodes.insights.signature import covers, make_signature, split_templates, template_of
from tests.trace_worlds import MemorySource, line, read_all, root, tool, trace_of

FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ERRORS = st.sampled_from([
    None, None, ("TimeoutError", "504 Gateway Timeout"), ("ValueError", "id must look like A-9999"),
    ("ValueError", "the account is closed for good"), ("RateLimitError", "slow down"),
])  # fmt: skip
ANSWERS: list[Json] = ["ok", "same", {"ok": False}, "Error: x"]
json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def spans_of_a_trace(draw: st.DrawFn, number: int = 0) -> list[dict[str, Json]]:
    """A root and a few tool calls, some of which fail; parents may be missing or form a cycle."""
    count = draw(st.integers(1, 6))
    spans = [root(f"request {number}", draw(st.sampled_from(["done", "", None])), trace=number)]
    for n in range(1, count + 1):
        error = draw(ERRORS)
        answer: Json = None if error else draw(st.sampled_from(ANSWERS))
        spans.append(
            tool(
                n, draw(st.sampled_from(["pay", "look"])), {"n": draw(st.integers(1, 2))}, answer,
                trace=number, error=error, parent=draw(st.sampled_from([0, 0, n - 1, n + 1, 77])),
            )
        )  # fmt: skip
    return spans


def analysed(traces: list[Trace], before: list[Trace]) -> Analysis:
    source, baseline = MemorySource(traces, batch=3), MemorySource(before, batch=2)
    return asyncio.run(
        analyze(source, TraceQuery(), project="p", baseline=(baseline, TraceQuery()))
    )


@FEW
@given(spans_of_a_trace(), st.randoms(use_true_random=False))
def test_the_order_of_spans_and_doubled_spans_change_no_trace(
    spans: list[dict[str, Json]], chance: random.Random
) -> None:
    shuffled = spans + chance.sample(spans, len(spans) // 2)
    chance.shuffle(shuffled)
    assert trace_of(*shuffled) == trace_of(*spans)
    assert detect_trace(trace_of(*shuffled)) == detect_trace(trace_of(*spans))


@FEW
@given(st.data(), st.integers(2, 8), st.randoms(use_true_random=False))
def test_the_order_of_traces_changes_no_finding(
    data: st.DataObject, count: int, chance: random.Random
) -> None:
    traces = [trace_of(*data.draw(spans_of_a_trace(n))) for n in range(count)]
    before = traces[: count // 2]
    first = analysed(traces, before)
    chance.shuffle(traces)
    second = analysed(traces, before[::-1])
    assert second.findings == first.findings
    assert second.symptoms == first.symptoms
    assert second.evidence == first.evidence


@FEW
@given(spans_of_a_trace())
def test_every_symptom_is_at_a_span_of_its_trace_once(spans: list[dict[str, Json]]) -> None:
    trace = trace_of(*spans)
    symptoms = detect_trace(trace)
    ids = {span.id for span in trace.spans}
    assert all(s.span_id in ids for s in symptoms)
    assert len({(s.span_id, s.signature) for s in symptoms}) == len(symptoms)


@FEW
@given(spans_of_a_trace())
def test_parents_come_before_children_and_no_span_is_lost(spans: list[dict[str, Json]]) -> None:
    trace = trace_of(*spans)
    seen: set[str] = set()
    for span in trace.spans:
        assert span.parent_id is None or span.parent_id in seen
        seen.add(span.id)
    assert len([s for s in trace.spans if not s.virtual]) == len(spans)


def _read_or_refused(path: Path) -> None:
    """Anything but a refusal of ours fails the test."""
    with suppress(TracemendError):
        read_all(path)


@FEW
@given(data=st.binary(max_size=200))
def test_reading_arbitrary_bytes_never_fails_otherwise_than_by_refusal(
    data: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "any"
    path.write_bytes(data)
    _read_or_refused(path)


@FEW
@given(value=json_values, at=st.sampled_from(["request", "group", "span", "attributes", "tree"]))
def test_reading_any_json_at_any_place_never_fails_otherwise_than_by_refusal(
    value: Json, at: str, tmp_path: Path
) -> None:
    pairs: Json = [{"key": "a", "value": value}]
    span: dict[str, Json] = {"traceId": "1" * 32, "spanId": "2" * 16, "attributes": pairs}
    eventful: Json = {**span, "events": value}
    stated: Json = {**span, "status": value}
    documents: dict[str, Json] = {
        "request": {"resourceSpans": value},
        "group": {"resourceSpans": [{"resource": value, "scopeSpans": [value]}]},
        "span": {"resourceSpans": [{"scopeSpans": [{"spans": [value, eventful]}]}]},
        "attributes": {"resourceSpans": [{"scopeSpans": [{"spans": [stated]}]}]},
        "tree": {"trace_id": "1" * 32, "spans": [{"span_id": "2" * 16, "span_attributes": value,
                                                  "child_spans": [value], "events": [value]}]},
    }  # fmt: skip
    path = tmp_path / "any.json"
    path.write_text(json.dumps(documents[at]))
    _read_or_refused(path)


@FEW
@given(cut=st.integers(1, 3000), flip=st.integers(0, 255))
def test_a_file_torn_or_damaged_anywhere_is_read_or_refused(
    cut: int, flip: int, tmp_path: Path
) -> None:
    whole = line([root(), tool(1, "pay", {}, "x")]) + line([root(trace=1)])
    data = bytearray(whole[: min(cut, len(whole))])
    data[len(data) // 2] = flip
    path = tmp_path / "torn.jsonl"
    path.write_bytes(bytes(data))
    _read_or_refused(path)


@given(st.text(max_size=60))
def test_salvage_gives_json_or_nothing(text: str) -> None:
    prefix = closed_prefix('{"spans": [{"spanId": "a"}, ' + text)
    assert load(prefix.encode("utf-8", "surrogatepass")).torn_at is None


@pytest.mark.parametrize("size", [8, 16])
@given(data=st.binary(min_size=16, max_size=16).filter(lambda b: any(b[:8])))
def test_an_id_in_hex_and_in_base64_is_one(size: int, data: bytes) -> None:
    import base64

    part = data[:size]
    coded = base64.b64encode(part).decode()
    assert clean_id(coded, size) == clean_id(part.hex(), size) == part.hex()
    assert clean_id(coded.rstrip("="), size) == part.hex()
    assert clean_id(part.hex().upper(), size) == part.hex()


@given(st.text(min_size=1, max_size=80), st.text(max_size=80), st.none() | st.integers(400, 599))
def test_a_signature_is_covered_by_its_prefixes_only(
    kind: str, place: str, code: int | None
) -> None:
    signature = make_signature("tool_error", place, code)
    assert all(part for part in signature.split(":"))
    assert covers(signature, "tool_error")
    assert covers(signature, signature)
    assert not covers(signature, signature[:-1]) or signature[-1] in ":~"
    assert template_of(kind) == template_of(kind)


@given(st.dictionaries(st.text(max_size=30), st.integers(1, 9), max_size=8))
def test_templates_are_split_alike_whatever_their_order(counts: dict[str, int]) -> None:
    backwards = dict(reversed(list(counts.items())))
    assert split_templates(counts) == split_templates(backwards)
    assert list(split_templates(counts).values()).count("") >= min(1, len(counts))


def test_files_in_any_order_give_the_same_traces(tmp_path: Path) -> None:
    spans = [root(), *(tool(n, "pay", {"n": n}, "x") for n in range(1, 6))]
    orders = [spans, spans[::-1], spans[3:] + spans[:3]]
    seen = []
    for number, order in enumerate(orders):
        folder = tmp_path / str(number)
        folder.mkdir()
        for at, span in enumerate(order):
            (folder / f"{at}.jsonl").write_bytes(line([span]))
        seen.append(read_all(folder)[0])
    assert seen[0] == seen[1] == seen[2]
    assert FilesSource([tmp_path]).name == "files"
