"""Langfuse in files: API exports, saved answers of the API, rows of a blob storage export.

Each object of a file is taken by the first of the forms in `FORMS` that knows it. A form offers
`name`, `takes` and `spans` like every format of files.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, urlsplit

from connectors.traces.langfuse.fields import text
from connectors.traces.langfuse.notes import (
    is_score,
    is_trace_row,
    score_note,
    stand_in,
    trace_note,
)
from connectors.traces.langfuse.rows import is_row, row_span
from connectors.traces.raw import Raw, RawNote, as_objects
from contracts.json_types import Json

_API = "/api/public/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way in which Langfuse data lies in files."""

    name: str
    what: str
    takes: Callable[[Mapping[str, Json]], bool]
    spans: Callable[[Mapping[str, Json]], Iterator[Raw]]
    whole: bool = False
    """Every object holds whole traces."""
    notes_only: bool = False
    """No spans are in it: it is read beside a form that has them."""
    id_keys: tuple[bytes, ...] = (b'"traceId"', b'"trace_id"')
    """Keys under which ids of traces stand in the text."""


def takes_export(value: Mapping[str, Json]) -> bool:
    """Whether the object is one trace with its observations: `{trace, observations}`, or inside."""
    trace = value.get("trace")
    rows = value.get("observations")
    if isinstance(trace, dict) and isinstance(rows, list):
        return is_trace_row(trace) or any(is_row(row) for row in as_objects(rows)[:1])
    return isinstance(rows, list) and is_trace_row(value) and len(as_objects(rows)) == len(rows)


def export_spans(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The note of the trace, then its observations, each id once."""
    inner = value.get("trace")
    trace = inner if isinstance(inner, dict) else value
    note = trace_note(trace, as_objects(value.get("scores")) if trace is not value else ())
    if note is not None:
        yield note
    rows = as_objects(value.get("observations"))
    ids = {text(row.get("id")) for row in rows}
    if trace is not value:
        inside = as_objects(trace.get("observations"))
        rows += [row for row in inside if text(row.get("id")) not in ids]
    for row in rows:
        yield row_span(row)
    if not rows and note is not None:
        yield stand_in(trace)


def takes_observations(value: Mapping[str, Json]) -> bool:
    """Whether the object is an observation, a page of the API, or a recorded answer with one."""
    if is_row(value):
        return True
    page = _page(value)
    if page is None:
        return False
    rows = as_objects(page.get("data"))
    return not rows or is_row(rows[0])


def observation_spans(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The span of the row, or of every row of the page."""
    if is_row(value):
        yield row_span(value)
        return
    for row in as_objects((_page(value) or {}).get("data")):
        if is_row(row):
            yield row_span(row)
        else:
            yield from _record(row)


def takes_scores(value: Mapping[str, Json]) -> bool:
    """Whether the object is a score, or a page of scores."""
    if is_score(value):
        return True
    page = _page(value)
    rows = as_objects(page.get("data")) if page is not None else []
    return bool(rows) and is_score(rows[0])


def score_notes(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The scores that judge a trace, as notes of it."""
    rows = [value] if is_score(value) else as_objects((_page(value) or {}).get("data"))
    for row in rows:
        note = score_note(row)
        if note is not None:  # a session's or an experiment's score has no trace to stand at
            yield note


def takes_traces(value: Mapping[str, Json]) -> bool:
    """Whether the object is a trace without its spans, or a page of such."""
    if is_trace_row(value):
        return True
    page = _page(value)
    rows = as_objects(page.get("data")) if page is not None else []
    return bool(rows) and is_trace_row(rows[0])


def trace_notes(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The notes of the traces."""
    rows = [value] if is_trace_row(value) else as_objects((_page(value) or {}).get("data"))
    for row in rows:
        note = trace_note(row)
        if note is not None:
            yield note


def page_links(value: Mapping[str, Json]) -> tuple[str | None, str | None]:
    """(cursor that this recorded page was asked with, cursor of the page that follows it).

    The same cursor twice, or a next one that no other recorded page was asked with, means that rows
    are missing.
    """
    page = _page(value) or {}
    meta = page.get("meta")
    following = meta.get("cursor") if isinstance(meta, dict) else None
    url = value.get("url")
    asked = None
    if isinstance(url, str):
        try:
            asked = next(iter(parse_qs(urlsplit(url).query).get("cursor", ())), None)
        except ValueError:
            asked = None
    return asked, following if isinstance(following, str) and following else None


def _record(row: Mapping[str, Json]) -> Iterator[RawNote]:
    """What else may stand between observations."""
    note = score_note(row) if is_score(row) else trace_note(row) if is_trace_row(row) else None
    if note is not None:
        yield note


def _page(value: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """The page of rows in a document: itself, or the body of a recorded answer."""
    url, body = value.get("url"), value.get("body")
    if isinstance(url, str) and "status" in value and _API in url:
        value = body if isinstance(body, dict) else {"data": [], "meta": {}}
        if is_row(value):
            return {"data": [value], "meta": {}}
    data, meta = value.get("data"), value.get("meta")
    return value if isinstance(data, list) and isinstance(meta, dict) else None


EXPORT: Final = Form(
    name="langfuse-export",
    what="Langfuse API exports of one trace",
    takes=takes_export,
    spans=export_spans,
    whole=True,
    id_keys=(b'"traceId"', b'"trace_id"', b'"id"'),
)
OBSERVATIONS: Final = Form(
    name="langfuse-observations",
    what="Langfuse observations: pages of the API or rows of a blob export",
    takes=takes_observations,
    spans=observation_spans,
)
SCORES: Final = Form(
    name="langfuse-scores",
    what="Langfuse scores",
    takes=takes_scores,
    spans=score_notes,
    notes_only=True,
    id_keys=(b'"traceId"', b'"trace_id"', b'"id"'),
)
TRACES: Final = Form(
    name="langfuse-traces",
    what="Langfuse traces without their spans, of a blob export",
    takes=takes_traces,
    spans=trace_notes,
    notes_only=True,
    id_keys=(b'"traceId"', b'"trace_id"', b'"id"'),  # observations may follow in the same file
)
FORMS: Final = (EXPORT, SCORES, TRACES, OBSERVATIONS)
"""In the order in which they are asked: an empty page is one of observations."""
