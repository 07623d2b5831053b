"""Our own traces: sent where the operator says, without a text; never into what we read."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from configs.server_settings import ObserveSettings, ServerSettings
from configs.settings import TraceSettings
from connectors.traces.tree import is_own
from contracts.errors import ConfigError
from contracts.json_types import JsonObject
from graph.installation import open_installation
from graph.server.app import create_app
from graph.server.tracing import SELF_ENVIRONMENT, addresses, refuse_own_sources, traces_url
from tests.approval_worlds import installation
from tests.fakes.serving import serve
from tests.serve_process import ServeProcess, serve_process
from tests.serving_app import make_token
from tests.story.worlds import World, build_world, copy_world

pytestmark = pytest.mark.servers

THREAD = "5b2f6f0e-8d0c-5c0e-9a57-3f1f0f3c9d11"
ALLOWED = {
    "http.request.method", "http.route", "http.response.status_code", "error.type",
    "tracemend.run_id", "tracemend.request_id", "tracemend.thread", "tracemend.project",
    "tracemend.outcome",
}  # fmt: skip
"""Every attribute that a span of ours may have."""


@dataclass(slots=True)
class Receiver:
    """A collector of OTLP over HTTP, and anything else that is sent to it."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    async def take(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        self.bodies.append(await request.body())
        return Response(b"", media_type="application/x-protobuf")

    def exported(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    def spans(self) -> list[Span]:
        return [
            span
            for sent in self.exported()
            for resource in sent.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    every = ["GET", "POST", "PATCH", "PUT", "DELETE"]
    app = Starlette(routes=[Route("/{path:path}", made.take, methods=every)])
    with serve(app) as url:
        made.url = url
        yield made


def attributes(span: Span) -> dict[str, Any]:
    return {
        one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes
    }


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build_world(tmp_path_factory.mktemp("recorded") / "made", requests=30)


@pytest.fixture
def world(recorded: World, tmp_path: Path) -> World:
    """A project with an analysis to do: a server drives it at once."""
    made = copy_world(recorded, tmp_path / "agent")
    with made.looking() as ledger:
        request: JsonObject = {"kind": "improve", "finding": None}
        ledger.incidents.open(THREAD, kind="improve", key="k", request=request, driver="local")
    return made


def wait_for_card(world: World, served: ServeProcess) -> None:
    deadline = time.monotonic() + 120
    with world.looking() as ledger:
        while ledger.proposals.open() is None or not ledger.incidents.listed(state="waiting"):
            assert time.monotonic() < deadline, f"no card: {served.log}"
            time.sleep(0.1)


def words_of(world: World) -> set[str]:
    """Texts of the agent's traces, harness and cases that could leak into a span."""
    found: set[str] = set()

    def collect(value: object) -> None:
        if isinstance(value, dict):
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)
        elif isinstance(value, str) and len(value) > 12 and " " in value:
            found.add(value[:40])

    for line in (world.root / "traces" / "this-week.otlp.jsonl").read_text().splitlines():
        collect(json.loads(line))
    for content in world.harness().values():
        found.update(text.strip()[:40] for text in content.decode().splitlines() if len(text) > 20)
    assert len(found) > 50
    return found


def test_spans_tell_of_requests_runs_and_nodes_and_hold_no_text(
    world: World, receiver: Receiver
) -> None:
    home = world.root / ".tracemend"
    langsmith = {
        "LANGSMITH_TRACING": "true", "LANGCHAIN_TRACING_V2": "true",
        "LANGSMITH_API_KEY": "lsv2_made_up", "LANGSMITH_ENDPOINT": f"{receiver.url}/langsmith",
    }  # fmt: skip
    more = {"TRACEMEND_SERVER__OBSERVE__OTLP_ENDPOINT": f"{receiver.url}/own", **langsmith}
    with serve_process(home, more=more) as served:
        headers = {"Authorization": f"Bearer {make_token(home, 'ann', ['viewer'])}"}
        wait_for_card(world, served)
        metrics = httpx.get(f"{served.url}/metrics", headers=headers, timeout=30).text
        assert served.stop() == 0
    # Nothing of ours was uploaded to the vendor that the environment names.
    assert set(receiver.paths) == {"/own/v1/traces"}

    spans = receiver.spans()
    names = {span.name for span in spans}
    assert {"run", "router", "insights", "evolution", "review", "GET /metrics"} <= names
    assert {key for span in spans for key in attributes(span)} <= ALLOWED
    assert {attributes(s)["tracemend.thread"] for s in spans if s.name == "insights"} == {THREAD}
    runs = [span for span in spans if span.name == "run"]
    assert ("refunds", "waiting") in {
        (attributes(r)["tracemend.project"], attributes(r)["tracemend.outcome"]) for r in runs
    }
    insights = next(span for span in spans if span.name == "insights")
    assert insights.parent_span_id in {run.span_id for run in runs}
    assert insights.end_time_unix_nano > insights.start_time_unix_nano

    raw = b"".join(receiver.bodies).decode("utf-8", "replace")
    assert [text for text in words_of(world) if text in raw] == []

    resource = {
        one.key: one.value.string_value
        for sent in receiver.exported()
        for each in sent.resource_spans
        for one in each.resource.attributes
    }
    assert resource["deployment.environment.name"] == SELF_ENVIRONMENT
    assert all(is_own([attributes(span)], {}) for span in spans), "a reader of ours would count it"

    series = 'tracemend_run_seconds_count{kind="improve",outcome="waiting",project="refunds"} 1.0'
    assert series in metrics
    assert 'tracemend_node_seconds_count{node="insights",outcome="ended",project="refunds"}' in (
        metrics
    )


def test_a_receiver_that_is_down_holds_nothing_up(world: World) -> None:
    home = world.root / ".tracemend"
    more = {"TRACEMEND_SERVER__OBSERVE__OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with serve_process(home, more=more) as served:
        wait_for_card(world, served)
        assert httpx.get(f"{served.url}/healthz", timeout=30).status_code == 200
        assert served.stop() == 0


@pytest.mark.parametrize(
    ("source", "environ", "endpoint"),
    [
        ({"kind": "phoenix"}, {}, "http://127.0.0.1:6006"),
        ({"kind": "phoenix", "base_url": "http://localhost:6006/"}, {}, "http://[::1]:6006/v1/traces"),
        ({"kind": "phoenix"}, {"PHOENIX_COLLECTOR_ENDPOINT": "http://px:80"}, "http://PX"),
        ({"kind": "langfuse"}, {}, "https://cloud.langfuse.com/api/public/otel"),
        ({"kind": "langfuse"}, {"LANGFUSE_HOST": "https://lf.example"}, "https://lf.example:443/x"),
        (
            {"kind": "langfuse", "env_prefix": "SHOP_"},
            {"SHOP_LANGFUSE_BASE_URL": "https://lf.example"},
            "https://lf.example/api/public/otel",
        ),
        ({"kind": "langsmith"}, {}, "https://api.smith.langchain.com/otel"),
        (
            {"kind": "langsmith"},
            {"LANGSMITH_ENDPOINT": "https://eu.smith.example"},
            "https://eu.smith.example/otel",
        ),
    ],
)  # fmt: skip
async def test_an_endpoint_that_some_project_reads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, str],
    environ: dict[str, str], endpoint: str,
) -> None:  # fmt: skip
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    inbox = installation(tmp_path, "billing", traces=[{"kind": "files", "path": "t/"}, source])
    settings = ServerSettings(observe=ObserveSettings(otlp_endpoint=endpoint))
    async with open_installation(inbox.home, settings=settings) as here:
        with pytest.raises(ConfigError, match=r"observe\.otlp_endpoint: .* what traces\.1 of"):
            refuse_own_sources(here)


async def test_another_port_or_host_is_fine(tmp_path: Path) -> None:
    inbox = installation(tmp_path, "billing", traces=[{"kind": "phoenix"}, {"kind": "langfuse"}])
    for endpoint in ("http://127.0.0.1:4318", "https://otel.example"):
        settings = ServerSettings(observe=ObserveSettings(otlp_endpoint=endpoint))
        async with open_installation(inbox.home, settings=settings) as here:
            refuse_own_sources(here)


async def test_a_refused_endpoint_stops_the_start(tmp_path: Path) -> None:
    inbox = installation(tmp_path, "billing", traces=[{"kind": "phoenix"}])
    settings = ServerSettings(observe=ObserveSettings(otlp_endpoint="http://localhost:6006"))
    app = create_app(inbox.home, settings=settings)
    with pytest.raises(ConfigError, match=r"localhost:6006 is what traces\.0 of project 'billing'"):
        async with app.router.lifespan_context(app):
            pytest.fail("it serves")


@pytest.mark.parametrize(
    "endpoint",
    ["127.0.0.1:4317", "ftp://x", "http:", "http://u:pw@x", "http://x?k=v", "http://x:y"],
)
def test_an_endpoint_that_is_no_address_is_one_line_without_it(endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"^observe\.otlp_endpoint: needs an address") as raised:
        traces_url(endpoint)
    assert "\n" not in str(raised.value)
    for secret in ("u:pw", "k=v"):
        assert secret not in str(raised.value)


def test_files_have_no_address() -> None:
    files = (TraceSettings(kind="files", path="t/"), TraceSettings(kind="otlp", path="t/"))
    assert list(addresses(files, {})) == []
