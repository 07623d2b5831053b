"""Broken inputs for every reader, few of each kind; `python -m benchmarks.fuzz` makes many."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random

import pytest

from benchmarks.fuzz import ROWS, Corpus, bounded, made, run
from benchmarks.fuzz_check import BrokenPromiseError, Files, check_piece, check_trace
from benchmarks.fuzz_seeds import NOTES_ONLY, PACK
from connectors.traces.formats import formats, named
from connectors.traces.raw import RawSpan
from tests.trace_worlds import root, tool, trace_of

SEED = 4
TARGETS = (*(form.name for form in formats()), *ROWS, *PACK)
COUNTS = {**dict.fromkeys(TARGETS, 70), **dict.fromkeys(PACK, 20)}


def _rng(number: int) -> Random:
    return Random(number)  # noqa: S311  (an order, no secret)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("seeds"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    reader = Files(tmp_path_factory.mktemp("inputs"))
    yield reader
    reader.close()


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_breaks_a_promise_of_the_readers(
    target: str, corpus: Corpus, files: Files, tmp_path: Path
) -> None:
    numbers = range(COUNTS[target])
    outcome = run(corpus, target, files, numbers=numbers, seed=SEED, keep=tmp_path)
    assert list(outcome.failures) == []
    assert outcome.inputs == COUNTS[target]
    if target not in NOTES_ONLY:
        assert outcome.spans > COUNTS[target] // 4, "most inputs are no longer read at all"


@pytest.mark.parametrize("target", TARGETS)
def test_every_seed_is_read_as_what_it_is(target: str, corpus: Corpus, files: Files) -> None:
    for number, data in enumerate(corpus.seeds[target]):
        again = made(corpus, target, SEED, number)
        assert again == made(corpus, target, SEED, number), "an input depends on its number only"
        if target in PACK:
            assert files.check(f"seed.{target}", data, whole=True) > 0
        elif target not in (*ROWS, *NOTES_ONLY):
            assert check_piece(named(target), data, _rng(number)) > 0


def test_what_the_fuzzer_asks_would_notice() -> None:
    trace = trace_of(root(), tool(1, "find", {"a": 1}, "no"))
    check_trace(trace)
    first, second = trace.spans
    wrong = {
        "times are in UTC": (replace(first, started_at=datetime(2026, 1, 1)), second),  # noqa: DTZ001
        "parents before children": (second, first),
        "a span comes once": (first, replace(second, id=first.id)),
        "tokens are counts": (first, replace(second, input_tokens=-1)),
        "a cost is a finite amount": (first, replace(second, cost_usd=float("nan"))),
        "an end is not before": (first, replace(second, ended_at=datetime.min.replace(tzinfo=UTC))),
    }
    for what, spans in wrong.items():
        with pytest.raises(BrokenPromiseError, match="root comes first|" + what):
            check_trace(replace(trace, spans=spans))


def test_a_reader_that_raises_is_a_failure_with_its_input_kept(
    corpus: Corpus, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(raw: RawSpan, _texts: object) -> None:
        raise KeyError(raw.name)

    monkeypatch.setattr("connectors.traces.tree.to_span", broken)
    outcome = run(corpus, "atif", files, numbers=range(1, 4), seed=SEED, keep=tmp_path)
    assert outcome.failed == 3
    (what, (number, path)) = next(iter(outcome.failures.items()))
    assert what.startswith("KeyError: ")
    assert path.read_bytes() == made(corpus, "atif", SEED, number)


def test_an_input_that_never_ends_is_broken_off() -> None:
    with pytest.raises(TimeoutError, match=r"longer than 0\.05 s"), bounded(0.05):
        sum(1 for _ in count())
