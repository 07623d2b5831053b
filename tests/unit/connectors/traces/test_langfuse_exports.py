"""Langfuse in files: which objects are taken, and what comes out of each."""

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from connectors.traces.langfuse.exports import FORMS, page_links
from connectors.traces.raw import Raw, RawNote, RawSpan
from connectors.traces.tree import build_trace
from contracts.json_types import Json
from contracts.traces import Score, Span, SpanId, Trace
from tests.emit.langfuse import (
    as_csv,
    as_lines,
    blob_rows,
    blob_scores,
    export,
    legacy_blob,
    observation_rows,
    score_rows,
    v1_score,
)
from tests.trace_worlds import root, span, span_id, tool, trace_of

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def recorded() -> Trace:
    built = trace_of(
        root("help me"),
        span(1, "LLM", "model", input__value='[{"role": "user", "content": "hi"}]',
             output__value="hello", llm__token_count__prompt=4, llm__token_count__completion=2,
             also={"llm.model_name": "m"}),
        tool(2, "pay", {"n": 1}, '{"ok": true}'),
    )  # fmt: skip
    return replace(
        built, session_id="s", user_id="u", environment="prod", release="r", version="v",
        name="run", tags=("a", "b"),
        scores=(
            Score(name="right", value=True, source="eval", comment="yes", at=NOON),
            Score(name="tone", value="kind", source="annotation", span_id=SpanId(span_id(1)),
                  at=NOON),
        ),
    )  # fmt: skip


def read(documents: Iterable[Mapping[str, Json]]) -> tuple[list[str], list[Raw]]:
    """(names of the forms that took the documents, all records)."""
    names, records = [], []
    for document in documents:
        form = next(form for form in FORMS if form.takes(document))
        names.append(form.name)
        records += list(form.spans(document))
    return list(dict.fromkeys(names)), records


def rebuilt(records: Iterable[Raw]) -> Trace:
    return build_trace([one for one in records if one is not None], 1 << 18).trace


def page(rows: list[dict[str, Json]], **meta: Json) -> dict[str, Json]:
    return {"data": list(rows), "meta": dict(meta)}


def answer(body: Json, path: str = "/api/public/v2/observations?limit=2") -> dict[str, Json]:
    return {"method": "GET", "url": path, "status": 200, "body": body}


def lines(text: str) -> list[dict[str, Json]]:
    return [json.loads(line) for line in text.splitlines()]


WAYS = {
    "export": lambda t: [export(t)],
    "export with everything inside the trace": lambda t: [_inside(export(t))],
    "rows": lambda t: [*observation_rows(t), *score_rows(t)],
    "pages": lambda t: [page(observation_rows(t)[:2], cursor="c"), page(observation_rows(t)[2:]),
                        page(score_rows(t), limit=50)],
    "recorded answers": lambda t: [answer(page(observation_rows(t))),
                                   answer(page(score_rows(t)), "/api/public/v3/scores")],
    "older scores": lambda t: [*observation_rows(t), *map(v1_score, score_rows(t))],
    "blob lines": lambda t: lines(as_lines([*blob_rows(t), *blob_scores(t)])),
    "blob csv": lambda t: [*csv.DictReader(as_csv(blob_rows(t)).splitlines()),
                           *csv.DictReader(as_csv(blob_scores(t)).splitlines())],
    "older blob": lambda t: [legacy_blob(t)[0], *legacy_blob(t)[1], *blob_scores(t)],
}  # fmt: skip


def _said(span: Span) -> str:
    if span.messages_out:
        return span.messages_out[0].content
    return span.output.text if span.output is not None else ""


def _inside(document: dict[str, Json]) -> dict[str, Json]:
    trace = document["trace"]
    assert isinstance(trace, dict)
    return {**trace, "observations": document["observations"]}


@pytest.mark.parametrize("way", WAYS)
def test_one_trace_is_the_same_in_every_way_it_is_written(way: str) -> None:
    trace = recorded()
    got = rebuilt(read(WAYS[way](trace))[1])  # type: ignore[no-untyped-call]  # lambdas of a table
    assert [(s.id, s.parent_id, s.kind, s.name, s.input_tokens) for s in got.spans] == [
        (s.id, s.parent_id, s.kind, s.name, s.input_tokens) for s in trace.spans
    ]
    assert [s.started_at for s in got.spans] == [s.started_at for s in trace.spans]
    assert [_said(s) for s in got.spans] == ["done", "hello", '{"ok": true}']
    assert (got.session_id, got.user_id, got.environment) == ("s", "u", "prod")
    assert (got.release, got.version, got.name, got.tags) == ("r", "v", "run", ("a", "b"))
    assert got.scores == trace.scores


@pytest.mark.parametrize(
    ("way", "names"),
    [
        ("export", ["langfuse-export"]),
        ("rows", ["langfuse-observations", "langfuse-scores"]),
        ("recorded answers", ["langfuse-observations", "langfuse-scores"]),
        ("older blob", ["langfuse-traces", "langfuse-observations", "langfuse-scores"]),
    ],
)
def test_each_object_is_taken_by_its_own_form(way: str, names: list[str]) -> None:
    assert read(WAYS[way](recorded()))[0] == names  # type: ignore[no-untyped-call]


def test_an_export_that_repeats_its_observations_inside_gives_each_once() -> None:
    document = export(recorded())
    trace = document["trace"]
    assert isinstance(trace, dict)
    doubled = {"trace": {**trace, "observations": document["observations"]},
               "observations": document["observations"]}  # fmt: skip
    spans = [one for one in read([doubled])[1] if isinstance(one, RawSpan)]
    assert len(spans) == 3


def test_an_observation_whose_id_is_no_text_is_counted_as_unusable() -> None:
    document = export(recorded())
    trace, rows = document["trace"], document["observations"]
    assert isinstance(trace, dict)
    assert isinstance(rows, list)
    odd: dict[str, Json] = {
        "trace": {**trace, "observations": [{"id": {}}]}, "observations": rows,
    }  # fmt: skip
    records = read([odd])[1]
    assert (len([one for one in records if isinstance(one, RawSpan)]), records[-1]) == (3, None)


def test_a_trace_without_observations_stands_in_for_its_only_span() -> None:
    document = {**export(recorded()), "observations": []}
    got = rebuilt(read([document])[1])
    assert [(s.kind, s.name) for s in got.spans] == [("other", "run")]
    assert got.root.input is not None
    assert got.root.input.text == "help me"


def test_several_observations_without_a_parent_get_the_input_and_output_of_the_trace() -> None:
    document = export(recorded())
    rows = document["observations"]
    assert isinstance(rows, list)
    loose = [{**row, "parentObservationId": None, "input": None} for row in rows[:2]]
    got = rebuilt(read([{**document, "observations": loose}])[1])
    assert got.root.input is not None
    assert got.root.input.text == "help me"
    assert got.orphans == 0


def test_an_empty_page_is_ours_and_holds_nothing() -> None:
    assert read([page([], cursor="c")]) == (["langfuse-observations"], [])


def test_an_answer_that_failed_is_ours_and_holds_nothing() -> None:
    missing = {**answer("<!DOCTYPE html>"), "status": 404}
    assert read([missing]) == (["langfuse-observations"], [])


def test_what_pages_say_of_each_other() -> None:
    first, last = answer(page([], cursor="c1")), answer(page([]), "/api/public/v2/x?cursor=c1")
    assert page_links(first) == (None, "c1")
    assert page_links(last) == ("c1", None)
    assert page_links(page([], cursor="c2")) == (None, "c2")


@pytest.mark.parametrize(
    "other",
    [
        {"resourceSpans": []},
        {"trace_id": "1" * 32, "spans": []},
        {"data": [{"id": "r", "trace_id": "t", "run_type": "llm"}], "meta": {}},
        {"data": []},
        {"items": [], "next_cursor": None},
        {"messages": [{"role": "user", "content": "hi"}]},
        {"post": [], "patch": []},
        {"name": "x", "value": 1},
        {"observations": [1, 2]},
    ],
)
def test_other_formats_are_left_to_others(other: Mapping[str, Json]) -> None:
    assert not any(form.takes(other) for form in FORMS)


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"dataType": "NUMERIC", "value": "0.25"}, 0.25),
        ({"dataType": "BOOLEAN", "value": 1, "stringValue": "True"}, True),
        ({"dataType": "BOOLEAN", "value": False}, False),
        ({"dataType": "BOOLEAN", "value": None, "stringValue": "false"}, False),
        ({"dataType": "CATEGORICAL", "value": 2, "stringValue": "bad"}, "bad"),
        ({"dataType": "CATEGORICAL", "value": "bad"}, "bad"),
        ({"dataType": "TEXT", "value": 0, "stringValue": "too long"}, "too long"),
        ({"dataType": "TEXT", "value": 0, "stringValue": None}, None),
        ({"dataType": "CORRECTION", "value": 0, "longStringValue": "the answer"}, "the answer"),
    ],
)
def test_a_score_has_the_value_of_its_type(row: dict[str, Json], value: Json) -> None:
    score: dict[str, Json] = {"id": "s", "traceId": "1" * 32, "name": "n", "source": "EVAL", **row}
    (note,) = read([score])[1]
    assert isinstance(note, RawNote)
    assert (note.scores[0].value, type(note.scores[0].value)) == (value, type(value))


@pytest.mark.parametrize(
    ("source", "name", "who"),
    [
        ("API", "user-feedback", "user"),
        ("API", "thumbs", "user"),
        ("API", "accuracy", "api"),
        ("EVAL", "user-feedback", "eval"),
        ("ANNOTATION", "quality", "annotation"),
    ],
)
def test_who_judged_is_told_apart(source: str, name: str, who: str) -> None:
    score: dict[str, Json] = {
        "id": "s", "traceId": "1" * 32, "name": name, "source": source, "value": 1,
        "dataType": "NUMERIC",
    }  # fmt: skip
    (note,) = read([score])[1]
    assert isinstance(note, RawNote)
    assert note.scores[0].source == who


def test_a_score_of_a_session_or_an_experiment_stands_at_no_trace() -> None:
    row: dict[str, Json] = {
        "id": "s", "projectId": "p", "name": "n", "source": "EVAL", "value": 1,
        "dataType": "NUMERIC",
    }  # fmt: skip
    kinds = ("session", "experiment")
    rows: list[dict[str, Json]] = [{**row, "subject": {"kind": k, "id": "i"}} for k in kinds]
    assert read(rows) == (["langfuse-scores"], [])
