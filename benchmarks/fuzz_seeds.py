"""Documents that the fuzzer begins with: runs of the example agent, small, in every format."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import orjson
import zstandard

from benchmarks.fuzz_writers import (
    TEXT_CHARS,
    Document,
    otlp_documents,
    phoenix_page,
    printed_spans,
    short,
    swe_agent_document,
)
from benchmarks.read import pieces, plain_copies
from connectors.traces.formats import format_of
from connectors.traces.raw import as_objects
from connectors.traces.salvage import load
from contracts.json_types import Json
from contracts.traces import Message, Payload, Score, Span, Trace
from tests.emit import atif, chat, inspect, langfuse, langsmith, openinference

NOTES_ONLY = ("langfuse-scores", "langfuse-traces")
"""Formats that hold no spans."""
TRACES = 3
SPANS = 6
MAX_GIVEN_BYTES = 24 << 10
MAX_GIVEN = 40  # of a format


def small_traces(traces: Iterable[Trace]) -> list[Trace]:
    """A few of the traces, failed ones first, with few spans and short texts, judged by scores."""
    ranked = sorted(traces, key=lambda t: (all(s.error is None for s in t.spans), len(t.spans)))
    return [_small(trace) for trace in (*ranked[: TRACES - 1], ranked[-1])]


def _small(trace: Trace) -> Trace:
    failed = [span for span in trace.spans[SPANS:] if span.error is not None][:1]
    kept = (*trace.spans[:SPANS], *failed)
    ids = {span.id for span in kept}
    root = trace.root.id
    spans = tuple(
        _small_span(s if s.parent_id is None or s.parent_id in ids else replace(s, parent_id=root))
        for s in kept
    )
    scores = tuple(
        Score(name=name, value=value, source="eval", comment="why", span_id=span, at=span_at)
        for name, value, span, span_at in (
            ("helpful", 1.0, None, trace.started_at),
            ("tone", "rude", spans[-1].id, None),
        )
    )
    return replace(trace, spans=spans, session_id=f"s-{trace.id[:6]}", scores=scores)


def _small_span(span: Span) -> Span:
    return replace(
        span,
        input=_small_payload(span.input),
        output=_small_payload(span.output),
        messages_in=tuple(_small_message(one) for one in span.messages_in[-3:]),
        messages_out=tuple(_small_message(one) for one in span.messages_out),
    )


def _small_message(one: Message) -> Message:
    return replace(one, content=one.content[:TEXT_CHARS])


def _small_payload(payload: Payload | None) -> Payload | None:
    if payload is None:
        return None
    value = payload.value
    text = payload.text[:TEXT_CHARS] if value is None else json.dumps(short(value))
    return Payload(text=text, size_bytes=len(text.encode()))


def documents(own: Path, traces: Sequence[Trace]) -> dict[str, list[Json]]:
    """Parsed documents by the name of the format that takes them, and pages of vendors' rows."""
    rows: list[Json] = [row for t in traces[:2] for row in langfuse.observation_rows(t)]
    scores: list[Json] = [row for t in traces for row in langfuse.score_rows(t)]
    head, old_rows = langfuse.legacy_blob(traces[0])
    items: list[Json] = list(langsmith.v2_items(traces[:1]))
    runs: list[Json] = [langsmith.v1_run(item) for item in langsmith.v2_items(traces[1:2])]
    hook: Document = {"rule_id": "r", "start_time": "2026-11-24T09:00:00", "runs": items[:2],
                      "feedback_stats": {"helpful": {"n": 1, "avg": 0.5}}}  # fmt: skip
    found: dict[str, list[Json]] = {
        "otlp-json": list(otlp_documents(own, traces)),
        "openinference-json": [openinference.document(trace) for trace in traces],
        "otel-js-spans": list(printed_spans(traces[0])),
        "langfuse-export": [langfuse.export(trace) for trace in traces],
        "langfuse-scores": [
            {"data": scores, "meta": {}}, *scores[:1], *langfuse.blob_scores(traces[0]),
        ],
        "langfuse-traces": [head, {"data": [head], "meta": {"page": 1}}],
        "langfuse-observations": [
            {"data": rows, "meta": {"cursor": "abc"}}, *rows[:1],
            *langfuse.blob_rows(traces[0])[:2],
            *old_rows[:2],
            {"url": "https://host/api/public/v2/observations?cursor=abc", "status": 200,
             "body": {"data": rows[:4], "meta": {}}},
        ],
        "langsmith-batch": list(langsmith.batch_bodies(traces)),
        "langsmith-runs": [
            {"items": items, "next_cursor": "x"}, {"runs": runs, "cursors": {"next": None}},
            *items[:1],
            hook, {**_object(runs[0]), "child_runs": runs[1:4]},
        ],
        "atif": [atif.document(trace) for trace in traces],
        "inspect": [inspect.document(traces[:1]), inspect.sample(traces[1])],
        "swe-agent": [swe_agent_document(trace) for trace in traces],
        "chat-log": [*(chat.document(t) for t in traces), chat.document(traces[0])["messages"]],
        "langfuse-rows": [{"data": rows, "meta": {}}],
        "langsmith-rows": [{"items": items}, {"runs": runs}, hook],
        "phoenix-rows": [phoenix_page(trace) for trace in traces[:2]],
    }  # fmt: skip
    return found


def _object(value: Json) -> Document:
    return dict(value) if isinstance(value, Mapping) else {}


def given_documents(folder: Path, scratch: Path) -> dict[str, list[bytes]]:
    """Pieces of the files of a folder by the format that takes them; only small ones."""
    found: dict[str, list[bytes]] = {}
    for piece in pieces([p for p in plain_copies(folder, scratch) if p.suffix.startswith(".js")]):
        if len(piece) <= MAX_GIVEN_BYTES:
            form = format_of(load(piece).value)
            if form is not None and len(found.setdefault(form.name, [])) < MAX_GIVEN:
                found[form.name].append(piece)
    return found


def containers(
    known: Mapping[str, Sequence[Json]], traces: Sequence[Trace]
) -> dict[str, list[bytes]]:
    """Whole files of each kind that holds rows, members or packed text."""
    rows = langfuse.blob_rows(traces[0])
    flat = langsmith.bulk_rows(traces[:1])
    lines = _lines(known["otlp-json"][:3])
    return {
        "csv": [langfuse.as_csv(rows).encode(), _csv_of(flat)],
        "parquet": [_parquet(flat), _parquet([_flat(row) for row in rows])],
        "zip": [_zip(map(orjson.dumps, known["langfuse-export"])), inspect.archive(traces[:2])],
        "gzip": [gzip.compress(lines, mtime=0)],
        "zstd": [zstandard.compress(lines)],
        "lines": [
            _lines(some[:3])
            for name, some in known.items()
            if name not in NOTES_ONLY and not name.endswith("-rows")
        ],
    }


def _lines(some: Iterable[Json]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in some)


def _flat(row: Mapping[str, Json]) -> dict[str, object]:
    return {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()}


def _csv_of(rows: Sequence[Mapping[str, object]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def _parquet(rows: Sequence[Mapping[str, object]]) -> bytes:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  (an extra, without types)
    from pyarrow import parquet  # noqa: PLC0415

    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(list(rows)), out)
    return out.getvalue()


def _zip(members: Iterable[bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for number, one in enumerate(members):
            packed.writestr(zipfile.ZipInfo(f"runs/{number}.json"), one)
        packed.writestr(zipfile.ZipInfo("readme.txt"), "no trace")
    return out.getvalue()


def _table(parts: Iterable[bytes]) -> list[dict[str, object]]:
    """The objects of the parts as rows of text, with the same columns each."""
    rows: list[dict[str, object]] = []
    for part in parts:
        value = load(part).value
        holders = as_objects([value, *(value.values() if isinstance(value, dict) else ())])
        found = [row for one in holders for row in (one, *_rows_in(one))]
        rows += [{k: _cell(v) for k, v in row.items()} for row in found[:20]]
    names = list(dict.fromkeys(name for row in rows for name in row))[:100]
    return [{name: row.get(name) for name in names} for row in rows] if names else [{"a": None}]


def _rows_in(value: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    for item in value.values():
        yield from as_objects(item)


def _cell(value: Json) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


PACK: Final[Mapping[str, Callable[[Sequence[bytes]], bytes]]] = {
    "lines": lambda parts: b"\n".join(part.replace(b"\n", b" ") for part in parts),
    "csv": lambda parts: _csv_of(_table(parts)),
    "parquet": lambda parts: _parquet(_table(parts)),
    "zip": _zip,
    "gzip": lambda parts: gzip.compress(b"\n".join(parts), mtime=0),
    "zstd": lambda parts: zstandard.compress(b"\n".join(parts)),
}
"""Whole files of documents, by their kind."""
