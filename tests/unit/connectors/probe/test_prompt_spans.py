"""Spans as the SDKs of different languages and ages send them, and what is no spans at all."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard

from connectors.probe.loopback import MAX_BODY_BYTES, Ask
from connectors.probe.prompts_spans import OTLP_PATHS, BadSpansError, SpansKept
from connectors.traces.files import read_spans
from contracts.json_types import Json
from tests.trace_worlds import START, line, root, span_id, tool, trace_id

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
RUN = "018f0000-0000-7000-8000-000000000001"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, "gzip": gzip.compress, "zstd": zstandard.compress,
}  # fmt: skip
CHILD = "018f0000-0000-7000-8000-000000000002"


def post(body: bytes, kind: str = "application/json", method: str = "POST", **more: str) -> Ask:
    headers = {"content-type": kind} | {k.replace("_", "-"): v for k, v in more.items()}
    return Ask(method=method, path="", query={}, headers=headers, body=body)


def tools(kept: SpansKept, folder: Path, since: datetime = LONG_AGO) -> list[str | None] | None:
    trace = kept.trace(folder, read_spans, since=since)
    return None if trace is None else [s.tool_name for s in trace.spans if s.kind == "tool"]


@pytest.mark.parametrize("path", OTLP_PATHS)
@pytest.mark.parametrize("packing", ["", "gzip", "zstd"])
def test_otlp_is_kept_plain_and_packed(tmp_path: Path, path: str, packing: str) -> None:
    body = line([root(), tool(1, "look", {}, "seen")])
    packed = PACK[packing](body)
    kept = SpansKept()
    assert kept.take(path, post(packed, content_encoding=packing))
    assert kept.whole
    assert tools(kept, tmp_path) == ["look"]
    assert list(tmp_path.iterdir()) == []


def test_a_trace_in_several_requests_is_whole_when_its_root_came(tmp_path: Path) -> None:
    kept = SpansKept()
    kept.take(OTLP_PATHS[0], post(line([tool(1, "look", {}, "seen")])))
    assert (kept.any, kept.whole) == (True, False)
    kept.take(OTLP_PATHS[0], post(line([root()])))
    assert kept.whole
    assert tools(kept, tmp_path) == ["look"]


def test_spans_of_an_earlier_run_that_come_late_are_not_this_ones(tmp_path: Path) -> None:
    kept = SpansKept()
    kept.take(OTLP_PATHS[0], post(line([root(), tool(1, "look", {}, "seen")])))
    began = datetime.fromtimestamp(START / 1e9, UTC)
    assert tools(kept, tmp_path, began) == ["look"]
    assert tools(kept, tmp_path, began.replace(microsecond=1)) is None


def halves() -> tuple[dict[str, Json], dict[str, Json], dict[str, Json]]:
    order = "20260310T093000000000Z"
    started: dict[str, Json] = {"trace_id": RUN, "start_time": "2026-03-10T09:30:00.000000"}
    parent: dict[str, Json] = {
        **started, "id": RUN, "name": "desk", "run_type": "chain", "dotted_order": f"{order}{RUN}",
        "inputs": {"message": "hi"},
    }  # fmt: skip
    child: dict[str, Json] = {
        **started, "id": CHILD, "name": "look", "run_type": "tool", "parent_run_id": RUN,
        "dotted_order": f"{order}{RUN}.{order}{CHILD}", "inputs": {}, "outputs": {"output": "seen"},
        "end_time": "2026-03-10T09:30:01.000000",
    }  # fmt: skip
    end: dict[str, Json] = {
        "id": RUN, "trace_id": RUN, "dotted_order": f"{order}{RUN}", "outputs": {"answer": "done"},
        "end_time": "2026-03-10T09:30:02.000000",
    }  # fmt: skip
    return parent, child, end


def multipart(parts: dict[str, Json]) -> Ask:
    body = b""
    for name, value in parts.items():
        head = f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n'
        body += f"{head}Content-Type: application/json\r\n\r\n{json.dumps(value)}\r\n".encode()
    return post(body + b"--b--\r\n", kind="multipart/form-data; boundary=b")


@pytest.mark.parametrize("root_path", ["", "/api/v1"])
@pytest.mark.parametrize("how", ["batch", "multipart", "single"])
def test_runs_are_kept_in_each_form_that_langsmith_takes(
    tmp_path: Path, how: str, root_path: str
) -> None:
    parent, child, end = halves()
    kept = SpansKept()
    runs = f"{root_path}/runs"
    if how == "batch":
        body = json.dumps({"post": [parent, child], "patch": []}).encode()
        assert kept.take(f"{runs}/batch", post(body))
        assert (kept.any, kept.whole) == (True, False)
        kept.take(f"{runs}/batch", post(json.dumps({"patch": [end]}).encode()))
    elif how == "multipart":
        bare = {k: v for k, v in parent.items() if k != "inputs"}
        kept.take(f"{runs}/multipart", multipart({
            f"post.{RUN}": bare, f"post.{RUN}.inputs": parent["inputs"], f"post.{CHILD}": child,
        }))  # fmt: skip
        assert (kept.any, kept.whole) == (True, False)
        kept.take(f"{runs}/multipart", multipart({f"patch.{RUN}": end}))
    else:
        kept.take(runs, post(json.dumps(parent).encode()))
        kept.take(runs, post(json.dumps(child).encode()))
        assert (kept.any, kept.whole) == (True, False)
        kept.take(f"{runs}/{RUN}", post(json.dumps(end).encode(), method="PATCH"))
    assert kept.whole
    trace = kept.trace(tmp_path, read_spans, since=LONG_AGO)
    assert trace is not None
    assert trace.root.input is not None
    assert "hi" in trace.root.input.text
    assert trace.root.output is not None
    assert "done" in trace.root.output.text
    assert [s.tool_name for s in trace.spans if s.kind == "tool"] == ["look"]


@pytest.mark.parametrize(
    "ask",
    [
        post(b"[]"),
        post(b"{"),
        post(b"[" * 100_000),
        post(b"\xff\xff\xff", kind="application/x-protobuf"),
        post(b"no gzip", content_encoding="gzip"),
        post(b"no zstd", content_encoding="zstd"),
        post(gzip.compress(b"{}")[:-4], content_encoding="gzip"),
    ],
)
def test_what_is_no_spans_is_refused_and_keeps_nothing(ask: Ask) -> None:
    kept = SpansKept()
    with pytest.raises(BadSpansError):
        kept.take(OTLP_PATHS[0], ask)
    assert not kept.any


def test_a_body_that_unpacks_to_far_more_is_cut_and_refused() -> None:
    bomb = gzip.compress(b"[" + b" " * (MAX_BODY_BYTES + 1) + b"]")
    with pytest.raises(BadSpansError):
        SpansKept().take(OTLP_PATHS[0], post(bomb, content_encoding="gzip"))


@pytest.mark.parametrize(
    "body", [{}, {"resourceSpans": 3}, {"resourceSpans": [{"scopeSpans": [1]}]}]
)
def test_requests_without_a_whole_span_make_no_trace(tmp_path: Path, body: Json) -> None:
    kept = SpansKept()
    assert kept.take(OTLP_PATHS[0], post(json.dumps(body).encode()))
    assert tools(kept, tmp_path) is None


def test_other_paths_are_not_for_spans() -> None:
    kept = SpansKept()
    for path, method in (("/commits/-/p/latest", "GET"), ("/runs/x", "GET"), ("/v1/traces", "GET")):
        assert not kept.take(path, post(b"", method=method))


def test_the_ids_of_protobuf_are_those_of_json(tmp_path: Path) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id = bytes.fromhex(trace_id(1)), bytes.fromhex(span_id(1))
    span.name, span.start_time_unix_nano, span.end_time_unix_nano = "desk", START, START + 1
    kept = SpansKept()
    kept.take(OTLP_PATHS[0], post(request.SerializeToString(), kind="application/x-protobuf"))
    trace = kept.trace(tmp_path, read_spans, since=LONG_AGO)
    assert trace is not None
    assert (trace.id, trace.root.id) == (trace_id(1), span_id(1))
