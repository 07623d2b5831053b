"""A real Phoenix: the example agent's spans go in by OTLP and come out as the same traces.

Needs an environment of its own (850 MB): `python3 -m venv .venv-phoenix`, then
`.venv-phoenix/bin/pip install -r .ci/phoenix.txt`; `TRACEMEND_PHOENIX` names another executable.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from connectors.traces.files import FilesSource
from connectors.traces.phoenix import PhoenixSource
from contracts.protocols import TraceSource
from contracts.traces import Trace, TraceQuery
from examples.refund_agent.back_office import STORMY
from examples.refund_agent.record import record
from examples.refund_agent.requests import generate
from nodes.insights.analyze import Analysis, analyze
from tests.fakes.phoenix import FakePhoenix, push
from tests.fakes.serving import serve

REPOSITORY = Path(__file__).resolve().parents[2]
EXECUTABLE = Path(
    os.environ.get("TRACEMEND_PHOENIX", str(REPOSITORY / ".venv-phoenix" / "bin" / "phoenix"))
)
PROJECT = "refunds"
MICROSECOND = timedelta(microseconds=1)

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(
        not EXECUTABLE.exists(), reason=f"no Phoenix at {EXECUTABLE}; set TRACEMEND_PHOENIX"
    ),
]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a Phoenix over loopback, stopped by its pid's group."""
    folder, port = tmp_path_factory.mktemp("phoenix"), _free_port()
    environment = {
        **os.environ, "PHOENIX_WORKING_DIR": str(folder), "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(_free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }  # fmt: skip
    log = folder / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(EXECUTABLE), "serve"], cwd=folder, env=environment, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process, log)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            if httpx.get(f"{url}/healthz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.3)
    pytest.fail(f"Phoenix did not start in {seconds} s: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty runs of the example agent in bad weather, as OTLP JSON lines."""
    out = tmp_path_factory.mktemp("own") / "own.otlp.jsonl"
    harness = REPOSITORY / "examples" / "refund_agent" / "repo"
    record(generate(40, 7), harness, out, weather=STORMY, seed=7)
    return out


@pytest.fixture(scope="module")
def sent(phoenix: str, recording: Path) -> int:
    """Spans that were sent, once the server has stored them all: it answers before it stores."""
    lines = recording.read_bytes().splitlines()
    push(phoenix, lines, project=PROJECT)
    spans = sum(line.count(b'"spanId"') for line in lines)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(rows(phoenix, "spans")) == spans:
            return spans
        time.sleep(0.5)
    pytest.fail(f"of {spans} spans not all were stored")


def rows(url: str, what: str, **params: int | str | list[str]) -> list[dict[str, Any]]:
    """All rows of a list of the project; none where there is no such project yet."""
    found: list[dict[str, Any]] = []
    while True:
        answer = httpx.get(f"{url}/v1/projects/{PROJECT}/{what}", params={"limit": 1000, **params})
        if answer.status_code == 404:
            return found
        page = answer.json()
        found += page["data"]
        if not page["next_cursor"]:
            return found
        params["cursor"] = page["next_cursor"]


async def everything(source: TraceSource) -> dict[str, Trace]:
    return {t.id: t async for batch in source.window(TraceQuery()) for t in batch.traces}


def same(recorded: Trace, read: Trace) -> None:
    """All but the resource and times below a microsecond, which Phoenix does not keep."""
    assert [span.id for span in recorded.spans] == [span.id for span in read.spans]
    assert (recorded.session_id, recorded.orphans) == (read.session_id, read.orphans)
    for one, other in zip(recorded.spans, read.spans, strict=True):
        for name in (
            "parent_id", "name", "kind", "status", "error", "input", "output", "tool_name",
            "model", "input_tokens", "output_tokens", "cost_usd", "messages_in", "messages_out",
            "finish_reason", "attributes",
        ):  # fmt: skip
            assert getattr(one, name) == getattr(other, name), (one.id, name)
        assert abs(one.started_at - other.started_at) <= MICROSECOND
        assert one.ended_at is not None
        assert other.ended_at is not None
        assert abs(one.ended_at - other.ended_at) <= MICROSECOND


async def test_the_same_traces_come_out_as_from_the_file(
    phoenix: str, recording: Path, sent: int
) -> None:
    source = PhoenixSource(base_url=phoenix, project=PROJECT, batch_traces=7)
    recorded, read = await everything(FilesSource([recording])), await everything(source)
    assert recorded.keys() == read.keys()
    assert sum(len(trace.spans) for trace in read.values()) == sent
    for trace_id, trace in recorded.items():
        same(trace, read[trace_id])


async def test_the_same_findings_come_out_as_from_the_file(
    phoenix: str, recording: Path, sent: int
) -> None:
    def told(found: Analysis) -> list[tuple[Any, ...]]:
        return [
            (f.signature, f.kind, f.title, f.units, f.units_total, f.severity, f.diagnosis,
             f.actionable, f.why_not, f.exemplars)
            for f in found.findings
        ]  # fmt: skip

    assert sent
    source = PhoenixSource(base_url=phoenix, project=PROJECT)
    by_file = await analyze(FilesSource([recording]), TraceQuery(), project="x")
    by_phoenix = await analyze(source, TraceQuery(), project="x")
    assert told(by_file) == told(by_phoenix)
    assert told(by_file)
    assert by_phoenix.read.status == "complete"


async def test_a_read_goes_on_from_any_cursor_and_a_window_is_half_open(
    phoenix: str, sent: int
) -> None:
    assert sent
    source = PhoenixSource(base_url=phoenix, project=PROJECT, batch_traces=9)
    batches = [batch async for batch in source.window(TraceQuery())]
    traces = [trace for batch in batches for trace in batch.traces]
    rest = [
        trace async for batch in source.window(TraceQuery(cursor=batches[1].cursor))
        for trace in batch.traces
    ]  # fmt: skip
    assert [t.id for t in rest] == [t.id for t in traces[18:]]
    begin, end = traces[10].started_at, traces[20].started_at
    inside = [
        trace async for batch in source.window(TraceQuery(start=begin, end=end))
        for trace in batch.traces
    ]  # fmt: skip
    assert [t.id for t in inside] == [t.id for t in traces[10:20]]


def test_the_server_says_what_the_fake_says(phoenix: str, recording: Path, sent: int) -> None:
    """The same spans in both: so are their rows, but for the server's own ids."""
    assert sent
    with serve(FakePhoenix().app()) as fake:
        push(fake, recording.read_bytes().splitlines()[:3], project=PROJECT)
        listed = [row["trace_id"] for row in rows(fake, "traces")]
        ours, theirs = (
            {row["context"]["span_id"]: row for row in rows(url, "spans", trace_id=listed)}
            for url in (fake, phoenix)
        )
    assert len(listed) == 3
    assert ours.keys() == theirs.keys()
    for span_id, row in ours.items():
        real = theirs[span_id]
        assert row.keys() == real.keys()
        for key in row.keys() - {"id", "events", "start_time", "end_time"}:
            assert row[key] == real[key], (span_id, key)


async def test_annotations_come_back_as_scores(phoenix: str, sent: int) -> None:
    assert sent
    source = PhoenixSource(base_url=phoenix, project=PROJECT)
    trace_id, trace = next(iter((await everything(source)).items()))
    result = {"score": 0.5, "label": "meh", "explanation": "too slow"}
    async with httpx.AsyncClient(base_url=phoenix) as client:
        for kind, about in (("span", trace.root.id), ("trace", trace_id)):
            one = {f"{kind}_id": about, "name": kind, "annotator_kind": "HUMAN", "result": result}
            body = {"data": [one]}
            answer = await client.post(f"/v1/{kind}_annotations?sync=true", json=body)
            assert answer.status_code == 200, answer.text
    scores = (await everything(source))[trace_id].scores
    assert sorted((s.name, s.value, s.source, s.comment, s.span_id) for s in scores) == [
        ("span", 0.5, "user", "too slow", trace.root.id),
        ("trace", 0.5, "user", "too slow", None),
    ]
    assert all(score.at is not None for score in scores)
