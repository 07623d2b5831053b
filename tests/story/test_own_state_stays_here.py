"""With LangSmith tracing on in the environment, nothing of our own state is uploaded."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.story.worlds import World

pytestmark = [pytest.mark.story, pytest.mark.servers]


class Collector(ThreadingHTTPServer):
    """Counts what arrives, as a tracing backend would take it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    def _take(self) -> None:
        assert isinstance(self.server, Collector)
        self.server.seen.append(self.path)
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = do_PATCH = _take  # noqa: N815  # names that the server looks up

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_no_run_is_uploaded(world: World) -> None:
    collector = Collector()
    thread = threading.Thread(target=collector.serve_forever, daemon=True)
    thread.start()
    try:
        more = {
            "LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": "lsv2_made_up",
            "LANGSMITH_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        }  # fmt: skip
        done = world.run("improve", "--json", more=more)
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    assert (done.code, done.json["runs"][0]["state"]) == (0, "waiting"), done.err
    assert collector.seen == []
