"""`tracemend serve` as a real process: where it listens, who else may, and how it ends."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from graph.cli.project import settings_text
from memory.workspace import register
from tests.serve_process import environ_of, serve_process
from tests.serving_app import make_token

pytestmark = pytest.mark.servers

SECRET = "sk-proj-" + "a1B2c3D4e5F6" * 4


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "tracemend.yaml").write_text(settings_text("refunds"), "utf-8")
    register(tmp_path / "home", "refunds", folder)
    return tmp_path / "home"


def command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "graph.cli.main", *words], env=environ_of(home),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_it_says_where_it_listens_and_how_to_make_the_first_token_and_stops_with_0(
    home: Path,
) -> None:
    with serve_process(home) as served:
        assert served.url.startswith("http://127.0.0.1:")
        first = served.lines[0]
        assert first == (
            f"serving on {served.url} (1 project); no token yet: "
            "`tracemend token create --name NAME --role admin`\n"
        )
        assert httpx.get(f"{served.url}/healthz").status_code == 200
        held = json.loads((home / "serve.lock").read_text())
        assert held == {"pid": served.process.pid, "url": served.url}
        assert served.stop(signal.SIGTERM) == 0
        assert "Traceback" not in served.log


def test_a_second_server_of_one_sqlite_installation_is_refused_and_named(home: Path) -> None:
    with serve_process(home) as served:
        second = command(home, "serve", "--port", "0")
        assert second.returncode == 2
        assert second.stderr == (
            f"tracemend: {home} is served already by process {served.process.pid} on "
            f"{served.url}; stop that one first\n"
        )
        served.process.kill()  # what it held ends with it, and the next one starts
        served.process.wait()
    with serve_process(home) as again:
        assert httpx.get(f"{again.url}/healthz").status_code == 200
        assert again.stop(signal.SIGINT) == 0


def test_an_address_that_others_reach_needs_a_token_first(home: Path) -> None:
    refused = command(home, "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert refused.returncode == 2
    assert refused.stderr == (
        "tracemend: host: 0.0.0.0 can be reached from outside and there is no token yet; make one "
        "first: `tracemend token create --name NAME --role admin`\n"
    )
    # What would listen to everybody with a token is not started here: nothing of a test is open.
    assert "serving on" not in refused.stderr


def test_a_port_that_is_taken_is_one_line(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = command(home, "serve", "--port", str(port))
    assert refused.returncode == 2
    assert refused.stderr == (
        f"tracemend: 127.0.0.1:{port}: cannot listen there: Address already in use; "
        "`--port 0` takes a free port\n"
    )


def test_a_wrong_server_yaml_is_one_line(home: Path) -> None:
    (home / "server.yaml").write_text("workers: none\n")
    refused = command(home, "serve", "--port", "0")
    assert refused.returncode == 2
    assert refused.stderr.startswith("tracemend: workers: ")
    assert refused.stderr.count("\n") == 1


def test_no_installation_is_one_line(tmp_path: Path) -> None:
    refused = command(tmp_path / "nothing", "serve", "--port", "0")
    assert (refused.returncode, refused.stderr) == (
        2, f"tracemend: {tmp_path / 'nothing'}: there is no installation; `tracemend init` makes "
        "one\n",
    )  # fmt: skip


def test_its_log_is_json_with_the_request_and_without_the_token_or_the_query(home: Path) -> None:
    with serve_process(home) as served:
        token = make_token(home, "ann", ["viewer"])
        headers = {"Authorization": f"Bearer {token}", "X-Request-Id": "from-the-proxy-7"}
        answer = httpx.get(f"{served.url}/wrong/{SECRET}?secret={SECRET}", headers=headers)
        assert answer.headers["x-request-id"] == "from-the-proxy-7"
        served.wait_for("from-the-proxy-7")
        served.stop()
        line = next(json.loads(text) for text in served.lines if "from-the-proxy-7" in text)
        assert (line["event"], line["method"], line["status"], line["level"]) == (
            "request", "GET", 404, "info",
        )  # fmt: skip
        assert [key for key in ("secret", token, SECRET) if key in served.log] == []
        assert all(json.loads(text) for text in served.lines[1:])


def test_a_stream_that_never_ends_does_not_hold_the_stop_up(home: Path) -> None:
    with serve_process(home) as served, socket.create_connection(_place(served.url)) as idle:
        idle.sendall(b"POST /hooks/generic/refunds HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        idle.sendall(b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
        httpx.get(f"{served.url}/healthz")
        assert served.stop() == 0


def test_work_that_does_not_end_is_left_after_a_while_and_the_code_is_0(home: Path) -> None:
    stuck = (
        "import sys, threading, time, graph.server.process as process\n"
        "from graph.cli.main import run\n"
        "process.STOP_SECONDS = 1.0\n"
        "threading.Thread(target=time.sleep, args=(300,)).start()\n"
        "sys.argv = ['tracemend', 'serve', '--port', '0']\n"
        "run()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", stuck], env=environ_of(home), stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        assert "serving on" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def _place(url: str) -> tuple[str, int]:
    parts = httpx.URL(url)
    return parts.host, parts.port or 80
