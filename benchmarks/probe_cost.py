"""What isolation costs a run of 100 ms: its folders, its process, a network of its own.

    python -m benchmarks.probe_cost [--files N] [--kb N] [--runs N]

Prints the median and the least, in milliseconds; of a run, what goes beyond the 100 that its agent
takes. The figures with date stand in `docs/probe.md`.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from connectors.probe.command import CommandProbe
from connectors.probe.folders import lay_out
from connectors.probe.local import LocalProbe
from connectors.probe.network import network_off_refused
from connectors.probe.worker import WorkerProbe
from contracts.harness import HarnessFile, HarnessSnapshot

WORKER = """
import json, sys, time
print('{"op": "ready", "v": 1}', flush=True)
for line in sys.stdin:
    run = json.loads(line)
    if run["op"] == "stop":
        break
    time.sleep(0.1)
    print(json.dumps({"id": run["id"], "output": 1}), flush=True)
"""
A_RUN_MS = 100.0


def harness_of(files: int, size_bytes: int) -> HarnessSnapshot:
    """As many files of that size, ten a folder."""
    rng = random.Random(6)  # noqa: S311  bytes of no meaning
    return HarnessSnapshot(
        files={
            f"skills/s{n // 10}/{n}.md": HarnessFile(data=rng.randbytes(size_bytes))
            for n in range(files)
        }
    )


def folder_ms(root: Path, harness: HarnessSnapshot, runs: int) -> list[float]:
    """Lay out, compare, remove."""

    def once() -> None:
        folder = lay_out(root, harness)
        assert folder.intact()
        folder.remove()

    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        once()
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def run_ms(probe: LocalProbe, harness: HarnessSnapshot, runs: int) -> list[float]:
    """Runs from end to end beyond what the agent takes, after a first that is not counted."""
    taken = []
    async with probe:
        for n in range(runs + 1):
            began = time.perf_counter()
            seen = await probe.run("hi", harness, seed=n, deadline_s=60)
            taken.append((time.perf_counter() - began) * 1000)
            if seen.output != 1:
                sys.exit(f"the agent of the benchmark failed: {seen.error or seen.missing}")
    return [ms - A_RUN_MS for ms in taken[1:]]


def probe_of(root: Path, kind: type[LocalProbe], *command: str, network: bool = True) -> LocalProbe:
    """A probe of this command."""
    return kind(
        command=command, cwd=root, work=root / "work", concurrency=1, timeout_s=60, env={},
        pass_env=[], read_spans=lambda _: None, network=network,
    )  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probe_cost")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--kb", type=int, default=10)
    parser.add_argument("--runs", type=int, default=30)
    given = parser.parse_args()
    harness = harness_of(given.files, given.kb * 1000)
    shell = ("sh", "-c", "sleep 0.1; printf '{\"output\": 1}'")
    with tempfile.TemporaryDirectory(prefix="probe-cost-") as folder:
        root = Path(folder)
        (root / "worker.py").write_text(WORKER)
        worker = probe_of(root, WorkerProbe, sys.executable, "worker.py")
        command = probe_of(root, CommandProbe, *shell)
        off = probe_of(root, CommandProbe, *shell, network=False)
        show("folders of a run", folder_ms(root, harness, given.runs))
        show("run of a worker", asyncio.run(run_ms(worker, harness, given.runs)))
        show("run of a command", asyncio.run(run_ms(command, harness, given.runs)))
        if network_off_refused() is None:
            show("the same, network off", asyncio.run(run_ms(off, harness, given.runs)))


def show(what: str, taken_ms: Sequence[float]) -> None:
    """One line."""
    print(f"{what:24}{statistics.median(taken_ms):7.1f} ms, at least {min(taken_ms):.1f}")


if __name__ == "__main__":
    main()
