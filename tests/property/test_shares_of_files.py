"""Files read in shares give what one reader gives: every trace once, and the same report."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.fuzz import Corpus, made
from benchmarks.fuzz_seeds import PACK
from connectors.traces.files import FilesSource
from connectors.traces.formats import formats
from connectors.traces.shares import CannotShare, Share, joined
from contracts.errors import UsageError
from contracts.traces import ReadReport, Trace, TraceId, TraceQuery
from tests.trace_worlds import drain, line, root, span, tool, trace_id

TARGETS = (*(form.name for form in formats()), *PACK)
FOLDERS = 8
FILES = 4

Told = tuple[dict[TraceId, list[Trace]], ReadReport]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("seeds"))


def _told(traces: list[Trace], report: ReadReport) -> Told:
    by_id: dict[TraceId, list[Trace]] = {}
    for trace in traces:
        by_id.setdefault(trace.id, []).append(trace)  # several: a run in two formats at once
    return by_id, report


def alone(source: FilesSource) -> Told:
    return _told(*asyncio.run(drain(source, TraceQuery())))


def shared(source: FilesSource, of: int) -> Told:
    traces: list[Trace] = []
    accounts = []
    for index in range(of):
        part = source.share(index, of)
        traces += asyncio.run(drain(part, TraceQuery()))[0]
        accounts.append(part.account)
    return _told(traces, joined(accounts))


@pytest.mark.parametrize("target", TARGETS)
def test_shares_of_damaged_files_tell_what_one_reader_tells(
    target: str, corpus: Corpus, tmp_path: Path
) -> None:
    read = 0
    for number in range(FOLDERS):
        folder = tmp_path / str(number)
        folder.mkdir()
        for at in range(FILES):
            data = made(corpus, target, 11, number * FILES + at)
            (folder / f"{at}.{target}").write_bytes(data)
        source = FilesSource([folder], batch_traces=3)
        try:
            expected = alone(source)
        except UsageError:
            continue
        for of in (1, 2, 5):
            try:
                assert shared(source, of) == expected
                read += 1
            except CannotShare:
                assert of > 1
    assert read > FOLDERS, "most inputs are no longer shared at all"


def interleaved(folder: Path) -> Path:
    """Traces whose spans lie all over one file, with torn lines, nameless spans and a torn end."""
    path = folder / "mixed.jsonl"
    spans = [root(trace=n) for n in range(30)]
    spans += [tool(s, "pay", {"n": s}, "x" * 90, trace=n) for s in (1, 2, 3) for n in range(30)]
    lines = [line(spans[at::40]) for at in range(40)]
    lines[7] = lines[7][:-40] + b"\n"
    lines[21] = b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "no ids"}]}]}]}\n'
    lines[30] = b"no json at all\n"
    path.write_bytes(b"".join(lines) + b'{"resourceSpans": [')
    return path


@pytest.mark.parametrize("of", [2, 3, 7])
@pytest.mark.parametrize("waiting", [1 << 20, 2_000])
def test_interleaved_traces_are_whole_in_their_share_and_problems_in_order(
    of: int, waiting: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.traces.files.MIN_WAITING_BYTES", 500)
    source = FilesSource([interleaved(tmp_path)], max_waiting_bytes=waiting)
    expected = alone(source)
    assert len(expected[1].skipped) == 4
    assert expected[1].status == "partial"
    assert shared(source, of) == expected


def test_more_problems_than_a_report_lists_are_counted_alike(tmp_path: Path) -> None:
    good = [line([root(trace=n)]) for n in range(20)]
    (tmp_path / "t.jsonl").write_bytes(b"{torn\n".join([b"", *good] * 15))
    for number in range(30):
        (tmp_path / f"note{number}.txt").write_text("no trace")
    source = FilesSource([tmp_path])
    expected = alone(source)
    assert expected[1].skipped[-1].why.startswith("and ")
    assert shared(source, 3) == expected


def test_an_id_that_the_index_cannot_see_is_left_to_one_reader(tmp_path: Path) -> None:
    odd = line([root(trace=n) for n in range(8)])
    odd = odd.replace(trace_id(3).encode(), b"\\u0030" + trace_id(3)[1:].encode())
    path = tmp_path / "odd.jsonl"
    path.write_bytes(odd + line([span(1, "LLM", "m", trace=n) for n in range(8)]))
    source = FilesSource([path])
    assert len(alone(source)[0]) == 8
    with pytest.raises(CannotShare, match="spelt oddly"):
        shared(source, 2)


def test_a_share_is_one_of_its_number() -> None:
    with pytest.raises(ValueError, match="no share"):
        Share(index=2, of=2)
