"""The refund agent in its own process, replayed on what it was recorded doing."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.probe.command import CommandProbe
from connectors.probe.network import network_off_refused
from connectors.probe.replay import REPLAY_ENVIRONMENT, ReplayingProbe
from connectors.probe.replay_shelf import request_of
from connectors.probe.replay_sources import KnownRecordings
from connectors.probe.worker import WorkerProbe
from connectors.traces.files import FilesSource, read_spans
from contracts.errors import ConfigError, SourceError
from contracts.gate import Case, CaseId
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from contracts.traces import Trace, TraceId, TraceQuery
from examples.refund_agent.back_office import STORMY
from examples.refund_agent.record import record
from examples.refund_agent.requests import generate
from nodes.ports import open_probe
from tests.run_worlds import make_project
from tests.trace_worlds import REPO, line, root, tool

HARNESS = REPO / "examples" / "refund_agent" / "repo"
WRITES = ("payment_api", "queue_refund", "notify_customer", "verify_address")
RETRY = "\nWhen `payment_api` gives a 504, send the same call again, up to two more times.\n"

WORKER = """
import os
from pathlib import Path
from examples.refund_agent import agent
from examples.refund_agent.back_office import BackOffice
from examples.refund_agent.worker import main

real = BackOffice.answer

def counted(self, call):
    with Path("office-calls").open("a") as calls:
        calls.write(call.tool + chr(10))
    return real(self, call)

BackOffice.answer = counted
if os.environ.get("UNWRAPPED"):
    agent.replayed = lambda tools: tools
main()
"""

Probes = Callable[..., ReplayingProbe]


def snapshot(rule: str = "") -> HarnessSnapshot:
    files = {
        p.relative_to(HARNESS).as_posix(): HarnessFile(data=p.read_bytes())
        for p in HARNESS.rglob("*")
        if p.is_file()
    }
    main = files["instructions/main.md"]
    files["instructions/main.md"] = replace(main, data=main.data + rule.encode())
    return HarnessSnapshot(files=files)


@pytest.fixture(scope="module")
def recorded_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of this week, with payments that time out."""
    folder = tmp_path_factory.mktemp("recorded")
    record(generate(24, 7), HARNESS, folder / "traces.jsonl", weather=STORMY, seed=7)
    return folder


@pytest.fixture(scope="module")
def recorded(recorded_in: Path) -> list[Trace]:
    async def read() -> list[Trace]:
        window = FilesSource([recorded_in]).window(TraceQuery())
        return [trace async for batch in window for trace in batch.traces]

    return asyncio.run(read())


@pytest.fixture
def replaying(tmp_path: Path, recorded_in: Path) -> Probes:
    """The agent in a worker whose calls of the back office are counted in a file."""
    (tmp_path / "worker.py").write_text(WORKER)

    def make(
        env: Mapping[str, str] = REPLAY_ENVIRONMENT,
        through: tuple[str, ...] = (),
        network: bool = True,
    ) -> ReplayingProbe:
        worker = WorkerProbe(
            command=[sys.executable, "worker.py"], cwd=tmp_path, work=tmp_path / "work",
            concurrency=1, timeout_s=60, pass_env=[], read_spans=read_spans,
            env={"PYTHONPATH": str(REPO), **env}, network=network,
        )  # fmt: skip

        recordings = KnownRecordings(
            root=recorded_in, traces=["*.jsonl"], writes=WRITES, origins={}, fetch=no_source
        )
        return ReplayingProbe(
            worker, recordings, fall_through=through, writes=WRITES, network=network
        )

    return make


async def no_source(trace_id: TraceId) -> Trace:
    raise SourceError(f"no trace {trace_id!r}", backend="test", operation="trace")


def office_calls(tmp_path: Path) -> list[str]:
    file = tmp_path / "office-calls"
    return file.read_text().split() if file.exists() else []


def answer_of(trace: Trace) -> str:
    assert trace.root.output is not None
    return trace.root.output.text


def timed_out(trace: Trace) -> bool:
    return any(s.error and "504" in s.error.message for s in trace.spans if s.kind == "tool")


async def test_a_replayed_run_answers_as_recorded_and_calls_nothing(
    replaying: Probes, recorded: list[Trace], tmp_path: Path
) -> None:
    harness = snapshot()
    assert any(timed_out(trace) for trace in recorded)
    async with replaying() as probe:
        for trace in recorded:
            seen = await probe.run(request_of(trace), harness, seed=999, deadline_s=60)
            assert seen.missing is None
            assert seen.output == answer_of(trace)
            assert tools(seen.trace) == tools(trace)
    assert office_calls(tmp_path) == []


async def test_an_agent_without_any_network_is_replayed_over_a_socket_file(
    replaying: Probes, recorded: list[Trace], tmp_path: Path
) -> None:
    refused = network_off_refused()
    if refused is not None:
        pytest.skip(f"no process can be kept off the network here: {refused}")
    async with replaying(network=False) as probe:
        seen = await probe.run(request_of(recorded[0]), snapshot(), seed=1, deadline_s=60)
    assert (seen.missing, seen.output) == (None, answer_of(recorded[0]))
    assert tools(seen.trace) != []
    assert office_calls(tmp_path) == []


def tools(trace: Trace | None) -> list[tuple[str | None, str]]:
    assert trace is not None
    return [(s.tool_name, s.status) for s in trace.spans if s.kind == "tool"]


async def test_a_candidate_that_makes_a_call_that_was_never_recorded_is_missing(
    replaying: Probes, recorded: list[Trace], tmp_path: Path
) -> None:
    case = next(request_of(trace) for trace in recorded if timed_out(trace))
    other = next(request_of(t) for t in recorded if "is on its way" in answer_of(t))
    baseline, candidate = snapshot(), snapshot(RETRY)
    async with replaying() as probe:
        for _ in range(2):
            before = await probe.run(case, baseline, seed=1, deadline_s=60)
            after = await probe.run(case, candidate, seed=1, deadline_s=60)
            assert (before.missing, before.error) == (None, None)
            assert "could not be done" in str(before.output)
            assert after.missing == "replay: no further recording of payment_api"
            assert (after.output, after.error) == (None, None)
        same = await probe.run(other, candidate, seed=1, deadline_s=60)
        assert same.missing is None
    assert office_calls(tmp_path) == []


async def test_an_agent_whose_tools_were_called_past_the_replay_is_missing(
    replaying: Probes, recorded: list[Trace], tmp_path: Path
) -> None:
    case = request_of(recorded[0])
    async with replaying(env={**REPLAY_ENVIRONMENT, "UNWRAPPED": "1"}) as probe:
        seen = await probe.run(case, snapshot(), seed=1, deadline_s=60)
    assert office_calls(tmp_path) != []
    assert seen.missing is not None
    assert "called past it" in seen.missing
    assert seen.output is None


async def test_an_input_without_any_recording_is_missing_unless_its_tools_may_be_called(
    replaying: Probes, tmp_path: Path
) -> None:
    case: Json = {"message": "How many loyalty points are mine?", "customer": "C-1"}
    async with replaying() as probe:
        assert (await probe.run(case, snapshot(), seed=1, deadline_s=60)).missing == (
            "replay: no recording of loyalty_points"
        )
    assert office_calls(tmp_path) == []
    async with replaying(through=("loyalty_points",)) as probe:
        seen = await probe.run(case, snapshot(), seed=1, deadline_s=60)
    assert seen.missing is None
    assert "points" in cast("str", seen.output)
    assert office_calls(tmp_path) == ["loyalty_points"]


TWO_AT_ONCE = """
import threading
from tracemend_runtime import RunAnswer, serve
from tracemend_runtime.replay import replayed_function

both = threading.Barrier(2)

@replayed_function
def look(order: str) -> str:
    raise AssertionError("never called")

def run(request):
    both.wait(30)  # two runs are under way, and ask in turns
    said = [look(request.input["message"])]
    both.wait(30)
    return RunAnswer(output=said + [look(request.input["message"])])

serve(run, concurrency=2)
"""

ONCE = """
import json, os, sys
from tracemend_runtime.replay import replayed_function

@replayed_function
def look(order: str) -> str:
    raise AssertionError("never called")

run = json.loads(sys.stdin.readline())
assert run["replay"] == os.environ["TRACEMEND_REPLAY"]
print(json.dumps({"id": run["id"], "output": look(run["input"]["message"])}))
"""


def write_recordings(folder: Path) -> None:
    """Two runs with the same calls and other answers."""
    lines = [
        line([root(f"order {n}", trace=n), *(
            tool(i, "look", {"order": f"order {n}"}, f"{n}, time {i}", trace=n) for i in (1, 2)
        )])
        for n in (1, 2)
    ]  # fmt: skip
    (folder / "recorded.jsonl").write_bytes(b"".join(lines))


def looking(probe: WorkerProbe | CommandProbe, folder: Path) -> ReplayingProbe:
    recordings = KnownRecordings(
        root=folder, traces=["recorded.jsonl"], writes=(), origins={}, fetch=no_source
    )
    return ReplayingProbe(probe, recordings)


def settings_of(folder: Path) -> dict[str, Any]:
    return {
        "command": [sys.executable, "agent.py"], "cwd": folder, "work": folder / "work",
        "timeout_s": 60, "pass_env": [], "read_spans": read_spans, "env": REPLAY_ENVIRONMENT,
    }  # fmt: skip


async def test_runs_at_once_in_one_worker_live_each_in_its_own_recording(tmp_path: Path) -> None:
    write_recordings(tmp_path)
    (tmp_path / "agent.py").write_text(TWO_AT_ONCE)
    worker = WorkerProbe(concurrency=2, **settings_of(tmp_path))
    async with looking(worker, tmp_path) as probe:
        one, two = await asyncio.gather(*(
            probe.run({"message": f"order {n}"}, snapshot(), seed=1, deadline_s=60) for n in (1, 2)
        ))  # fmt: skip
    assert (one.missing, two.missing) == (None, None)
    assert one.output == ["1, time 1", "1, time 2"]
    assert two.output == ["2, time 1", "2, time 2"]


async def test_a_command_is_told_the_address_in_its_environment(tmp_path: Path) -> None:
    write_recordings(tmp_path)
    (tmp_path / "agent.py").write_text(ONCE)
    command = CommandProbe(concurrency=1, **settings_of(tmp_path))
    async with looking(command, tmp_path) as probe:
        seen = await probe.run({"message": "order 2"}, snapshot(), seed=1, deadline_s=60)
        other = await probe.run({"message": "order 3"}, snapshot(), seed=1, deadline_s=60)
    assert (seen.missing, seen.error, seen.output) == (None, None, "2, time 1")
    assert other.missing == "replay: no recording of look"


@pytest.mark.parametrize("weather", ["bad", "good"])
async def test_a_case_made_of_a_trace_lives_in_that_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weather: str
) -> None:
    """By the settings alone: the recordings come from the project's own source."""
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    traces = tmp_path / "agent" / "traces"
    traces.mkdir(parents=True)
    asked = next(r for r in generate(24, 7) if "refund" in r.input["message"])
    for name, fails in (("bad", 1.0), ("good", 0.0)):
        world = replace(STORMY, hot_shards=frozenset(range(11)), first_payment_fails=fails)
        record([asked], HARNESS, traces / f"{name}.jsonl", weather=world, seed=1)
    trace = read_spans(traces / f"{weather}.jsonl")
    assert trace is not None
    assert timed_out(trace) == (weather == "bad")
    ws = make_project(
        tmp_path / "home", tmp_path / "agent",
        traces=[{"kind": "files", "path": "traces/*.jsonl"}],
        probe={
            "kind": "worker", "command": [sys.executable, "-m", "examples.refund_agent.worker"],
            "replay": {"writes": list(WRITES)},
        },
    )  # fmt: skip
    case = Case(
        id=CaseId("c-1"), input=asked.input, assertions=({"not_empty": True},), family="f",
        tags=frozenset({"target"}), origin=f"trace:{trace.id}",
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.put_cases(tx, "f-1", [case])
    async with open_probe(ws) as probe:
        seen = await probe.run(case.input, snapshot(), seed=1, deadline_s=60)
    assert (seen.missing, seen.output) == (None, answer_of(trace))


def test_a_replay_with_nothing_to_replay_is_refused(tmp_path: Path) -> None:
    probe = {"kind": "worker", "command": ["agent"], "replay": {}}
    ws = make_project(tmp_path / "home", tmp_path / "agent", probe=probe)
    with pytest.raises(ConfigError, match=r"^probe\.replay\.traces: none named"):
        open_probe(ws)


def test_a_tool_cannot_both_fall_through_and_write(tmp_path: Path) -> None:
    replay = {"fall_through": ["look", "pay"], "writes": ["pay"]}
    probe = {"kind": "worker", "command": ["agent"], "replay": replay}
    with pytest.raises(ConfigError, match=r"'pay' is under `fall_through` and `writes`"):
        make_project(tmp_path / "home", tmp_path / "agent", probe=probe)
