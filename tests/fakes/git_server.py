"""A real git server over HTTP on loopback: git's own backend behind a small CGI door."""

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(slots=True)
class Door:
    """How the server behaves; may be changed while it runs."""

    root: Path
    """Folder of bare repositories."""
    login: tuple[str, str] | None = None
    """Name and password that it asks for; None: it asks for none."""
    hangs: bool = False
    """Whether it takes requests and never answers."""
    closed: threading.Event = field(default_factory=threading.Event)


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, door: Door, *args: Any) -> None:
        self.door = door
        super().__init__(*args)

    def do_GET(self) -> None:
        if self.door.hangs:
            self.door.closed.wait()
        elif self.door.login is not None and not self._knows(self.door.login):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
        else:
            self._by_git(self._body())

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _knows(self, login: tuple[str, str]) -> bool:
        words = base64.b64encode(":".join(login).encode()).decode()
        return self.headers.get("Authorization") == f"Basic {words}"

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    def _by_git(self, body: bytes) -> None:
        url = urlsplit(self.path)
        env = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.door.root),
            "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": url.path, "QUERY_STRING": url.query,
            "REQUEST_METHOD": self.command, "REMOTE_USER": "grace", "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        done = subprocess.run(
            ["git", "http-backend"], env=env, input=body, capture_output=True, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n") if line)
        fields = {name: value for name, _, value in lines}
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def git_server(door: Door) -> Iterator[str]:
    """Serve the repositories of a folder; yields `http://127.0.0.1:port`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, door))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        door.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
