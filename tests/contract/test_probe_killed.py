"""The gate's process is killed: its agent dies with it, the next start clears the rest."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from connectors.probe.owner import take
from tests.probe_worlds import KINDS, Kind, agent_probe, alive, left_in, once, until

pytestmark = [
    pytest.mark.kill,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and prctl"),
]

AGENT = """
def agent(run):
    if run["input"] != "hang":
        return dict(output="fine")
    quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stray = subprocess.Popen(["sleep", "300"], start_new_session=True, **quiet)
    (Path(run["workdir"]) / "notes").write_text("x")
    at = Path(os.environ["ROOT"]) / "pids"
    at.with_suffix(".new").write_text(f"{os.getpid()} {stray.pid}")
    at.with_suffix(".new").rename(at)
    while True:
        time.sleep(600)
"""
GATE = """
import asyncio, sys
from pathlib import Path
from tests.contract.test_probe_killed import AGENT
from tests.probe_worlds import agent_probe, once

async def main(kind, root):
    async with agent_probe(kind, root, AGENT, env={"ROOT": str(root)}) as probe:
        await once(probe, "hang")

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", KINDS)
async def test_after_kill_9_of_the_gates_process_nothing_survives_the_next_start(
    kind: Kind, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    gate = await asyncio.create_subprocess_exec(
        sys.executable, "-c", GATE, kind, str(tmp_path), cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        await until((tmp_path / "pids").exists)
        agent, stray = (int(pid) for pid in (tmp_path / "pids").read_text().split())
    finally:
        gate.send_signal(signal.SIGKILL)
        await gate.wait()
    await until(lambda: not alive(agent))
    assert alive(stray)
    assert any(name.endswith("tmp/notes") for name in left_in(work))
    async with agent_probe(kind, tmp_path, AGENT) as probe:
        assert not alive(stray)
        assert (await once(probe)).output == "fine"
    assert left_in(work) == []


async def test_a_start_leaves_alone_what_a_living_probe_holds(tmp_path: Path) -> None:
    agent = """
    def agent(run):
        root = Path(os.environ["ROOT"])
        (root / "here").touch()
        while not (root / "go").exists():
            time.sleep(0.01)
        return dict(output=text_of(run, "instructions/main.md"))
    """
    env = {"ROOT": str(tmp_path)}
    async with agent_probe("command", tmp_path, agent, env=env) as first:
        run = asyncio.create_task(once(first))
        await until((tmp_path / "here").exists)
        async with agent_probe("command", tmp_path, agent, env=env) as second:
            (tmp_path / "go").touch()
            assert (await once(second)).output == "Be brief.\r\n"
        assert (await run).output == "Be brief.\r\n"


def test_only_folders_of_our_own_making_are_cleared(tmp_path: Path) -> None:
    for name in ("probe-", "probe-mine", "harness", f"probe-{'0' * 15}"):
        (tmp_path / name).mkdir()
    (tmp_path / f"probe-{'0' * 16}").mkdir()  # its maker died before it took the lock
    (tmp_path / "out").mkdir()
    (tmp_path / f"probe-{'1' * 16}").symlink_to(tmp_path / "out")
    (tmp_path / "out" / "kept").touch()
    owner = take(tmp_path)
    owner.release()
    assert left_in(tmp_path) == [
        "harness", "out", "out/kept", "probe-", f"probe-{'0' * 15}", "probe-mine"
    ]  # fmt: skip
