"""What every probe that starts processes promises, whatever its kind, against real processes."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.gate_settings import LimitsSettings
from connectors.probe.company import accompanied
from connectors.probe.network import network_off_refused
from contracts.errors import PolicyRefused, ProbeError
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from tests.probe_worlds import (
    HARNESS,
    KINDS,
    OTHER,
    Kind,
    ProbeOf,
    agent_probe,
    alive,
    left_in,
    once,
    there,
    until,
)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    named: Kind = request.param
    return named


@pytest.fixture
def probe_of(kind: Kind, tmp_path: Path) -> ProbeOf:
    return lambda agent, **changed: agent_probe(kind, tmp_path, agent, **changed)


OBEDIENT = """
def agent(run):
    text = text_of(run, "instructions/main.md")
    return dict(output=[run["input"], run["seed"], text], error=None, missing=None,
                usage={"input_tokens": 9, "output_tokens": 3, "cost_usd": 0.5}, spans=None)
"""
ECHO = "def agent(run):\n    return dict(output=run)\n"


async def test_an_answer_is_observed_with_its_usage(probe_of: ProbeOf) -> None:
    async with probe_of(OBEDIENT) as probe:
        seen = await once(probe)
    assert (seen.output, seen.error, seen.missing) == (["hi", 7, "Be brief.\r\n"], None, None)
    assert (seen.usage.input_tokens, seen.usage.output_tokens, seen.usage.cost_usd) == (9, 3, 0.5)
    assert 0 < seen.seconds < 60


async def test_each_run_reads_the_harness_it_was_given(probe_of: ProbeOf) -> None:
    async with probe_of(OBEDIENT) as probe:
        other = await probe.run("hi", OTHER, seed=1, deadline_s=60)
        assert other.output == ["hi", 1, "Be kind.\n"]
        assert (await once(probe)).output == ["hi", 7, "Be brief.\r\n"]


async def test_the_wire_carries_neither_case_nor_arm_and_new_random_names_each_run(
    probe_of: ProbeOf,
) -> None:
    async with probe_of(ECHO) as probe:
        first, second = (await once(probe)).output, (await once(probe)).output
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    keys = ["deadline_s", "harness", "id", "input", "op", "seed", "workdir"]
    assert sorted(first) == keys
    assert len(str(first["id"])) >= 32
    for name in ("id", "harness", "workdir"):
        assert first[name] != second[name]
    assert HARNESS.revision[:8] not in str(first)


async def test_a_run_is_told_the_address_of_what_accompanies_it(probe_of: ProbeOf) -> None:
    async with probe_of(ECHO) as probe:
        with accompanied("replay", "http://127.0.0.1:1/x"):
            beside = (await once(probe)).output
        alone = (await once(probe)).output
    assert isinstance(beside, dict)
    assert isinstance(alone, dict)
    assert beside["replay"] == "http://127.0.0.1:1/x"
    assert "replay" not in alone


async def test_the_agent_gets_the_marks_of_our_runs_and_no_secret_that_was_not_named(
    probe_of: ProbeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NAMED_KEY", "OTHER_KEY", "TRACEMEND_TOKEN"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=desk,deployment.environment=production")
    names = ["NAMED_KEY", "OTEL_RESOURCE_ATTRIBUTES", "ABSENT"]
    agent = "def agent(run):\n    return dict(output=dict(os.environ))"
    async with probe_of(agent, env={"MODE": "x"}, pass_env=names) as probe:
        env = (await once(probe)).output
    assert isinstance(env, dict)
    assert (env["NAMED_KEY"], env["MODE"]) == ("secret", "x")
    assert not {"OTHER_KEY", "TRACEMEND_TOKEN", "ABSENT"} & set(env)
    projects = ("LANGFUSE_TRACING_ENVIRONMENT", "LANGSMITH_PROJECT", "PHOENIX_PROJECT_NAME")
    assert {env[name] for name in projects} == {"tracemend-gate"}
    attributes = dict(part.split("=") for part in str(env["OTEL_RESOURCE_ATTRIBUTES"]).split(","))
    assert attributes == {
        "team": "desk",
        "deployment.environment": "tracemend-gate",
        "deployment.environment.name": "tracemend-gate",
        "openinference.project.name": "tracemend-gate",
        "tracemend.run_id": env["TRACEMEND_RUN_ID"],
    }


async def test_what_the_agent_calls_an_error_or_missing_is_passed_on(probe_of: ProbeOf) -> None:
    async with probe_of("def agent(run):\n    return dict(output='half', **run['input'])") as probe:
        failed = await once(probe, {"error": "timeout"})
        gone = await once(probe, {"missing": "no model", "error": "x"})
    assert (failed.output, failed.error, failed.missing) == (None, "timeout", None)
    assert (gone.output, gone.error, gone.missing) == (None, None, "no model")


HANGING = """
def agent(run):
    if run["input"].startswith("hang"):
        (Path(os.environ.get("TRACEMEND_ROOT", ".")) / run["input"]).touch()
        time.sleep(600)
    return dict(output=os.getpid())
"""


async def test_a_run_over_its_deadline_is_the_agents_timeout_and_its_process_is_killed(
    probe_of: ProbeOf,
) -> None:
    async with probe_of(HANGING) as probe:
        hung = await once(probe, "hang", deadline_s=0.2)
        assert (hung.error, hung.missing) == ("timeout", None)
        assert 0.2 <= hung.seconds < 50
        assert isinstance((await once(probe)).output, int)


async def test_the_deadline_is_never_longer_than_the_configured_one(probe_of: ProbeOf) -> None:
    async with probe_of(HANGING, timeout_s=0.2) as probe:
        started = time.monotonic()
        assert (await once(probe, "hang", deadline_s=3600)).error == "timeout"
        assert time.monotonic() - started < 60


async def test_a_late_answer_is_a_timeout_too(probe_of: ProbeOf) -> None:
    agent = """
    def agent(run):
        time.sleep(0.4)
        return dict(output="late", usage={"input_tokens": 5})
    """
    async with probe_of(agent, grace_s=60.0) as probe:
        seen = await once(probe, deadline_s=0.1)
    assert (seen.output, seen.error, seen.usage.input_tokens) == (None, "timeout", 5)


async def test_numbers_of_a_wrong_kind_are_unknown(probe_of: ProbeOf) -> None:
    agent = """
    def agent(run):
        return dict(output={"x": float("inf")}, usage=run["input"])
    """
    bad: list[Json] = [
        {"input_tokens": -1, "output_tokens": "9", "cost_usd": "free"},
        {"input_tokens": True, "output_tokens": 1.5, "cost_usd": -0.1},
        ["usage"],
    ]
    async with probe_of(agent) as probe:
        for usage in bad:
            seen = await once(probe, usage)
            assert seen.output == {"x": None}
            assert seen.usage.input_tokens is None
            assert seen.usage.output_tokens is None
            assert seen.usage.cost_usd is None


async def test_a_cost_that_is_not_a_number_is_unknown(probe_of: ProbeOf) -> None:
    agent = "def agent(run):\n    return dict(output=1, usage={'cost_usd': float('nan')})"
    async with probe_of(agent) as probe:
        seen = await once(probe)
    assert (seen.output, seen.usage.cost_usd) == (1, None)


WRITES = """
def agent(run):
    file = Path(run["harness"]) / "instructions/main.md"
    text = text_of(run, "instructions/main.md")
    for folder in (file.parent, file.parent.parent):
        folder.chmod(0o755)
    if run["input"] == "write":
        file.unlink()
        file.write_bytes(b"Never promise.")
    if run["input"] == "write as much":
        file.chmod(0o644)
        file.write_bytes(b"Be slow..\\r\\n")
    if run["input"] == "remove":
        file.unlink()
    if run["input"] == "add":
        (file.parent / "more.md").touch()
    if run["input"] == "link":
        file.unlink()
        file.symlink_to("/dev/null")
    return dict(output=text)
"""


async def test_an_agent_that_writes_into_the_harness_is_caught_and_the_next_run_reads_exact_bytes(
    probe_of: ProbeOf,
) -> None:
    async with probe_of(WRITES) as probe:
        for how in ("write", "write as much", "remove", "add", "link"):
            seen = await once(probe, how)
            assert (seen.output, seen.missing) == (None, "harness changed")
        assert (await once(probe)).output == "Be brief.\r\n"


async def test_the_harness_is_read_only_and_keeps_what_may_be_executed(probe_of: ProbeOf) -> None:
    agent = """
    def agent(run):
        root = Path(run["harness"])
        paths = [root, *root.rglob("*")]
        return dict(output={str(p.relative_to(root)): oct(p.stat().st_mode) for p in paths})
    """
    async with probe_of(agent) as probe:
        modes = (await once(probe)).output
    assert modes == {
        ".": "0o40555", "instructions": "0o40555", "instructions/main.md": "0o100444",
        "skills": "0o40555", "skills/run": "0o40555", "skills/run/tool.sh": "0o100555",
    }  # fmt: skip


async def test_a_run_can_write_where_it_is_told_and_nothing_of_it_is_left_for_the_next(
    probe_of: ProbeOf, tmp_path: Path
) -> None:
    agent = """
    import tempfile
    def agent(run):
        found = os.listdir(run["workdir"])
        (Path(run["workdir"]) / "notes").mkdir()
        (Path(run["workdir"]) / "notes" / "cache").write_text("x")
        (Path(run["workdir"]) / "notes").chmod(0)
        listening = socket.socket(socket.AF_UNIX)
        os.chdir(run["workdir"])
        listening.bind("s")
        with tempfile.NamedTemporaryFile(delete=False) as scratch:
            return dict(output=[found, run["workdir"], scratch.name])
    """
    async with probe_of(agent) as probe:
        for _ in range(2):
            found, workdir, scratch = await _list(probe)
            assert found == []
            await until(gone(workdir))
            assert Path(str(scratch)).is_relative_to(tmp_path / "work")
    assert left_in(tmp_path / "work") == []


def gone(place: Json) -> Callable[[], bool]:
    return lambda: not there(place)


async def _list(probe: object, case_input: Json = "hi") -> list[Json]:
    output = (await once(probe, case_input)).output  # type: ignore[arg-type]  # any probe
    assert isinstance(output, list)
    return output


async def test_spans_are_read_from_a_plain_file_in_the_agents_places(
    probe_of: ProbeOf, tmp_path: Path
) -> None:
    agent = """
    def agent(run):
        if run["input"] != "own":
            return dict(output=1, spans=run["input"])
        own = Path(run["workdir"]) / "spans.jsonl"
        own.write_text("own")
        return dict(output=1, spans=str(own))
    """
    spans = tmp_path / "spans.jsonl"
    spans.write_text("refund")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("/etc/hostname")
    refused: list[Json] = ["/etc/hostname", "spans.jsonl", str(tmp_path), str(tmp_path / "none"),
               str(tmp_path / "pipe"), str(tmp_path / "out"), 7]  # fmt: skip
    async with probe_of(agent) as probe:
        for place, name in ((str(spans), "refund"), ("own", "own")):
            seen = await once(probe, place)
            assert seen.trace is not None
            assert seen.trace.root.name == name
        for other in refused:
            seen = await once(probe, other)
            assert (seen.output, seen.trace) == (1, None), other


async def test_no_more_runs_are_under_way_than_configured(
    probe_of: ProbeOf, tmp_path: Path
) -> None:
    agent = """
    def agent(run):
        place = Path(os.environ["PLACE"])
        mine = place / run["id"]
        mine.touch()
        while len(list(place.iterdir())) < 2 and not (place.parent / "two").exists():
            time.sleep(0.01)
        (place.parent / "two").touch()
        time.sleep(0.05)
        most = len(list(place.iterdir()))
        mine.unlink()
        return dict(output=most)
    """
    (tmp_path / "place").mkdir()
    env = {"PLACE": str(tmp_path / "place")}
    async with probe_of(agent, concurrency=2, env=env) as probe:
        seen = await asyncio.gather(*(once(probe) for _ in range(5)))
    assert {s.error for s in seen} == {None}
    assert max(int(str(s.output)) for s in seen) == 2


async def test_a_large_answer_under_the_cap_arrives_whole(probe_of: ProbeOf) -> None:
    async with probe_of("def agent(run):\n    return dict(output='x' * 2_000_000)") as probe:
        seen = await once(probe, "y" * 500_000)
    assert seen.output == "x" * 2_000_000


async def test_an_agent_that_floods_stderr_is_served_on(probe_of: ProbeOf) -> None:
    agent = """
    def agent(run):
        os.write(2, b"noise " * 200_000)
        return dict(output="fine")
    """
    async with probe_of(agent) as probe:
        assert (await once(probe)).output == "fine"


# Limits: over one of them the run is the agent's own failure, never missing.

HUNGRY = """
def agent(run):
    quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if run["input"] == "memory":
        kept = b"x" * 250_000_000
        time.sleep(600)
    if run["input"] == "memory of children":
        eat = "import time; kept = b'x' * 70_000_000; time.sleep(600)"
        for _ in range(4):
            subprocess.Popen([sys.executable, "-c", eat], start_new_session=True, **quiet)
        time.sleep(600)
    if run["input"] == "processes":
        for _ in range(12):
            subprocess.Popen(["sleep", "600"], start_new_session=True, **quiet)
        time.sleep(600)
    if run["input"] == "output":
        os.write(1, b'"' + b"x" * 1_500_000)
        time.sleep(600)
    return dict(output="fine")
"""
BOUNDS = LimitsSettings(memory_mb=200, processes=8, output_mb=1)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("memory", "memory limit 200 MB"),
        ("memory of children", "memory limit 200 MB"),
        ("processes", "processes limit 8"),
        ("output", "output limit 1 MB"),
    ],
)
async def test_an_agent_over_a_limit_fails_and_the_next_run_is_served(
    probe_of: ProbeOf, what: str, told: str
) -> None:
    async with probe_of(HUNGRY, limits=BOUNDS) as probe:
        seen = await once(probe, what)
        assert (seen.output, seen.error, seen.missing) == (None, told, None)
        assert seen.seconds < 50
        assert (await once(probe)).output == "fine"


async def test_memory_that_processes_share_counts_once(probe_of: ProbeOf) -> None:
    agent = """
    def agent(run):
        kept = b"x" * 120_000_000
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                time.sleep(600)
            children.append(child)
        time.sleep(0.5)  # several looks
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return dict(output="fine")
    """
    async with probe_of(agent, limits=LimitsSettings(memory_mb=250)) as probe:
        assert (await once(probe)).output == "fine"


async def test_a_limit_that_cannot_be_kept_here_is_refused_before_any_run(
    probe_of: ProbeOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("connectors.probe.limits.PROC", tmp_path / "no proc")
    with pytest.raises(ProbeError, match=r"^probe\.limits: cannot be enforced here: there is no"):
        async with probe_of(ECHO, limits=LimitsSettings(processes=3)):
            pass
    async with probe_of(ECHO, limits=LimitsSettings(output_mb=1)) as probe:
        assert (await once(probe)).error is None


# Network.

CALLS = """
def agent(run):
    own = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(own.getsockname(), timeout=60).close()
    try:
        socket.create_connection(("127.0.0.1", run["input"]), timeout=60).close()
        reached = True
    except OSError:
        reached = False
    return dict(output=[reached, sorted(name for _, name in socket.if_nameindex())])
"""


async def test_without_network_an_agent_reaches_its_own_services_and_no_others(
    probe_of: ProbeOf,
) -> None:
    if (why := network_off_refused()) is not None:
        pytest.skip(f"no process can be started without network here: {why}")
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with probe_of(CALLS) as probe:
            assert (await _list(probe, port))[0] is True
        async with probe_of(CALLS, network=False) as probe:
            assert await _list(probe, port) == [False, ["lo"]]


async def test_network_off_where_the_platform_refuses_it_is_one_clear_line(
    probe_of: ProbeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.probe.local.network_off_refused", lambda: "unshare: no")
    said = r"^probe\.network: off cannot be enforced here: unshare: no$"
    with pytest.raises(ProbeError, match=said):
        async with probe_of(ECHO, network=False):
            pass


# The end of everything.

FAMILY = """
def agent(run):
    quiet = dict(stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    child = subprocess.Popen(["sleep", "300"], **quiet)  # holds our stdout
    detached = subprocess.Popen(["sleep", "300"], start_new_session=True, **quiet)
    if run["input"] == "die":
        os.write(2, f"{child.pid} {detached.pid}".encode())
        os._exit(1)
    return dict(output=[os.getpid(), child.pid, detached.pid])
"""


@pytest.mark.kill
async def test_nothing_is_left_running_after_the_probe_was_left(
    probe_of: ProbeOf, tmp_path: Path
) -> None:
    async with probe_of(FAMILY) as probe:
        pids = await _list(probe)
    assert not any(alive(int(str(pid))) for pid in pids)
    assert left_in(tmp_path / "work") == []


@pytest.mark.kill
async def test_nothing_is_left_running_after_the_caller_was_cancelled(
    probe_of: ProbeOf, tmp_path: Path
) -> None:
    agent = """
    def agent(run):
        root = Path(os.environ["ROOT"])
        (root / "at").write_text(str(os.getpid()))
        (root / "at").rename(root / "pid")
        time.sleep(600 if run["input"] == "hang" else 0)
        return dict(output=1)
    """
    async with probe_of(agent, env={"ROOT": str(tmp_path)}) as probe:
        hanging = asyncio.create_task(once(probe, "hang"))
        await until((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text())
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        await until(lambda: not alive(pid))
        assert (await once(probe)).output == 1
    assert left_in(tmp_path / "work") == []


async def test_an_agent_killed_from_outside_in_the_middle_of_a_run_is_missing(
    probe_of: ProbeOf, kind: Kind
) -> None:
    agent = """
    def agent(run):
        if run["input"] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(600)
        return dict(output="fine")
    """
    async with probe_of(agent) as probe:
        seen = await once(probe, "killed")
        told = "worker died (exit -9)" if kind == "worker" else "killed by SIGKILL"
        assert (seen.output, seen.error, seen.missing) == (None, None, told)
        assert (await once(probe)).output == "fine"


async def test_a_harness_that_would_leave_its_folder_is_not_laid_out(
    probe_of: ProbeOf, tmp_path: Path
) -> None:
    outside = HarnessSnapshot(files={"../../../escaped.md": HarnessFile(data=b"x")})
    async with probe_of(ECHO) as probe:
        with pytest.raises(PolicyRefused, match="escaped"):
            await probe.run("hi", outside, seed=1, deadline_s=60)
    assert left_in(tmp_path) == ["program.py", "work"]


@pytest.mark.parametrize("command", [["/no/such/program"], ["no-such-program"], []])
async def test_a_command_that_cannot_start_is_a_probe_error(
    probe_of: ProbeOf, command: list[str]
) -> None:
    async with probe_of(ECHO, command=command) as probe:
        with pytest.raises(ProbeError, match=r"^probe") as told:
            await once(probe)
    assert str(told.value).isprintable()
    assert not command or "cannot be started: No such file" in str(told.value)


async def test_a_folder_for_runs_that_cannot_be_made_is_one_clear_line(
    probe_of: ProbeOf, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProbeError, match=r"^probe: no folder for runs under .*: Not a directory$"):
        async with probe_of(ECHO, work=tmp_path / "file" / "work"):
            pass
