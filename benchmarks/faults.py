"""Kill the server at every step that has an effect, and see that nothing is lost or done twice.

    python -m benchmarks.faults --rounds 20 [--mode embedded] [--resume FILE] [--points WORD ...]
    python -m benchmarks.faults --rounds 20 --random
    python -m benchmarks.faults --apply        (the faults of an apply: benchmarks.faults_apply)

Real processes on real disks: for each round and each point a fresh copy of a small world is served
by a process that kills itself there (SIGKILL), the client sends its request until it is answered,
the server is started again (embedded, aegra) or another replica goes on (postgres), and at the end
the ledger, the harness, the audit log and the second answer of every door are compared with what
is promised. With `--random` the whole story, from alert to undo, is killed five times by the clock.

Exit 1 when a promise was not kept; the world of that story is left where the report says. Results
are JSON lines: with `--resume` a run goes on where it was stopped, unless the code changed.
Figures with date and command stand in `docs/reliability.md`.
"""

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import faults_apply
from benchmarks.faults_check import Harness
from benchmarks.faults_modes import MODES, open_mode
from benchmarks.faults_points import LOCAL_RUN, RANDOM, SERVER_RUN, Point, chains, points
from benchmarks.faults_results import Result, append, code_revision, read, table
from benchmarks.faults_server import Broken
from benchmarks.faults_stages import make_stages
from benchmarks.faults_story import NotReached, tell
from benchmarks.faults_world import Mode, Stages

WITHIN_S, A_KILL_S = 240.0, 60.0
"""A story that takes longer than this, and this for each kill, is hung. No measure of speed: the
machine may do ten other things."""
TRIES = 5
"""Of two replicas the one that is to be killed may not be the one that takes up the work."""


def chosen(mode: str, words: Sequence[str], kind: str) -> list[Point]:
    """The points to be told; `words` are parts of their ids."""
    if kind == "random":
        return [RANDOM]
    several = chains(SERVER_RUN if mode == "aegra" else LOCAL_RUN)
    every = several if kind == "chains" else points(mode)
    return [p for p in every if not words or any(word in p.id for word in words)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Teller:
    """Tells stories of one mode, each on a copy of its own of the world in which it begins."""

    mode: Mode
    stages: Stages
    before: Harness
    folder: Path
    revision: str
    copying: threading.Lock = field(default_factory=threading.Lock)
    """A database can only be copied while nobody is connected to it, another copier included."""

    def tell(self, point: Point, number: int) -> Result:
        """One story, or several until its kills came to pass where two replicas share the work."""
        begun, kills = time.monotonic(), 0
        problem, place = None, Path()
        for _ in range(TRIES if self.mode.several else 1):
            place = Path(tempfile.mkdtemp(prefix=f"{point.id}-", dir=self.folder))
            try:
                kills, problem = self._once(point, number, place), None
            except NotReached as missed:
                problem = str(missed)
                continue
            except Broken as broken:
                problem = str(broken)
            break
        return Result(
            revision=self.revision, mode=self.mode.name, round=number, point=point.id, kills=kills,
            seconds=round(time.monotonic() - begun, 2), problem=problem,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            folder=str(place) if problem else None,
        )  # fmt: skip

    def _once(self, point: Point, number: int, place: Path) -> int:
        with self.copying:
            site = self.mode.copy(self.stages.at(point.stage), place / "agent")
        within = WITHIN_S + A_KILL_S * len(point.kills)
        kills = tell(self.mode, site, point, before=self.before, seed=number, within_s=within)
        self.mode.drop(site)
        shutil.rmtree(place)
        return kills


def rounds(
    mode: Mode,
    which: Sequence[Point],
    number: int,
    folder: Path,
    *,
    done: Sequence[Result] = (),
    jobs: int = 1,
) -> Iterator[Result]:
    """Every story of `number` rounds that is not among `done`, `jobs` at a time, as they end."""
    revision = code_revision()
    keys = {result.key for result in done}
    todo = [
        (n, point)
        for n in range(1, number + 1)
        for point in which
        if (revision, mode.name, n, point.id) not in keys
    ]
    if not todo:
        return
    stages, before = make_stages(mode, folder, {point.stage for _, point in todo})
    teller = Teller(mode=mode, stages=stages, before=before, folder=folder, revision=revision)
    with ThreadPoolExecutor(jobs) as pool:
        telling = [pool.submit(teller.tell, point, n) for n, point in todo]
        try:
            yield from (story.result() for story in as_completed(telling))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def told_before(file: Path) -> list[Result]:
    """What was told well by this very code."""
    revision = code_revision()
    return [r for r in read(file) if r.revision == revision and r.problem is None]


def main(words: Sequence[str] | None = None) -> int:
    """Tell the stories, print the table."""
    words = list(sys.argv[1:] if words is None else words)
    if "--apply" in words:
        return faults_apply.main([word for word in words if word != "--apply"])
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--mode", choices=MODES, default="embedded")
    parser.add_argument("--points", nargs="*", default=[], help="parts of the ids of points")
    parser.add_argument("--jobs", type=int, default=1, help="stories at the same time")
    kinds = parser.add_mutually_exclusive_group()
    for name, text in (("random", "kill by the clock instead"), ("chains", "many kills a story")):
        kinds.add_argument(f"--{name}", dest="kind", action="store_const", const=name, help=text)
    parser.add_argument("--apply", action="store_true", help="tell `benchmarks.faults_apply`")
    parser.add_argument("--resume", type=Path, help="results so far; more are added to it")
    parser.add_argument("--folder", type=Path, help="where worlds are made; default: a new one")
    parser.add_argument("--list", action="store_true", help="print the points and stop")
    asked = parser.parse_args(words)
    which = chosen(asked.mode, asked.points, asked.kind or "points")
    if asked.list:
        print("\n".join(point.id for point in which))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="faults-", dir=asked.folder))
    file = asked.resume or folder.with_suffix(".jsonl")
    results = [r for r in told_before(file) if r.mode == asked.mode]
    with open_mode(asked.mode, folder) as mode:
        for result in rounds(
            mode, which, asked.rounds, folder, done=tuple(results), jobs=asked.jobs
        ):
            append(file, result)
            results.append(result)
            print(_line(result), file=sys.stderr, flush=True)
    print("\n".join(table(results)))
    print(f"code {code_revision()}, results in {file}")
    if any(result.problem for result in results):
        return 1
    shutil.rmtree(folder)
    return 0


def _line(result: Result) -> str:
    how = "ok" if result.problem is None else f"FAILED {result.problem} (see {result.folder})"
    return f"{result.mode} {result.round} {result.point}: {result.seconds} s: {how}"


if __name__ == "__main__":
    sys.exit(main())
