"""What the probe of kind "worker" promises beyond every probe: one process, several runs."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.gate_settings import LimitsSettings
from connectors.probe.local import LocalProbe
from contracts.errors import ProbeError
from tests.probe_worlds import HARNESS, alive, left_in, once, script_probe, there, until

Probes = Callable[..., LocalProbe]


@pytest.fixture
def probe_of(tmp_path: Path) -> Probes:
    """A probe whose worker is a script; it is not entered yet."""
    return lambda script, **changed: script_probe("worker", tmp_path, script, **changed)


HANGING = """
ready(2)
for run in runs():
    if run["input"].startswith("hang"):
        Path(run["input"]).touch()
    else:
        say(id=run["id"], output=os.getpid())
"""


async def test_one_process_serves_all_runs_until_one_is_over_its_deadline(
    probe_of: Probes,
) -> None:
    async with probe_of(HANGING) as probe:
        pid = (await once(probe)).output
        assert (await once(probe)).output == pid
        assert (await once(probe, "hang", deadline_s=0.2)).error == "timeout"
        again = (await once(probe)).output
        assert isinstance(pid, int)
        assert again != pid
        assert not alive(pid)


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
    async with probe_of(script) as probe:
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


async def test_no_more_runs_are_under_way_than_the_worker_takes(probe_of: Probes) -> None:
    script = """
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
    assert "program.py` " in str(told.value)
    assert str(told.value).isprintable()


async def test_a_folder_to_run_in_that_is_not_there_is_a_probe_error(probe_of: Probes) -> None:
    async with probe_of("", cwd=Path("/no/such")) as probe:
        with pytest.raises(ProbeError, match=r"cannot be started: .*No such file"):
            await once(probe)


@pytest.mark.kill
async def test_what_a_worker_started_ends_with_it_also_when_it_dies_itself(
    probe_of: Probes,
) -> None:
    script = """
    ready()
    quiet = dict(stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    child = subprocess.Popen(["sleep", "300"], **quiet)  # holds our stdout
    detached = subprocess.Popen(["sleep", "300"], start_new_session=True, **quiet)
    for run in runs():
        say(id=run["id"], output=[os.getpid(), child.pid, detached.pid])
        if run["input"] == "die":
            os._exit(1)
    """
    for word in ("stay", "die"):
        async with probe_of(script) as probe:
            pids = (await once(probe, word)).output
            assert isinstance(pids, list)
            assert word == "die" or all(alive(int(str(pid))) for pid in pids)
        assert not any(alive(int(str(pid))) for pid in pids)


async def test_a_worker_has_room_for_temporary_files_that_goes_with_it(
    probe_of: Probes, tmp_path: Path
) -> None:
    script = """
    import tempfile
    ready()
    for run in runs():
        if run["input"] == "die":
            os._exit(1)
        scratch = tempfile.mkdtemp()
        say(id=run["id"], output=[scratch, os.getcwd()])
    """
    async with probe_of(script) as probe:
        first = (await once(probe)).output
        assert isinstance(first, list)
        assert there(first[0])
        assert first[1] == str(tmp_path)
        await once(probe, "die")
        await once(probe)
        assert not there(first[0])
    assert left_in(tmp_path / "work") == []


CROWD = """
ready(8)
for run in runs():
    if run["input"] == "flood":
        while len(list(Path().glob("waits-*"))) < int(Path("beside").read_text()):
            time.sleep(0.01)
        os.write(1, b"x" * 1_500_000)
        time.sleep(600)
    elif run["input"] == "slow":
        threading.Timer(0.3, say, kwargs=dict(id=run["id"], output="fine")).start()
    elif run["input"] == "wait":
        Path("waits-" + run["id"]).touch()
"""


async def test_of_several_runs_over_a_limit_nobody_is_blamed_and_from_then_on_each_is_alone(
    probe_of: Probes, tmp_path: Path
) -> None:
    (tmp_path / "beside").write_text("2")
    limits = LimitsSettings(output_mb=1)
    async with probe_of(CROWD, concurrency=3, limits=limits) as probe:
        beside = [asyncio.create_task(once(probe, "wait")) for _ in range(2)]
        await until(lambda: len(list(tmp_path.glob("waits-*"))) == 2)
        told = {(await run).missing for run in (*beside, asyncio.create_task(once(probe, "flood")))}
        assert told == {"output limit 1 MB, of 3 runs together"}
        (tmp_path / "beside").write_text("0")
        fine, flood = await asyncio.gather(once(probe, "slow"), once(probe, "flood"))
        assert (fine.output, fine.missing) == ("fine", None)
        assert (flood.error, flood.missing) == ("output limit 1 MB", None)


async def test_a_worker_over_a_limit_between_runs_is_replaced_and_blames_nobody(
    probe_of: Probes, tmp_path: Path
) -> None:
    script = """
    ready()
    for run in runs():
        say(id=run["id"], output=os.getpid())
        if not Path("grown").exists():
            kept = b"x" * 250_000_000
            Path("grown").touch()
    """
    async with probe_of(script, limits=LimitsSettings(memory_mb=200)) as probe:
        first = (await once(probe)).output
        assert isinstance(first, int)
        await until(lambda: not alive(first))
        assert isinstance((await once(probe)).output, int)


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
    (request.workdir / "notes").write_text("x")
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


async def test_a_worker_serves_both_arms_each_from_its_own_folder(probe_of: Probes) -> None:
    script = """
    ready(2)
    for run in runs():
        say(id=run["id"], output=run["harness"])
    """
    async with probe_of(script) as probe:
        runs = [await probe.run("x", HARNESS, seed=s, deadline_s=60) for s in range(3)]
    assert len({str(seen.output) for seen in runs}) == 3
