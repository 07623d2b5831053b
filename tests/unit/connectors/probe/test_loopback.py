"""The small server that agents ask: whatever is sent to it, it answers and goes on."""

import http.client
import socket
from urllib.parse import unquote, urlsplit

import pytest

from connectors.probe.loopback import MAX_BODY_BYTES, Ask, Loopback, Reply


def echo(ask: Ask) -> Reply:
    if ask.path == "/break":
        raise RuntimeError(ask.path)
    return Reply(status=200, body=f"{ask.method} {ask.path} {ask.query}".encode() + ask.body)


def raw(server: Loopback, sent: bytes) -> bytes:
    """What comes back for these bytes, until the server has closed."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as open_:
        open_.sendall(sent)
        open_.shutdown(socket.SHUT_WR)
        answer = b""
        while data := open_.recv(65536):
            answer += data
    return answer


def asked(server: Loopback, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    connection.request(method, path, body)
    answer = connection.getresponse()
    said = answer.status, answer.read()
    connection.close()
    return said


def test_every_method_is_answered_with_path_query_and_body() -> None:
    with Loopback(echo) as server:
        assert server.url.startswith("http://127.0.0.1:")
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            said = asked(server, method, "/a%2Fb?x=1", b"body")
            assert said == (200, f"{method} /a%2Fb {{'x': '1'}}body".encode())
        assert asked(server, "HEAD", "/") == (200, b"")


def test_a_chunked_body_is_read_whole() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with Loopback(echo) as server:
        assert raw(server, head + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n").endswith(b"abcde")


HOSTILE = {
    "no http": (b"\x00\xff\r\n\r\n", b" 400 "),
    "a negative length": (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b" 413 "),
    "a length that is none": (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b" 413 "),
    "a huge length": (
        f"POST / HTTP/1.1\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n\r\n".encode(),
        b" 413 ",
    ),
    "a body that breaks off": (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc", b" 413 "),
    "a chunk that breaks off": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        b" 413 ",
    ),
    "a chunk without a size": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b" 413 ",
    ),
    "a huge chunk": (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
        b" 413 ",
    ),
    "a handler that breaks": (b"GET /break HTTP/1.1\r\nConnection: close\r\n\r\n", b" 500 "),
}


@pytest.mark.parametrize(("sent", "status"), HOSTILE.values(), ids=HOSTILE)
def test_a_broken_request_is_refused_and_the_next_one_served(sent: bytes, status: bytes) -> None:
    with Loopback(echo) as server:
        assert status in raw(server, sent).split(b"\r\n", 1)[0] + b" "
        assert asked(server, "GET", "/next")[0] == 200


def test_it_is_gone_on_exit_and_so_is_its_socket_file() -> None:
    with Loopback(echo) as server:
        port = urlsplit(server.url).port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port or 0), timeout=30)
    with pytest.raises(RuntimeError, match="not open"):
        _ = server.url
    with Loopback(echo, as_file=True) as server:
        path = unquote(urlsplit(server.url).netloc)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(FileNotFoundError):
        client.connect(path)
