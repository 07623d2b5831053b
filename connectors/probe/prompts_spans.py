"""Spans that an agent sends to the prompt proxy during one run, kept as files our readers know."""

import gzip
import io
import json
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Final, cast

import zstandard
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # no stubs
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from connectors.probe.loopback import MAX_BODY_BYTES, Ask
from connectors.probe.spans import ReadSpans
from connectors.traces.langsmith.exports import merged
from contracts.errors import TracemendError
from contracts.json_types import Json, JsonObject
from contracts.traces import Trace

OTLP_PATHS: Final = ("/v1/traces", "/api/public/otel/v1/traces")
MAX_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of one run; what comes beyond is dropped."""


class BadSpansError(ValueError):
    """A body that holds no spans."""


class SpansKept:
    """What one run sent. Requests are taken by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._otlp: list[JsonObject] = []
        self._runs: dict[str, dict[str, Mapping[str, Json]]] = {"post": {}, "patch": {}}
        self._bytes = 0
        self._ended = False
        self._any = False

    @property
    def any(self) -> bool:
        """Whether something came."""
        return self._any

    @property
    def whole(self) -> bool:
        """Whether a root came that had ended."""
        return self._ended

    def take(self, path: str, ask: Ask) -> bool:
        """Keep the spans of a request; False: the path is not one for spans.

        Raises:
            BadSpansError: the body is none of them.
        """
        if ask.method == "POST" and path in OTLP_PATHS:
            self._keep_otlp(ask)
            return True
        runs = path.removeprefix("/api/v1")
        if not (runs == "/runs" or runs.startswith("/runs/")) or ask.method == "GET":
            return False
        self._keep_runs(runs.removeprefix("/runs").strip("/"), ask)
        return True

    def _keep_otlp(self, ask: Ask) -> None:
        body = _plain(ask)
        if "json" in ask.headers.get("content-type", ""):
            request = _object(body)
        else:
            message = ExportTraceServiceRequest()
            try:
                message.ParseFromString(body)
            except DecodeError:
                raise BadSpansError("no OTLP request") from None
            request = cast("JsonObject", MessageToDict(message))
        with self._lock:
            if self._room(len(body)):
                self._otlp.append(request)
                self._ended |= any(not s.get("parentSpanId") for s in _otlp_spans(request))

    def _keep_runs(self, what: str, ask: Ask) -> None:
        body = _plain(ask)
        if what == "batch":
            batch = _object(body)
            halves = {half: _objects(batch.get(half)) for half in self._runs}
        elif what == "multipart":
            halves = _parts(ask.headers.get("content-type", ""), body)
        else:
            half = "post" if ask.method == "POST" else "patch"
            halves = {half: [{"id": what, **_object(body)}]}
        with self._lock:
            if not self._room(len(body)):
                return
            for half, runs in halves.items():
                for run in runs:
                    kept, key = self._runs[half], str(run.get("id"))
                    kept[key] = merged(kept[key], run) if key in kept else run
                    self._ended |= not run.get("parent_run_id") and bool(run.get("end_time"))

    def _room(self, size: int) -> bool:
        self._any = True
        self._bytes += size
        return self._bytes <= MAX_KEPT_BYTES

    def trace(self, folder: Path, read_spans: ReadSpans, *, since: datetime) -> Trace | None:
        """The run's trace, by way of a file in `folder`; None: nothing whole came.

        Of traces of both vendors the one with more spans is it. One that began before `since`
        belongs to an earlier run.
        """
        with self._lock:
            otlp = list(self._otlp)
            batch = {half: list(runs.values()) for half, runs in self._runs.items()}
        lines: list[list[Json]] = [[*otlp], [batch] if any(batch.values()) else []]
        found = [_read(folder, kept, read_spans) for kept in lines if kept]
        fresh = [t for t in found if t is not None and t.started_at >= since]
        return max(fresh, key=lambda trace: len(trace.spans), default=None)


def _read(folder: Path, lines: list[Json], read_spans: ReadSpans) -> Trace | None:
    path = folder / "spans.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    try:
        return read_spans(path)
    except (OSError, ValueError, RecursionError, TracemendError):
        return None
    finally:
        path.unlink(missing_ok=True)


def _plain(ask: Ask) -> bytes:
    """The body without its compression, bounded.

    Raises:
        BadSpansError: it is not what its header says, or far too long.
    """
    how = ask.headers.get("content-encoding", "")
    unpack: Callable[[bytes], bytes] | None = _UNPACK.get(how.strip().lower())
    if unpack is None:
        return ask.body
    try:
        return unpack(ask.body)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        raise BadSpansError(f"no {how} body") from None


def _gunzip(body: bytes) -> bytes:
    with gzip.GzipFile(fileobj=_reader(body)) as file:
        return file.read(MAX_BODY_BYTES)


def _unzstd(body: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(_reader(body)) as stream:
        return stream.read(MAX_BODY_BYTES)


def _reader(body: bytes) -> io.BytesIO:
    return io.BytesIO(body)


_UNPACK: Final[Mapping[str, Callable[[bytes], bytes]]] = {"gzip": _gunzip, "zstd": _unzstd}


def _object(body: bytes) -> JsonObject:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise BadSpansError("no JSON") from None
    if not isinstance(value, dict):
        raise BadSpansError("no JSON object")
    return cast("JsonObject", value)


def _objects(value: Json) -> list[Mapping[str, Json]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def _otlp_spans(request: JsonObject) -> Iterator[Mapping[str, Json]]:
    for resource in _objects(request.get("resourceSpans")):
        for scope in _objects(resource.get("scopeSpans")):
            yield from _objects(scope.get("spans"))


def _parts(content_type: str, body: bytes) -> dict[str, list[Mapping[str, Json]]]:
    """Runs of a multipart body: `post.<id>` holds a run, `post.<id>.outputs` one field of it."""
    head = b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n"
    message = BytesParser().parsebytes(head + body)
    halves: dict[str, dict[str, dict[str, Json]]] = {"post": {}, "patch": {}}
    for part in message.get_payload() if message.is_multipart() else ():
        if not isinstance(part, Message):
            continue
        name = str(part.get_param("name", "", "content-disposition"))
        half, _, rest = name.partition(".")
        run_id, _, field = rest.partition(".")
        data = part.get_payload(decode=True)
        if half not in halves or not isinstance(data, bytes):
            continue
        run = halves[half].setdefault(run_id, {"id": run_id})
        try:
            value = cast("Json", json.loads(data))
        except (ValueError, RecursionError):
            continue
        if field:
            run[field] = value
        elif isinstance(value, Mapping):
            run.update(value)
    return {half: list(runs.values()) for half, runs in halves.items()}
