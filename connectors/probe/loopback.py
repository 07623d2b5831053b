"""A small HTTP server of this machine alone, for what an agent asks of us during its runs."""

import http.server
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self
from urllib.parse import parse_qsl, quote, urlsplit

MAX_BODY_BYTES = 32 * 1024 * 1024
IDLE_S = 60.0
"""A connection that says nothing for so long is closed."""
_CHUNK_LINE_BYTES = 1024
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request. All of it is data of an agent's process: it may say anything."""

    method: str
    path: str
    """As sent, still percent-encoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name; of two with one name the last."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer."""

    status: int
    body: bytes
    type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Loopback:
    """Serves from threads of its own, from entry to exit. It calls nobody."""

    def __init__(self, answer: Callable[[Ask], Reply], *, as_file: bool = False) -> None:
        """Serve nothing yet.

        Args:
            answer: called from several threads at once; whatever it raises is a 500.
            as_file: on a Unix socket, which a process without any network reaches, instead of on
                127.0.0.1.
        """
        self._answer = answer
        self._url = ""
        self._as_file = as_file
        self._folder: Path | None = None
        self._server: socketserver.BaseServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Such as `http://127.0.0.1:40123`, or `http+unix://%2Ftmp%2Ftracemend-x%2Fs`.

        Raises:
            RuntimeError: it does not serve.
        """
        if not self._url:
            raise RuntimeError("the loopback server is not open")
        return self._url

    def __enter__(self) -> Self:
        """Serve on a free port, or in a folder that nobody else may enter."""
        served = {f"do_{method}": _Handler.serve for method in _METHODS}
        handler: type[_Handler] = type(
            "_Bound", (_Handler,), {"answer": staticmethod(self._answer), **served}
        )
        if self._as_file:
            self._folder = Path(tempfile.mkdtemp(prefix="tracemend-"))
            handler.disable_nagle_algorithm = False  # there is none
            path = str(self._folder / "s")
            self._server = _FileServer(path, handler)
            self._url = f"http+unix://{quote(path, safe='')}"
        else:
            self._server = server = _Server(("127.0.0.1", 0), handler)
            self._url = f"http://127.0.0.1:{server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05},
            name="loopback", daemon=True,
        )  # fmt: skip
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take no more requests; those under way end with their connection."""
        server, self._server, self._url = self._server, None, ""
        if server is not None:
            server.shutdown()
            server.server_close()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke off; whoever asked knows."""


class _FileServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """As above."""


class _TooLargeError(Exception):
    """A body over the cap, or one that breaks off."""


class _Handler(http.server.BaseHTTPRequestHandler):
    answer: ClassVar[Callable[[Ask], Reply]]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a delayed ACK costs 40 ms a call
    timeout = IDLE_S
    server_version = "tracemend"
    sys_version = ""

    def serve(self) -> None:
        try:
            body = self._body()
        except (_TooLargeError, ValueError):
            self.close_connection = True
            self._send(Reply(status=413, body=b'{"error":"body too large or broken"}'))
            return
        parts = urlsplit(self.path)
        ask = Ask(
            method=self.command, path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()}, body=body,
        )  # fmt: skip
        try:
            reply = type(self).answer(ask)
        except Exception:  # noqa: BLE001  the agent is told; what it sent is no business of a log
            reply = Reply(status=500, body=b'{"error":"internal"}')
        self._send(reply)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a request line is an agent's text."""

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks()
        length = int(self.headers.get("Content-Length") or "0")
        if not 0 <= length <= MAX_BODY_BYTES:
            raise _TooLargeError
        return self._exactly(length)

    def _chunks(self) -> bytes:
        whole = bytearray()
        while size := int(self.rfile.readline(_CHUNK_LINE_BYTES).split(b";")[0], 16):
            if size < 0 or len(whole) + size > MAX_BODY_BYTES:
                raise _TooLargeError
            whole += self._exactly(size)
            self.rfile.readline(_CHUNK_LINE_BYTES)
        while self.rfile.readline(_CHUNK_LINE_BYTES).strip():
            pass  # trailers
        return bytes(whole)

    def _exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) != size:
            raise _TooLargeError
        return data
