"""The same runs, written in every format and served by every backend, give the same findings."""

import asyncio
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
import zstandard
from pyarrow import parquet
from pydantic import SecretStr

from connectors.traces.files import FilesSource
from connectors.traces.langfuse.source import LangfuseSource
from connectors.traces.langsmith.source import LangSmithSource
from connectors.traces.phoenix import PhoenixSource
from contracts.json_types import Json
from contracts.protocols import TraceSource
from contracts.traces import Score, Trace, TraceQuery
from examples.refund_agent.back_office import WEATHERS
from examples.refund_agent.record import record
from examples.refund_agent.requests import generate
from nodes.insights.analyze import Analysis, analyze
from tests.emit import atif, chat, inspect, langfuse, langsmith, openinference
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.langsmith import FakeLangSmith
from tests.fakes.phoenix import FakePhoenix, push
from tests.fakes.serving import serve
from tests.trace_worlds import REPO, read_all

RUNS = 90


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the example agent as OpenTelemetry lines."""
    out = tmp_path_factory.mktemp("recorded") / "own.otlp.jsonl"
    harness = REPO / "examples" / "refund_agent" / "repo"
    record(generate(RUNS, 7), harness, out, weather=WEATHERS["stormy"], seed=7)
    return out


@pytest.fixture(scope="module")
def corpus(recorded: Path) -> list[Trace]:
    traces, _ = read_all(recorded)
    opinion = Score(name="helpful", value=1.0, source="annotation")
    return [
        replace(trace, scores=(replace(opinion, at=trace.started_at),)) if n % 3 == 0 else trace
        for n, trace in enumerate(traces)
    ]


@pytest.fixture(scope="module")
def expected(recorded: Path) -> list[tuple[object, ...]]:
    said = summary(asyncio.run(analyze(FilesSource([recorded]), TraceQuery(), project="p")))
    assert len(said) >= 4
    return said


def summary(found: Analysis) -> list[tuple[object, ...]]:
    """What must not depend on the format."""
    return sorted(
        (f.signature, f.units, f.units_total, f.severity, f.diagnosis.cause, f.remedy)
        for f in found.findings
    )


Writer = Callable[[Sequence[Trace], Path], None]


def _lines(documents: Iterable[object]) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def _table(rows: Sequence[dict[str, object]], path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist(list(rows)), path)


def langfuse_exports(traces: Sequence[Trace], folder: Path) -> None:
    for trace in traces:
        (folder / f"{trace.id}.json").write_text(json.dumps(langfuse.export(trace), indent=1))


def langfuse_pages(traces: Sequence[Trace], folder: Path) -> None:
    rows = [row for trace in traces for row in langfuse.observation_rows(trace)]
    pages: list[Json] = [{"data": rows[n : n + 50], "meta": {}} for n in range(0, len(rows), 50)]
    (folder / "pages.jsonl.zst").write_bytes(zstandard.compress(_lines(pages)))


def langfuse_blob_lines(traces: Sequence[Trace], folder: Path) -> None:
    for name, write in (("observations_v2", langfuse.blob_rows), ("scores", langfuse.blob_scores)):
        (folder / name).mkdir()
        rows = [row for trace in traces for row in write(trace)]
        packed = gzip.compress(langfuse.as_lines(rows).encode())
        (folder / name / "2026.jsonl.gz").write_bytes(packed)


def langfuse_blob_csv(traces: Sequence[Trace], folder: Path) -> None:
    rows = [row for trace in traces for row in langfuse.blob_rows(trace)]
    (folder / "observations.csv").write_text(langfuse.as_csv(rows), newline="")


def langfuse_blob_parquet(traces: Sequence[Trace], folder: Path) -> None:
    rows = [row for trace in traces for row in langfuse.blob_rows(trace)]
    flat: list[dict[str, object]] = [
        {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()}
        for row in rows
    ]
    _table(flat, folder / "observations.parquet")


def langsmith_bodies(traces: Sequence[Trace], folder: Path) -> None:
    (folder / "bodies.jsonl").write_bytes(_lines(langsmith.batch_bodies(traces)))


def langsmith_halves_apart(traces: Sequence[Trace], folder: Path) -> None:
    bodies = list(langsmith.batch_bodies(traces))
    (folder / "1-patch.jsonl").write_bytes(_lines({"patch": b["patch"]} for b in bodies))
    (folder / "2-post.jsonl").write_bytes(_lines({"post": b["post"]} for b in bodies))


def langsmith_items(traces: Sequence[Trace], folder: Path) -> None:
    (folder / "runs.jsonl").write_bytes(_lines(langsmith.v2_items(traces)))


def langsmith_v1_page(traces: Sequence[Trace], folder: Path) -> None:
    runs: list[Json] = [langsmith.v1_run(item) for item in langsmith.v2_items(traces)]
    page = {"runs": runs, "cursors": {"next": None}}
    (folder / "page.json").write_text(json.dumps(page, indent=1))


def langsmith_bulk(traces: Sequence[Trace], folder: Path) -> None:
    _table(langsmith.bulk_rows(traces), folder / "runs.parquet")


def openinference_trees(traces: Sequence[Trace], folder: Path) -> None:
    (folder / "trees.jsonl").write_bytes(openinference.lines(traces))


def atif_runs(traces: Sequence[Trace], folder: Path) -> None:
    (folder / "runs.jsonl").write_bytes(atif.lines(traces))


def chat_lines(traces: Sequence[Trace], folder: Path) -> None:
    (folder / "chats.jsonl").write_bytes(chat.lines(traces))


def inspect_json(traces: Sequence[Trace], folder: Path) -> None:
    (folder / "log.json").write_text(json.dumps(inspect.document(traces), indent=1))


def inspect_eval(traces: Sequence[Trace], folder: Path) -> None:
    (folder / "log.eval").write_bytes(inspect.archive(traces))


WRITERS: list[tuple[Writer, str]] = [
    (langfuse_exports, "langfuse-export"),
    (langfuse_pages, "langfuse-observations"),
    (langfuse_blob_lines, "langfuse-observations, langfuse-scores"),
    (langfuse_blob_csv, "langfuse-observations"),
    (langfuse_blob_parquet, "langfuse-observations"),
    (langsmith_bodies, "langsmith-batch"),
    (langsmith_halves_apart, "langsmith-batch"),
    (langsmith_items, "langsmith-runs"),
    (langsmith_v1_page, "langsmith-runs"),
    (langsmith_bulk, "langsmith-runs"),
    (openinference_trees, "openinference-json"),
    (atif_runs, "atif"),
    (chat_lines, "chat-log"),
    (inspect_json, "inspect"),
    (inspect_eval, "inspect"),
]


@pytest.mark.parametrize(("write", "name"), WRITERS, ids=[w.__name__ for w, _ in WRITERS])
def test_files_of_every_format_give_the_same_findings(
    write: Writer,
    name: str,
    corpus: list[Trace],
    expected: list[tuple[object, ...]],
    tmp_path: Path,
) -> None:
    write(corpus, tmp_path)
    found = asyncio.run(analyze(FilesSource([tmp_path]), TraceQuery(), project="p"))
    assert found.read.format == name
    assert (found.read.traces, found.read.status, found.read.skipped) == (RUNS, "complete", ())
    assert summary(found) == expected


@contextmanager
def langfuse_server(traces: Sequence[Trace], generation: str) -> Iterator[TraceSource]:
    fake = FakeLangfuse(traces, generation="v1" if generation == "v1" else "v2")
    with serve(fake.app) as base_url:
        yield LangfuseSource(
            base_url=base_url,
            public_key=SecretStr(PUBLIC),
            secret_key=SecretStr(SECRET),
            deprecated_a_minute=100_000,
        )


@contextmanager
def phoenix_server(traces: Sequence[Trace], recorded: Path) -> Iterator[TraceSource]:
    del traces
    fake = FakePhoenix()
    with serve(fake.app()) as base_url:
        push(base_url, recorded.read_bytes().splitlines(), project="desk")
        yield PhoenixSource(base_url=base_url, project="desk")


@contextmanager
def langsmith_server(traces: Sequence[Trace], generation: str) -> Iterator[TraceSource]:
    fake = FakeLangSmith(runs=langsmith.v2_items(traces), v2=generation == "v2")
    with serve(fake.app()) as base_url:
        yield LangSmithSource(
            api_url=base_url, api_key=SecretStr(fake.key), project=fake.project, limits={}
        )


BACKENDS = ["langfuse-v2", "langfuse-v1", "langsmith-v2", "langsmith-v1", "phoenix-rest"]


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_gives_the_same_findings(
    name: str, corpus: list[Trace], recorded: Path, expected: list[tuple[object, ...]]
) -> None:
    kind, _, generation = name.partition("-")
    start = min(trace.started_at for trace in corpus) - timedelta(seconds=1)  # kept in ms there
    end = max(trace.started_at for trace in corpus) + timedelta(seconds=1)
    with ExitStack() as stack:
        source = stack.enter_context(
            langfuse_server(corpus, generation)
            if kind == "langfuse"
            else langsmith_server(corpus, generation)
            if kind == "langsmith"
            else phoenix_server(corpus, recorded)
        )
        query = TraceQuery(start=start, end=end)
        found = asyncio.run(analyze(source, query, project="p"))
    assert found.read.format == name
    assert (found.read.traces, found.read.status, found.read.skipped) == (RUNS, "complete", ())
    assert found.read.requests > 0
    assert summary(found) == expected


def test_our_own_runs_are_left_out_in_every_format(corpus: list[Trace], tmp_path: Path) -> None:
    """Of formats that can say so: the environment is recorded with the run."""
    own = [replace(trace, environment="tracemend-gate", own=True) for trace in corpus[:5]]
    for write, name in WRITERS:
        if name in ("chat-log", "atif", "inspect", "openinference-json"):
            continue
        folder = tmp_path / write.__name__
        folder.mkdir()
        write(own, folder)
        _, report = read_all(folder)
        assert (report.traces, report.excluded_own) == (0, 5), write.__name__
