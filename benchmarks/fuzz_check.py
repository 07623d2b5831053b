"""What must hold of every input, however broken: the readers' promises, asked of one input."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from math import isfinite
from pathlib import Path
from random import Random
from typing import Final

import orjson

from connectors.traces.chunks import Chunk, TraceFile, trace_ids
from connectors.traces.collect import Collector
from connectors.traces.files import FilesSource
from connectors.traces.formats import Format, detect_text
from connectors.traces.langfuse.notes import is_score, is_trace_row, score_note, trace_note
from connectors.traces.langfuse.rows import free_roots, row_span
from connectors.traces.langsmith.payloads import joined, needing
from connectors.traces.langsmith.rows import records as run_records
from connectors.traces.langsmith.slices import gathered
from connectors.traces.phoenix_rows import score_of, size_of, span_of
from connectors.traces.raw import Raw, RawNote, RawSpan, as_objects
from connectors.traces.reading import Reading, spans_of
from connectors.traces.salvage import load
from connectors.traces.tree import build_trace
from contracts.errors import UsageError
from contracts.json_types import Json
from contracts.traces import ReadReport, Span, Trace, TraceQuery
from nodes.insights.analyze import analyze
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.report import analysis_json

CAP: Final = 4 << 10
_KINDS: Final = frozenset(
    {"agent", "llm", "tool", "retriever", "chain", "embedding", "guardrail", "other"}
)
_STATUS: Final = frozenset({"ok", "error", "unset", "interrupted"})
_READ: Final = frozenset({"complete", "partial", "pending"})


class BrokenPromiseError(AssertionError):
    """An input after which a promise of the readers does not hold."""


def promised(held: object, what: str) -> None:
    """Fail when a promise does not hold."""
    if not held:
        raise BrokenPromiseError(what)


def check_piece(form: Format, data: bytes, rng: Random) -> int:
    """Read one piece as of a format, and ask everything of what comes out; the spans it gave."""
    file = TraceFile(path=Path("fuzzed"), shape="document", format=form)
    note = Reading(source="fuzz", files=[file], skipped=[])
    detect_text(data[: rng.choice((1 << 10, 16 << 10))], complete=rng.random() < 0.5)
    ids = trace_ids(file, data)
    promised(all(isinstance(one, str) for one in ids), "the ids of a piece are text")
    found = list(spans_of(file, Chunk(data=data, line=1), note))
    check_report(note.report())
    return check_records(found, rng)


def check_records(found: Iterable[RawSpan | RawNote], rng: Random) -> int:
    """Build every trace of the records, in their order and in another; the spans they gave."""
    by_trace: dict[str, list[RawSpan | RawNote]] = {}
    for raw in found:
        by_trace.setdefault(raw.trace_id, []).append(raw)
    spans = 0
    for held in by_trace.values():
        if any(isinstance(raw, RawSpan) for raw in held):
            shuffled = [_copy(raw) for raw in held]
            rng.shuffle(shuffled)
            trace = build_trace(held, CAP).trace
            check_trace(trace)
            recorded = {raw.span_id for raw in held if isinstance(raw, RawSpan)}
            told_of = {span.id for span in trace.spans if not span.virtual}
            promised(recorded == told_of, "every recorded span is in its trace")
            spans += len(trace.spans)
            if len(held) > 1:
                again = build_trace(shuffled, CAP).trace
                promised(told(trace) == told(again), "records in another order, another trace")
    return spans


def _copy(raw: RawSpan | RawNote) -> RawSpan | RawNote:
    return replace(raw, attributes=dict(raw.attributes))


def check_trace(trace: Trace) -> None:
    """Everything that detectors and cards rely on."""
    promised(isinstance(trace.id, str) and trace.id, "a trace has an id")
    promised(sum(span.virtual for span in trace.spans) <= 1, "at most one virtual root")
    promised(trace.spans[0].parent_id is None, "the root comes first")
    promised(not any(s.virtual for s in trace.spans[1:]), "a virtual root comes first")
    before: set[str] = set()
    for span in trace.spans:
        promised(span.id not in before, "a span comes once")
        promised(span.parent_id is None or span.parent_id in before, "parents before children")
        before.add(span.id)
        check_span(span)
    for text in (trace.session_id, trace.user_id, trace.environment, trace.release, trace.name):
        promised(text is None or (isinstance(text, str) and text), "a recorded word is text")
    for score in trace.scores:
        promised(isinstance(score.name, str), "scores have names")
        finite = not isinstance(score.value, float) or isfinite(score.value)
        promised(isinstance(score.value, float | int | str | None), "scores are plain")
        promised(finite, "scores are finite")
        promised(score.at is None or score.at.utcoffset() == timedelta(0), "scores are in UTC")
    found = detect(trace, Scans())
    for symptom in found.symptoms:
        promised(symptom.span_id in before, "a symptom is at a span of its trace")


def check_span(span: Span) -> None:
    """One step: typed, timed in UTC, countable, and of text that can be written down."""
    promised(isinstance(span.id, str) and span.id, "a span has an id")
    promised(isinstance(span.name, str), "a name is text")
    promised(span.kind in _KINDS and span.status in _STATUS, "kind and status are known words")
    promised(span.started_at.utcoffset() == timedelta(0), "times are in UTC")
    if span.ended_at is not None:
        promised(span.ended_at.utcoffset() == timedelta(0), "times are in UTC")
        promised(span.ended_at >= span.started_at, "an end is not before its start")
    for count in (span.input_tokens, span.output_tokens):
        counted = count is None or (type(count) is int and count >= 0)
        promised(counted, "tokens are counts")
    cost = span.cost_usd
    promised(cost is None or (isfinite(cost) and cost >= 0), "a cost is a finite amount")
    texts: list[str | None] = [span.tool_name, span.model, span.finish_reason, span.prompt_name]
    texts += [span.prompt_version, span.name, span.id]
    if span.error is not None:
        texts += [span.error.type, span.error.message, span.error.stack]
    for payload in (span.input, span.output):
        if payload is not None:
            texts.append(payload.text)
            promised(len(payload.text.encode("utf-8", "surrogatepass")) <= CAP, "texts are cut")
            promised(len(payload.sha256) == 64, "a payload has a hash")
            promised(not payload.truncated or payload.value is None, "what is cut is not parsed")
            repr(payload.value)
    for message in (*span.messages_in, *span.messages_out):
        texts += [message.role, message.content, message.tool_call_id]
        texts += [part for call in message.tool_calls for part in call]
    for text in texts:
        promised(text is None or isinstance(text, str), "texts are text")
        (text or "").encode("utf-8", "surrogatepass")
    promised(all(isinstance(key, str) for key in span.attributes), "attributes have names")


def check_report(report: ReadReport) -> None:
    """The account of a read: known words, and counts."""
    promised(report.status in _READ, "a read is complete, partial or pending")
    counts = (report.traces, report.spans, report.orphans, report.duplicates, report.truncated)
    promised(all(count >= 0 for count in counts), "counts are not negative")
    promised(all("\n" not in one.why for one in report.skipped), "a reason is one line")


def told(trace: Trace) -> list[object]:
    """All that a trace says, in comparable form: NaN equals NaN, 1 differs from 1.0."""
    out: list[object] = [trace.id, trace.session_id, trace.user_id, trace.environment]
    out += [trace.release, trace.own, trace.orphans, trace.pending, trace.timeless, trace.name]
    out += [trace.version, trace.tags, repr(trace.scores), repr(sorted(trace.resource.items()))]
    for span in trace.spans:
        out += [span.id, span.parent_id, span.name, span.kind, span.status, span.started_at]
        out += [span.ended_at, span.error, span.tool_name, span.model, span.input_tokens]
        out += [span.output_tokens, repr(span.cost_usd), span.messages_in, span.messages_out]
        out += [span.finish_reason, span.prompt_name, span.prompt_version, span.virtual]
        out += [p and p.text for p in (span.input, span.output)]
        out.append(repr(sorted(span.attributes.items())))
    return out


def check_rows(kind: str, data: bytes, rng: Random) -> int:
    """One page of a vendor's API as its reader takes it; the spans it gave."""
    page = load(data).value
    rows: list[Json] = []
    for key in ("data", "items", "runs"):
        found = page.get(key) if isinstance(page, dict) else None
        rows += as_objects(found)
    objects = as_objects(rows)
    raws: list[Raw] = list(_raws(kind, objects))
    collector = Collector(source="fuzz", reader=kind, query=TraceQuery(), cap=CAP)
    collector.add([_copy(raw) if raw is not None else None for raw in raws], size_bytes=len(data))
    for trace in collector.take():
        check_trace(trace)
    check_report(collector.report(requests=1))
    return check_records([raw for raw in raws if raw is not None], rng)


def _raws(kind: str, rows: Sequence[Mapping[str, Json]]) -> Iterable[Raw]:
    if kind == "langfuse-rows":
        spans = [row_span(row, cut_metadata=number % 2 > 0) for number, row in enumerate(rows)]
        free_roots(spans)
        yield from spans
        for row in rows:
            if is_score(row):
                yield score_note(row)
            elif is_trace_row(row):
                yield trace_note(row)
    elif kind == "langsmith-rows":
        for number, row in enumerate(rows):
            yield from run_records(joined(row, rows[number - 1]) if number % 5 == 4 else row)
        traces, nameless = gathered(rows, "default")
        promised(nameless >= 0, "counts are not negative")
        for one in traces.values():
            needing(one.spans.values())
            promised(one.begins_ns >= 0 and (one.active_ns or 0) >= 0, "times of a slice")
    else:
        for row in rows:
            promised(size_of(row) > 0, "a row has a size")
            yield span_of(row)
            score = score_of(row)
            if score is not None and score[1].span_id is None:
                yield RawNote(trace_id=score[0], scores=(score[1],))


async def check_file(path: Path, *, whole: bool) -> int:
    """One file as `analyze` reads it; `whole`: in little memory too, and up to the JSON document.

    With so little room that nearly every trace is read in a pass of its own, the same traces must
    come out; of a file of several formats this is not asked, as one run may be there in each.
    """
    try:
        source = FilesSource([path], payload_cap_bytes=CAP)
        seen, formats = await _read(source)
        if whole:
            little = FilesSource([path], payload_cap_bytes=CAP, max_waiting_bytes=1024)
            narrow, _ = await _read(little)
            promised(seen == narrow or ", " in formats, "less memory, other traces")
            found = await analyze(source, TraceQuery(), project="fuzz")
            orjson.dumps(analysis_json(found))
    except UsageError as error:
        promised("\n" not in str(error).strip(), "an error is one line")
        return 0
    return sum(seen.values())


async def _read(source: FilesSource) -> tuple[dict[str, int], str]:
    """Spans by trace, and the formats that were met; everything is asked of each trace."""
    seen: dict[str, int] = {}
    formats = ""
    async for batch in source.window(TraceQuery()):
        check_report(batch.read)
        formats = batch.read.format
        for trace in batch.traces:
            check_trace(trace)
            promised(trace.id not in seen, "a trace is given away once")
            seen[trace.id] = len(trace.spans)
    return seen, formats


class Files:
    """Reads files in one event loop, which is opened once for many inputs."""

    def __init__(self, scratch: Path) -> None:
        self._runner = asyncio.Runner()
        self._scratch = scratch

    def check(self, name: str, data: bytes, *, whole: bool) -> int:
        """Write the input down and read it."""
        path = self._scratch / name
        path.write_bytes(data)
        return self._runner.run(check_file(path, whole=whole))

    def close(self) -> None:
        """Close the loop."""
        self._runner.close()
