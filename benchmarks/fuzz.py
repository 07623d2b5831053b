"""Broken inputs for every reader: none may raise, hang, grow without bound or break a promise.

    python -m benchmarks.fuzz [TARGET ...] [--count 100000] [--seconds S] [--seed N] [--data DIR]

A target is a format of files, a page of a vendor's rows, or a kind of whole file; all by default.
Inputs are made of runs of the example agent in every format (and of the small files under `--data`)
by changing bytes and by changing structure. The same seed makes the same inputs; an input that
fails is written down and named, and `--only N` makes the N-th one again. Exit code 1: something
failed.
"""

import argparse
import asyncio
import faulthandler
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Final

import orjson

from benchmarks.fuzz_check import Files, check_piece, check_rows
from benchmarks.fuzz_mutate import Mutator, words_of
from benchmarks.fuzz_seeds import PACK, containers, documents, given_documents, small_traces
from benchmarks.read import read_all, record_own
from connectors.traces.formats import formats

COUNT: Final = 100_000
HANG_S: Final = 10.0
MEMORY_BYTES: Final = 4 << 30
WHOLE_FILE_EVERY: Final = 20
"""Every so many inputs of a format go the whole way: a file on disk, analysed, written as JSON."""
MAX_FAILURES: Final = 20  # different ones, of a target
ROWS: Final = ("langfuse-rows", "langsmith-rows", "phoenix-rows")
_READERS = Path(__file__).resolve().parents[1] / "connectors" / "traces"


class HungError(TimeoutError):
    """An input took longer than any input may."""


@dataclass(slots=True)
class Outcome:
    """What the inputs of one target did."""

    target: str
    inputs: int = 0
    spans: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    slowest: int = -1
    failures: dict[str, tuple[int, Path]] = field(default_factory=dict)
    """What failed, by error and place: the number of the first such input, and where it is kept."""
    failed: int = 0


class Corpus:
    """Seeds of all targets, and the words that readers know."""

    def __init__(self, scratch: Path, data: Path | None = None) -> None:
        own = record_own(scratch, 12)
        traces = small_traces(asyncio.run(read_all([own])))
        known = documents(own, traces)
        self.seeds = {name: [orjson.dumps(one) for one in some] for name, some in known.items()}
        self.seeds |= containers(known, traces)
        if data is not None:
            copies = scratch / "given"
            copies.mkdir()
            for name, some in given_documents(data, copies).items():
                self.seeds[name] += some
        self.words = words_of(_READERS)

    def mutator(self, name: str) -> Mutator:
        """What makes inputs of the seeds of one format."""
        return Mutator(self.seeds[name], self.words)

    def targets(self) -> tuple[str, ...]:
        """Names of all targets."""
        return (*(form.name for form in formats()), *ROWS, *PACK)


def made(corpus: Corpus, target: str, seed: int, number: int) -> bytes:
    """The input of this number; every fourth is of changed bytes, the others of changed shape."""
    rng = Random(f"{seed}:{target}:{number}")  # noqa: S311  (inputs, no secrets)
    if number % 4 == 0:
        return corpus.mutator(target).of_bytes(rng)
    if target not in PACK:
        return corpus.mutator(target).of_structure(rng)
    names = [form.name for form in formats()]
    some = rng.choices(names, k=rng.randint(1, 3)) if target == "lines" else [rng.choice(names)] * 2
    return PACK[target]([corpus.mutator(name).of_structure(rng) for name in some])


def run(
    corpus: Corpus,
    target: str,
    files: Files,
    *,
    numbers: Sequence[int],
    seed: int = 0,
    seconds: float = float("inf"),
    keep: Path,
) -> Outcome:
    """Ask a target's inputs of these numbers, until the time is over."""
    outcome = Outcome(target)
    begun = time.monotonic()
    for number in numbers:
        if time.monotonic() - begun > seconds or len(outcome.failures) >= MAX_FAILURES:
            break
        data = made(corpus, target, seed, number)
        started = time.perf_counter()
        try:
            with bounded(HANG_S):
                outcome.spans += _ask(target, data, files, number, seed)
        except Exception as error:  # noqa: BLE001  (whatever is raised is what is looked for)
            outcome.failed += 1
            what = _what(error)
            if what not in outcome.failures:
                path = keep / f"{target}-{seed}-{number}"
                path.write_bytes(data)
                outcome.failures[what] = (number, path)
        took = time.perf_counter() - started
        outcome.inputs += 1
        if took > outcome.slowest_s:
            outcome.slowest_s, outcome.slowest = took, number
    outcome.seconds = time.monotonic() - begun
    return outcome


def _ask(target: str, data: bytes, files: Files, number: int, seed: int) -> int:
    rng = Random(f"{seed}:{number}")  # noqa: S311  (an order, no secret)
    if target in PACK:
        return files.check(f"input.{target}", data, whole=number % 10 == 0)
    if target in ROWS:
        return check_rows(target, data, rng)
    if number % WHOLE_FILE_EVERY == 0:
        files.check("input.json", data, whole=True)
    form = next(form for form in formats() if form.name == target)
    return check_piece(form, data, rng)


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Break off what takes longer."""

    def hung(_signal: int, _frame: FrameType | None) -> None:
        raise HungError(f"took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _what(error: BaseException) -> str:
    """The error in one line, and where of our own it comes from."""
    root = str(_READERS.parents[1])
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(root)]
    frames = [f for f in frames if "site-packages" not in f.filename]
    ours = [f for f in frames if "/benchmarks/" not in f.filename] or frames
    where = f" at {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    said = " ".join(str(error).split())[:100]
    return f"{type(error).__name__}: {said}{where}"


def main() -> int:
    """Run the targets one after the other, and say what failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the input of this number alone")
    parser.add_argument("--data", type=Path, help="a folder with further documents to begin with")
    given = parser.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    keep = Path(tempfile.gettempdir()) / "tracemend-fuzz"
    keep.mkdir(exist_ok=True)
    numbers = range(given.count) if given.only is None else [given.only]
    bad = False
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Corpus(Path(scratch), given.data)
        unknown = set(given.targets) - set(corpus.targets())
        if unknown:
            parser.error(
                f"unknown {', '.join(sorted(unknown))}; known: {', '.join(corpus.targets())}"
            )
        files = Files(Path(scratch))
        for target in given.targets or corpus.targets():
            outcome = run(
                corpus,
                target,
                files,
                numbers=numbers,
                seed=given.seed,
                seconds=given.seconds,
                keep=keep,
            )
            bad |= bool(outcome.failures)
            _print(outcome)
        files.close()
    return int(bad)


def _print(outcome: Outcome) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    each = outcome.seconds / max(1, outcome.inputs) * 1000
    print(
        f"{outcome.target:22} {outcome.inputs:7} inputs {outcome.spans:8} spans {each:6.2f} ms each"
        f", slowest {outcome.slowest_s * 1000:6.0f} ms (#{outcome.slowest}), peak {peak} MB,"
        f" failed {outcome.failed}",
        flush=True,
    )
    for what, (number, path) in outcome.failures.items():
        print(f"  {what} (#{number}: {path})", flush=True)


if __name__ == "__main__":
    sys.exit(main())
