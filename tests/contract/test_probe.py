"""What every implementation of `contracts.protocols.Probe` promises, against real processes."""

import asyncio
import os
import sys
import textwrap
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors.probe.worker import WorkerProbe
from contracts.errors import ProbeError
from contracts.harness import HarnessFile, HarnessSnapshot, Observation
from contracts.json_types import Json
from contracts.traces import Span, SpanId, Trace, TraceId

HARNESS = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data=b"Be brief.\r\n"),
        "skills/run/tool.sh": HarnessFile(data=b"#!/bin/sh\n", mode=0o755),
    }
)
OTHER = HarnessSnapshot(files={"instructions/main.md": HarnessFile(data=b"Be kind.\n")})

# What each script below begins with: the protocol by hand, in few lines.
HEAD = """
import json, os, subprocess, sys, time
from pathlib import Path

def say(**message):
    print(json.dumps(message), flush=True)

def runs():
    for line in sys.stdin:
        message = json.loads(line)
        if message["op"] == "stop":
            return
        yield message

def ready(concurrency=1):
    say(op="ready", v=1, concurrency=concurrency)

"""

Probes = Callable[..., WorkerProbe]


def one_span(path: Path) -> Trace:
    """Reads spans of these tests: the file's text is the name of the only span."""
    span = Span(
        id=SpanId("s"), trace_id=TraceId("t"), parent_id=None, name=path.read_text(), kind="agent",
        status="ok", started_at=datetime(2025, 1, 1, tzinfo=UTC), ended_at=None,
    )  # fmt: skip
    return Trace(id=TraceId("t"), spans=(span,))


@pytest.fixture
def probe_of(tmp_path: Path) -> Probes:
    """A probe whose worker is a script; it is not entered yet."""

    def make(script: str, **changed: object) -> WorkerProbe:
        (tmp_path / "worker.py").write_text(HEAD + textwrap.dedent(script))
        settings: dict[str, object] = {
            "command": [sys.executable, "worker.py"], "cwd": tmp_path, "work": tmp_path / "work",
            "concurrency": 1, "timeout_s": 60.0, "env": {}, "pass_env": [], "grace_s": 0.3,
            "read_spans": one_span,
        }  # fmt: skip
        return WorkerProbe(**(settings | changed))  # type: ignore[arg-type]  # named above

    return make


async def once(probe: WorkerProbe, case_input: str = "hi", deadline_s: float = 60) -> Observation:
    return await probe.run(case_input, HARNESS, seed=7, deadline_s=deadline_s)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what comes in its own time, however busy the machine is."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  other processes send no event
            await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether the process still runs; one that waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


OBEDIENT = """
ready()
for run in runs():
    text = (Path(run["harness"]) / "instructions/main.md").read_bytes().decode()
    say(id=run["id"], output=[run["input"], run["seed"], text], error=None, missing=None,
        usage={"input_tokens": 9, "output_tokens": 3, "cost_usd": 0.5}, spans=None)
"""


async def test_an_answer_is_observed_with_its_usage(probe_of: Probes) -> None:
    async with probe_of(OBEDIENT) as probe:
        seen = await once(probe)
    assert (seen.output, seen.error, seen.missing) == (["hi", 7, "Be brief.\r\n"], None, None)
    assert (seen.usage.input_tokens, seen.usage.output_tokens, seen.usage.cost_usd) == (9, 3, 0.5)
    assert 0 < seen.seconds < 60


async def test_each_run_reads_the_harness_it_was_given(probe_of: Probes) -> None:
    async with probe_of(OBEDIENT) as probe:
        other = await probe.run("hi", OTHER, seed=1, deadline_s=60)
        assert other.output == ["hi", 1, "Be kind.\n"]
        assert (await once(probe)).output == ["hi", 7, "Be brief.\r\n"]


async def test_the_wire_carries_neither_case_nor_arm_and_a_new_random_id_each_run(
    probe_of: Probes,
) -> None:
    async with probe_of("ready()\nfor run in runs():\n    say(id=run['id'], output=run)") as probe:
        first, second = (await once(probe)).output, (await once(probe)).output
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert sorted(first) == ["deadline_s", "harness", "id", "input", "op", "seed"]
    assert len(first["id"]) >= 32
    assert first["id"] != second["id"]


ENVIRONMENT = """
ready()
for run in runs():
    say(id=run["id"], output=dict(os.environ))
"""


async def test_the_worker_gets_the_marks_of_our_runs_and_no_secret_that_was_not_named(
    probe_of: Probes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NAMED_KEY", "OTHER_KEY", "TRACEMEND_TOKEN"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=desk,deployment.environment=production")
    names = ["NAMED_KEY", "OTEL_RESOURCE_ATTRIBUTES", "ABSENT"]
    async with probe_of(ENVIRONMENT, env={"MODE": "x"}, pass_env=names) as probe:
        env = (await once(probe)).output
    assert isinstance(env, dict)
    assert (env["NAMED_KEY"], env["MODE"]) == ("secret", "x")
    assert not {"OTHER_KEY", "TRACEMEND_TOKEN", "ABSENT"} & set(env)
    projects = ("LANGFUSE_TRACING_ENVIRONMENT", "LANGSMITH_PROJECT", "PHOENIX_PROJECT_NAME")
    assert {env[name] for name in projects} == {"tracemend-gate"}
    attributes = dict(part.split("=") for part in env["OTEL_RESOURCE_ATTRIBUTES"].split(","))
    assert attributes == {
        "team": "desk",
        "deployment.environment": "tracemend-gate",
        "deployment.environment.name": "tracemend-gate",
        "openinference.project.name": "tracemend-gate",
        "tracemend.run_id": env["TRACEMEND_RUN_ID"],
    }


async def test_what_the_worker_calls_an_error_or_missing_is_passed_on(probe_of: Probes) -> None:
    script = """
    ready()
    for run in runs():
        say(id=run["id"], output="half", **run["input"])
    """
    async with probe_of(script) as probe:
        failed = await probe.run({"error": "timeout"}, HARNESS, seed=1, deadline_s=60)
        gone = await probe.run(
            {"missing": "no model", "error": "x"}, HARNESS, seed=1, deadline_s=60
        )
    assert (failed.output, failed.error, failed.missing) == (None, "timeout", None)
    assert (gone.output, gone.error, gone.missing) == (None, None, "no model")


HANGING = """
ready(2)
for run in runs():
    if run["input"].startswith("hang"):
        Path(run["input"]).touch()
    else:
        say(id=run["id"], output=os.getpid())
"""


async def test_a_run_over_its_deadline_is_the_agents_timeout_and_the_worker_is_replaced(
    probe_of: Probes,
) -> None:
    async with probe_of(HANGING) as probe:
        pid = (await once(probe)).output
        hung = await once(probe, "hang", deadline_s=0.2)
        assert (hung.error, hung.missing) == ("timeout", None)
        assert 0.2 <= hung.seconds < 50
        again = (await once(probe)).output
        assert isinstance(pid, int)
        assert again != pid
        assert not alive(pid)


async def test_the_deadline_is_never_longer_than_the_configured_one(probe_of: Probes) -> None:
    async with probe_of(HANGING, timeout_s=0.2) as probe:
        started = time.monotonic()
        assert (await once(probe, "hang", deadline_s=3600)).error == "timeout"
        assert time.monotonic() - started < 60


async def test_a_late_answer_is_a_timeout_too(probe_of: Probes) -> None:
    script = """
    ready()
    for run in runs():
        time.sleep(0.4)
        say(id=run["id"], output="late", usage={"input_tokens": 5})
    """
    async with probe_of(script, grace_s=60.0) as probe:
        seen = await once(probe, deadline_s=0.1)
    assert (seen.output, seen.error, seen.usage.input_tokens) == (None, "timeout", 5)


async def test_a_run_in_time_beside_one_that_hangs_is_missing_not_failed(
    probe_of: Probes, tmp_path: Path
) -> None:
    async with probe_of(HANGING, concurrency=2) as probe:
        beside = asyncio.create_task(once(probe, "hang beside"))
        await until((tmp_path / "hang beside").exists)
        hung, other = await once(probe, "hang", deadline_s=0.2), await beside
    assert (hung.error, hung.missing) == ("timeout", None)
    assert (other.error, other.missing) == (None, "worker killed")


BREACHES = {
    "no json": "print('Loading model ...', flush=True)",
    "a list": "print('[]', flush=True)",
    "no id": "say(output=1)",
    "an unknown id": "say(id='someone', output=1)",
    "two answers": "sys.stdout.write(2 * (json.dumps({'id': run['id']}) + chr(10)))\n"
    "        sys.stdout.flush()",
    "not utf-8": "os.write(1, b'\\xff\\n')",
    "a huge line": "os.write(1, b'x' * 300_000)",
    "deep nesting": "os.write(1, b'[' * 90_000 + b'\\n')",
    "stdout closed": "os.close(1)",
}


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES)
async def test_a_breach_of_the_protocol_is_missing_and_the_next_run_is_served(
    probe_of: Probes, breach: str
) -> None:
    script = f"""
ready()
for run in runs():
    if run["input"] == "breach":
        {breach}
        time.sleep(600)
    say(id=run["id"], output="fine")
"""
    async with probe_of(script, output_cap_bytes=100_000) as probe:
        seen = await once(probe, "breach")
        assert seen.error is None
        assert str(seen.missing).startswith("protocol: ")
        assert seen.seconds < 50
        assert (await once(probe)).output == "fine"


async def test_a_second_answer_after_the_first_was_taken_ends_the_worker(
    probe_of: Probes, tmp_path: Path
) -> None:
    script = """
    ready()
    for run in runs():
        say(id=run["id"], output=os.getpid())
        while not Path("taken").exists():
            time.sleep(0.01)
        if not Path("said").exists():
            Path("said").touch()
            say(id=run["id"], output="again")
    """
    async with probe_of(script) as probe:
        first = (await once(probe)).output
        assert isinstance(first, int)
        (tmp_path / "taken").touch()
        await until(lambda: not alive(first))
        assert (await once(probe)).output != first


async def test_a_worker_that_dies_is_missing_with_its_exit_code_and_is_replaced(
    probe_of: Probes,
) -> None:
    script = """
    ready()
    for run in runs():
        if run["input"] == "die":
            os._exit(7)
        say(id=run["id"], output="fine")
    """
    async with probe_of(script) as probe:
        assert (await once(probe, "die")).missing == "worker died (exit 7)"
        assert (await once(probe)).output == "fine"


async def test_an_answer_written_just_before_the_worker_died_counts(probe_of: Probes) -> None:
    script = """
    ready()
    for run in runs():
        say(id=run["id"], output=os.getpid())
        os._exit(7)
    """
    async with probe_of(script) as probe:
        pid = (await once(probe)).output
        assert isinstance(pid, int)
        await until(lambda: not Path(f"/proc/{pid}").exists())
        next_one = await once(probe)
        if next_one.missing == "worker died (exit 7)":  # asked before its end was noticed
            next_one = await once(probe)
        assert isinstance(next_one.output, int)


async def test_numbers_of_a_wrong_kind_are_unknown(probe_of: Probes) -> None:
    script = """
    ready()
    for run in runs():
        say(id=run["id"], output={"x": float("inf")}, usage=run["input"])
    """
    bad: list[Json] = [
        {"input_tokens": -1, "output_tokens": "9", "cost_usd": "free"},
        {"input_tokens": True, "output_tokens": 1.5, "cost_usd": -0.1},
        ["usage"],
    ]
    async with probe_of(script) as probe:
        for usage in bad:
            seen = await probe.run(usage, HARNESS, seed=1, deadline_s=60)
            assert seen.output == {"x": None}
            assert seen.usage.input_tokens is None
            assert seen.usage.output_tokens is None
            assert seen.usage.cost_usd is None


async def test_a_cost_that_is_not_a_number_is_unknown(probe_of: Probes) -> None:
    script = """
    ready()
    for run in runs():
        print('{"id": "%s", "output": 1, "usage": {"cost_usd": NaN}}' % run["id"], flush=True)
    """
    async with probe_of(script) as probe:
        seen = await once(probe)
    assert (seen.output, seen.usage.cost_usd) == (1, None)


WRITES = """
ready()
for run in runs():
    file = Path(run["harness"]) / "instructions/main.md"
    text = file.read_bytes().decode()
    if run["input"] == "write":
        for folder in (file.parent, file.parent.parent):
            folder.chmod(0o755)
        file.unlink()
        file.write_bytes(b"Never promise.")
    say(id=run["id"], output=text)
"""


async def test_a_worker_that_writes_into_the_harness_is_caught_and_the_next_run_reads_exact_bytes(
    probe_of: Probes,
) -> None:
    async with probe_of(WRITES) as probe:
        seen = await once(probe, "write")
        assert (seen.output, seen.missing) == (None, "harness changed")
        assert (await once(probe)).output == "Be brief.\r\n"


async def test_a_folder_that_was_changed_between_runs_is_built_anew(
    probe_of: Probes, tmp_path: Path
) -> None:
    folder = tmp_path / "work" / f"harness-{HARNESS.revision[:16]}"
    (folder / "instructions").mkdir(parents=True)
    (folder / "instructions" / "main.md").write_bytes(b"stale")
    async with probe_of(OBEDIENT) as probe:
        assert (await once(probe)).output == ["hi", 7, "Be brief.\r\n"]
    assert oct((folder / "instructions" / "main.md").stat().st_mode & 0o777) == "0o444"
    assert (folder / "skills" / "run" / "tool.sh").stat().st_mode & 0o111


async def test_spans_are_read_from_a_plain_file_in_the_workers_places(
    probe_of: Probes, tmp_path: Path
) -> None:
    script = """
    ready()
    for run in runs():
        say(id=run["id"], output=1, spans=run["input"])
    """
    spans = tmp_path / "spans.jsonl"
    spans.write_text("refund")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("/etc/hostname")
    refused: list[Json] = ["/etc/hostname", "spans.jsonl", str(tmp_path), str(tmp_path / "none"),
               str(tmp_path / "pipe"), str(tmp_path / "out"), 7]  # fmt: skip
    async with probe_of(script) as probe:
        seen = await probe.run(str(spans), HARNESS, seed=1, deadline_s=60)
        assert seen.trace is not None
        assert seen.trace.root.name == "refund"
        for place in refused:
            seen = await probe.run(place, HARNESS, seed=1, deadline_s=60)
            assert (seen.output, seen.trace) == (1, None), place


async def test_no_more_runs_are_under_way_than_configured_or_taken(probe_of: Probes) -> None:
    script = """
    import threading
    ready(2)
    under_way, pair = [], threading.Barrier(2, timeout=60)
    def work(run):
        under_way.append(run)
        pair.wait()
        time.sleep(0.05)
        most = len(under_way)
        pair.wait()
        under_way.remove(run)
        say(id=run["id"], output=most)
    for run in runs():
        threading.Thread(target=work, args=(run,)).start()
    """
    async with probe_of(script, concurrency=5) as probe:
        seen = await asyncio.gather(*(once(probe) for _ in range(6)))
    assert {s.output for s in seen} == {2}


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("sys.exit('no \\x1b[31magent')", r"worker died \(exit 1\); stderr: no \[31magent"),
        ("print('hello', flush=True)\ntime.sleep(600)", "protocol: a line that is not JSON"),
        ("say(op='ready', v=2)\ntime.sleep(600)", "protocol version 2, this side speaks 1"),
        ("say(op='ready', v=1, concurrency=0)\ntime.sleep(600)", "ready with concurrency 0"),
        ("time.sleep(600)", "did not say ready within 0.5 s"),
    ],
)  # fmt: skip
async def test_a_worker_that_never_says_ready_is_one_clear_line(
    probe_of: Probes, script: str, says: str
) -> None:
    async with probe_of(script, start_timeout_s=0.5 if script.startswith("time") else 60) as probe:
        with pytest.raises(ProbeError, match=says) as told:
            await once(probe)
    assert "worker.py` " in str(told.value)
    assert str(told.value).isprintable()


@pytest.mark.parametrize(
    "changed", [{"command": ["/no/such/program"]}, {"command": []}, {"cwd": Path("/no/such")}]
)
async def test_a_command_that_cannot_start_is_a_probe_error(
    probe_of: Probes, changed: dict[str, object]
) -> None:
    async with probe_of("", **changed) as probe:
        with pytest.raises(ProbeError, match="probe"):
            await once(probe)


FAMILY = """
ready()
quiet = dict(stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
child = subprocess.Popen(["sleep", "300"], **quiet)  # holds our stdout
detached = subprocess.Popen(["sleep", "300"], start_new_session=True, **quiet)
for run in runs():
    say(id=run["id"], output=[os.getpid(), child.pid, detached.pid])
    if run["input"] == "die":
        os._exit(1)
"""


@pytest.mark.kill
@pytest.mark.parametrize("word", ["stay", "die"])
async def test_nothing_is_left_running_after_the_probe_was_left(
    probe_of: Probes, word: str
) -> None:
    async with probe_of(FAMILY) as probe:
        pids = (await once(probe, word)).output
        assert isinstance(pids, list)
        assert word == "die" or all(alive(pid) for pid in pids)
    assert not any(alive(pid) for pid in pids)


@pytest.mark.kill
async def test_nothing_is_left_running_after_the_caller_was_cancelled(
    probe_of: Probes, tmp_path: Path
) -> None:
    async with probe_of(HANGING) as probe:
        pid = (await once(probe)).output
        assert isinstance(pid, int)
        hanging = asyncio.create_task(once(probe, "hang"))
        await until((tmp_path / "hang").exists)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        await until(lambda: not alive(pid))
        assert isinstance((await once(probe)).output, int)


async def test_a_worker_that_floods_stderr_is_served_on(probe_of: Probes) -> None:
    script = """
    ready()
    for run in runs():
        os.write(2, b"noise " * 200_000)
        say(id=run["id"], output="fine")
    """
    async with probe_of(script) as probe:
        assert (await once(probe)).output == "fine"


RUNTIME = """
import ctypes
from tracemend_runtime import RunAnswer, RunRequest, serve

def agent(request: RunRequest) -> RunAnswer:
    print("agent talks")
    os.system("echo child talks")
    libc = ctypes.CDLL(None)
    libc.puts(b"C talks")
    libc.fflush(None)
    if request.input == "fail":
        raise ValueError("no order")
    text = (request.harness / "instructions/main.md").read_text()
    return RunAnswer(output=[text, sys.stdin.read()], cost_usd=0.01)

serve(agent, concurrency=2)
"""


async def test_the_runtimes_loop_keeps_what_the_agent_prints_out_of_the_protocol(
    probe_of: Probes,
) -> None:
    async with probe_of(RUNTIME, concurrency=2) as probe:
        fine, failed = await asyncio.gather(once(probe), once(probe, "fail"))
    assert (fine.output, fine.usage.cost_usd) == (["Be brief.\n", ""], 0.01)
    assert failed.error == "ValueError: no order"


async def test_a_large_answer_under_the_cap_arrives_whole(probe_of: Probes) -> None:
    script = """
    ready()
    for run in runs():
        say(id=run["id"], output="x" * 2_000_000)
    """
    async with probe_of(script) as probe:
        seen = await probe.run("y" * 500_000, HARNESS, seed=1, deadline_s=60)
    assert seen.output == "x" * 2_000_000
