"""Documents that the fuzzer begins with: runs of the example agent, small, in every format."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import zstandard

from benchmarks.read import pieces, plain_copies, shapes
from connectors.traces.formats import format_of
from connectors.traces.otlp import attributes_of
from connectors.traces.salvage import load
from contracts.json_types import Json
from contracts.traces import Message, Payload, Score, Span, Trace
from tests.emit import atif, chat, inspect, langfuse, langsmith, openinference
from tests.emit.chat import conversation

Document = dict[str, Json]

TRACES = 3
SPANS = 7
TEXT_CHARS = 48
MAX_GIVEN_BYTES = 24 << 10
MAX_GIVEN = 40  # of a format
_NANOS = 1_000_000_000


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
    text = payload.text[:TEXT_CHARS] if value is None else json.dumps(_short(value))
    return Payload(text=text, size_bytes=len(text.encode()))


def _short(value: Json) -> Json:
    if isinstance(value, str):
        return value[:TEXT_CHARS]
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in list(value.items())[:6]}
    if isinstance(value, list):
        return [_short(item) for item in value[:2]]
    return value


def otlp_documents(own: Path, traces: Sequence[Trace]) -> Iterator[Document]:
    """Export requests with the same few spans, as they were recorded and in other spellings."""
    trees = {str(spans[0]["traceId"]): spans for spans in shapes(own)}
    for number, trace in enumerate(traces):
        ids = {span.id for span in trace.spans}
        spans = [_short_otlp(span) for span in trees[trace.id] if span["spanId"] in ids]
        resource: Json = {
            "attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]
        }
        yield {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}
        if not number:
            snake = [_snake(span) for span in spans]
            yield {"resource_spans": [{"scope_spans": [{"spans": list(snake)}]}]}
    yield from (
        {"batches": [{"scopeSpans": [{"spans": list(spans)}]}]} for spans in _dialects(traces[0])
    )


def _short_otlp(span: Mapping[str, Json]) -> Document:
    recorded = attributes_of(span.get("attributes"))
    attributes = [_pair(key, _short_text(value)) for key, value in recorded.items()]
    return {**span, "attributes": attributes}


def _short_text(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    inner = load(value.encode()).value if value[:1] in ("{", "[") else None
    return value[:TEXT_CHARS] if inner is None else json.dumps(_short(inner))


def _pair(key: str, value: Json) -> Document:
    if isinstance(value, bool):
        return {"key": key, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    if isinstance(value, float):
        return {"key": key, "value": {"doubleValue": value}}
    return {"key": key, "value": {"stringValue": value if isinstance(value, str) else ""}}


def _snake(span: Mapping[str, Json]) -> Document:
    names = {"traceId": "trace_id", "spanId": "span_id", "parentSpanId": "parent_span_id",
             "startTimeUnixNano": "start_time_unix_nano", "endTimeUnixNano": "end_time_unix_nano"}  # fmt: skip
    return {names.get(key, key): value for key, value in span.items()}


def _dialects(trace: Trace) -> Iterator[list[Document]]:
    """The model call and the tool call of a run, as other recorders write them."""
    asked = json.dumps([{"role": "user", "content": "refund A-1"}])
    parts = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "refund A-1"}]}])
    calls = json.dumps([{"role": "assistant", "parts": [
        {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"a": 1}}]}])  # fmt: skip
    llm: list[dict[str, Json]] = [
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages":
         parts, "gen_ai.output.messages": calls, "gen_ai.usage.input_tokens": 5,
         "gen_ai.response.finish_reasons": '["stop"]', "gen_ai.system_instructions": parts},
        {"gen_ai.system": "x", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi",
         "gen_ai.completion.0.content": "yes", "gen_ai.usage.prompt_tokens": 3,
         "llm.request.type": "chat", "gen_ai.completion.0.tool_calls.0.name": "find"},
        {"traceloop.span.kind": "task", "traceloop.entity.input": asked,
         "traceloop.entity.output": "{}", "traceloop.association.properties.session_id": "s"},
        {"langfuse.observation.type": "generation", "langfuse.observation.input": asked,
         "langfuse.observation.output": "ok", "langfuse.observation.usage_details": '{"input": 4}',
         "langfuse.session.id": "s", "langfuse.trace.tags": '["a"]'},
        {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": asked,
         "ai.response.text": "ok", "ai.model.id": "m", "ai.response.toolCalls": "[]"},
        {"logfire.msg": "chat", "request_data": '{"messages": ' + asked + "}",
         "response_data": '{"message": {"role": "assistant", "content": "ok"}}'},
    ]  # fmt: skip
    tool: dict[str, Json] = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
        "gen_ai.tool.call.arguments": '{"a": 1}', "gen_ai.tool.call.result": '{"ok": false}',
    }  # fmt: skip
    events: list[Json] = [
        {"name": "gen_ai.user.message", "attributes": [_pair("content", "hi")]},
        {"name": "gen_ai.choice", "attributes": [_pair("message", '{"content": "yes"}')]},
        {"name": "exception", "attributes": [_pair("exception.type", "KeyError"),
                                             _pair("exception.message", "no"),
                                             _pair("exception.stacktrace", "Traceback")]},
    ]  # fmt: skip
    for number, attributes in enumerate(llm):
        start = 1_795_510_800 * _NANOS + number
        ids: Document = {"traceId": f"{number + 1:032x}"}
        first: Document = {
            **ids, "spanId": f"{1:016x}", "name": trace.root.name, "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + 5 * _NANOS), "attributes":
            [_pair(k, v) for k, v in attributes.items()], "events": events[: 2 * (number % 2)],
            "status": {"code": 1},
        }  # fmt: skip
        second: Document = {
            **ids, "spanId": f"{2:016x}", "parentSpanId": f"{1:016x}", "name": "find",
            "startTimeUnixNano": start + _NANOS, "endTimeUnixNano": start + 2 * _NANOS,
            "attributes": [_pair(k, v) for k, v in tool.items()], "events": events[2:],
            "status": {"code": "STATUS_CODE_ERROR", "message": "KeyError: no"},
        }  # fmt: skip
        yield [first, second]


def printed_spans(trace: Trace) -> Iterator[Document]:
    """Spans as the SDKs print them: JavaScript's console and objects, Python's console."""
    console: list[Json] = []
    dumped: list[Json] = []
    python: list[Json] = []
    for span in trace.spans:
        us = int(span.started_at.timestamp() * 1_000_000)
        seconds = [us // 1_000_000, us % 1_000_000 * 1000]
        attributes = dict(openinference._attributes(span, trace))
        parent = {"parentId": span.parent_id} if span.parent_id else {}
        console.append({
            "resource": {"attributes": {"service.name": "desk"}}, "traceId": trace.id,
            "name": span.name, "id": span.id, **parent, "timestamp": us, "duration": 900.5,
            "kind": 0, "attributes": attributes, "status": {"code": 1}, "events": [], "links": [],
        })  # fmt: skip
        dumped.append({
            "name": span.name, "_spanContext": {"traceId": trace.id, "spanId": span.id},
            "parentSpanContext": {"spanId": span.parent_id}, "startTime": seconds,
            "endTime": seconds, "ended": True, "attributes": attributes, "status": {"code": 2},
        })  # fmt: skip
        python.append({
            "name": span.name, "context": {"trace_id": f"0x{trace.id}", "span_id": f"0x{span.id}"},
            "parent_id": f"0x{span.parent_id}" if span.parent_id else None, "kind": "INTERNAL",
            "start_time": span.started_at.isoformat(), "end_time": None,
            "status": {"status_code": "ERROR", "description": "no"}, "attributes": attributes,
            "events": [{"name": "exception", "attributes": {"exception.type": "KeyError"}}],
        })  # fmt: skip
    yield {"spans": console}
    yield {"ai.generateText": dumped}
    yield {"spans": python}


def swe_agent_document(trace: Trace) -> Document:
    """The run as a trajectory of SWE-agent: what the model said, did, and was answered."""
    history: list[Json] = []
    steps: list[Json] = []
    waiting = "ls"
    for said in conversation(trace):
        history.append({"role": said.role if said.role in ("system", "user") else "assistant",
                        "agent": "main", "content": said.text, "action": waiting})  # fmt: skip
        if said.calls:
            waiting = f"{said.calls[0].tool} {json.dumps(said.calls[0].arguments)}"
        elif said.call is not None:
            steps.append({"action": waiting, "observation": said.text, "response": "so",
                          "thought": "", "execution_time": 0.5})  # fmt: skip
    return {
        "environment": "main", "history": history,
        "trajectory": steps or [{"action": waiting, "observation": "a b", "response": "so"}],
        "info": {"exit_status": "exit_cost", "submission": "", "model_stats":
                 {"tokens_sent": 5, "api_calls": 2, "instance_cost": 0.1}},
    }  # fmt: skip


def phoenix_page(trace: Trace) -> Document:
    """The run as a page of spans of Phoenix, with annotations of each kind."""
    rows: list[Json] = [
        {
            "id": "U3Bhbjox", "name": span.name,
            "context": {"trace_id": trace.id, "span_id": span.id},
            "span_kind": span.kind.upper(), "parent_id": span.parent_id,
            "start_time": span.started_at.isoformat(),
            "end_time": span.ended_at.isoformat() if span.ended_at else None,
            "status_code": "ERROR" if span.error else "OK", "status_message": "",
            "attributes": dict(openinference._attributes(span, trace)) | {"metadata.node": "n"},
            "events": [],
        }
        for span in trace.spans
    ]  # fmt: skip
    rows += [
        {"name": "helpful", "annotator_kind": kind, "source": "APP", "updated_at":
         "2026-11-24T09:00:00+00:00", "result": {"score": 1.0, "label": "good"}, **about}
        for kind in ("HUMAN", "LLM")
        for about in ({"span_id": trace.root.id}, {"trace_id": trace.id})
    ]  # fmt: skip
    return {"data": rows, "next_cursor": None}


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
        "langfuse-scores": [{"data": scores, "meta": {}}, *scores[:1], *langfuse.blob_scores(traces[0])],
        "langfuse-traces": [head, {"data": [head], "meta": {"page": 1}}],
        "langfuse-observations": [
            {"data": rows, "meta": {"cursor": "abc"}}, *rows[:1], *langfuse.blob_rows(traces[0])[:2],
            *old_rows[:2],
            {"url": "https://host/api/public/v2/observations?cursor=abc", "status": 200,
             "body": {"data": rows[:4], "meta": {}}},
        ],
        "langsmith-batch": list(langsmith.batch_bodies(traces)),
        "langsmith-runs": [
            {"items": items, "next_cursor": "x"}, {"runs": runs, "cursors": {"next": None}}, *items[:1],
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


def containers(known: Mapping[str, Sequence[Json]], traces: Sequence[Trace]) -> dict[str, list[bytes]]:
    """Whole files of each kind that holds rows, members or packed text."""
    rows = langfuse.blob_rows(traces[0])
    flat = langsmith.bulk_rows(traces[:1])
    lines = _lines(known["otlp-json"][:3])
    return {
        "csv": [langfuse.as_csv(rows).encode(), _csv_of(flat)],
        "parquet": [_parquet(flat), _parquet([_flat(row) for row in rows])],
        "zip": [_zip(known["langfuse-export"]), inspect.archive(traces[:2])],
        "gzip": [gzip.compress(lines, mtime=0)],
        "zstd": [zstandard.compress(lines)],
        "lines": [_lines(documents[:3]) for name, documents in known.items() if "rows" not in name],
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
    return out.getvalue().encode()


def _parquet(rows: Sequence[Mapping[str, object]]) -> bytes:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  (an extra, without types)
    from pyarrow import parquet  # noqa: PLC0415

    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(list(rows)), out)
    return out.getvalue()


def _zip(members: Iterable[Json]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for number, one in enumerate(members):
            packed.writestr(zipfile.ZipInfo(f"runs/{number}.json"), json.dumps(one))
        packed.writestr(zipfile.ZipInfo("readme.txt"), "no trace")
    return out.getvalue()


Writer = Callable[[Sequence[Json]], bytes]
