"""`tracemend analyze`: what goes together, what each mistake is told, and what is read."""

import asyncio
import gzip
import io
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from configs.settings import TraceSettings
from connectors.traces.opening import open_trace_source
from contracts.errors import ConfigError, SourceError
from contracts.traces import ReadReport, TraceBatch, TraceQuery
from graph.cli.listing import analysis_document, analysis_lines
from graph.cli.main import run
from nodes.insights.analyze import Analysis, analyze
from tests.trace_worlds import MemorySource, line, root, tool, trace_of

VENDORS = ("LANGFUSE_", "LANGSMITH_", "LANGCHAIN_", "PHOENIX_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the command ended."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line that a mistake is told in."""
        (line,) = self.err.splitlines()
        assert line.startswith("tracemend: ")
        assert self.out == ""
        return line.removeprefix("tracemend: ")

    @property
    def read(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)["read"]
        return document


Analyze = Callable[..., Ended]


@pytest.fixture
def analyzing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Analyze:
    """The command in this process, in an empty folder and without anybody's keys."""
    import os

    for name in os.environ:
        if name.startswith(VENDORS):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def command(*words: str, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["tracemend", "analyze", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            run()
        said = capsys.readouterr()
        return Ended(code=int(ended.value.code or 0), out=said.out, err=said.err)

    return command


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """One trace with a failing tool, as OpenTelemetry lines."""
    error = ("KeyError", "no row 17")
    file = tmp_path / "run.jsonl"
    file.write_bytes(line([root("do it"), tool(1, "pay", {}, error=error)]))
    return file


MISTAKES: list[tuple[tuple[str, ...], str]] = [
    ((), "analyze: give either --traces PATH or --source NAME, not both"),
    (("--traces", "run.jsonl", "--source", "langfuse"), "give either --traces PATH or --source"),
    (("--source", "lunary"), "--source 'lunary': not known; one of langfuse, langsmith, phoenix"),
    (("--source", "langfuse", "--format", "otlp-json"), "--format and --baseline go with --traces"),
    (("--source", "phoenix", "--baseline", "x"), "--format and --baseline go with --traces"),
    (("--traces", "run.jsonl", "--compare", "7d"), "--compare: needs --since"),
    (("--traces", "run.jsonl", "--since", "1d", "--compare", "7d", "--baseline", "x"),
     "--compare and --baseline: give one of them"),
    (("--traces", "run.jsonl", "--since", "soon"), "--since 'soon': not a length of time"),
    (("--source", "phoenix", "--within", "fast"), "--within 'fast': not a length of time"),
    (("--traces", "run.jsonl", "--since", "1d", "--compare", "x"), "--compare 'x': not a length"),
    (("--traces", "run.jsonl", "--since", "999999w"), "--since '999999w': reaches back before"),
    (("--traces", "run.jsonl", "--since", "9" * 20 + "w"), "w': not a length of time"),
    (("--source", "phoenix", "--within", "0s"), "--within '0s': not a length of time"),
    (("--traces", "nowhere"), "nowhere: no such file or folder"),
    (("--traces", "run.jsonl", "--format", "xml"), "'xml'"),
    (("--traces", "run.jsonl", "--format", "atif"), "run.jsonl: "),
    (("--source", "langfuse"), "--source (langfuse): set LANGFUSE_PUBLIC_KEY in the environment"),
    (("--source", "langsmith", "--tracing-project", "p"),
     "--source (langsmith): set LANGSMITH_API_KEY in the environment"),
    (("--source", "langsmith"), "the tracing project's name is missing; give --tracing-project"),
    (("--source", "phoenix", "--base-url", "nowhere"), "phoenix: the base URL is not an http(s)"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "says"), MISTAKES, ids=[" ".join(w)[:40] for w, _ in MISTAKES])
def test_a_mistake_is_one_line_and_exit_2(
    words: tuple[str, ...], says: str, analyzing: Analyze, lines: Path
) -> None:
    assert lines.name == "run.jsonl"
    done = analyzing(*words)
    assert done.code == 2
    assert says in done.line


def test_a_format_that_is_not_known_is_told_the_known_ones(analyzing: Analyze, lines: Path) -> None:
    said = analyzing("--traces", str(lines), "--format", "xml").line
    assert "otlp-json" in said
    assert "langfuse-export" in said


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_standard_input_is_read_like_a_file(
    pack: Callable[[bytes], bytes], analyzing: Analyze, lines: Path
) -> None:
    done = analyzing("--traces", "-", "--json", stdin=pack(lines.read_bytes()))
    assert done.code == 0, done.err
    file = analyzing("--traces", str(lines), "--json").read
    assert (done.read["traces"], done.read["spans"]) == (1, 2)
    for same in ("traces", "spans", "format", "status"):
        assert done.read[same] == file[same]


def test_empty_standard_input_is_refused(analyzing: Analyze) -> None:
    done = analyzing("--traces", "-")
    assert done.code == 2
    assert "empty" in done.line


def test_since_cuts_files_by_time(analyzing: Analyze, lines: Path) -> None:
    recorded = json.loads(lines.read_text("utf-8"))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    start = datetime.fromtimestamp(int(recorded[0]["startTimeUnixNano"]) / 1e9, UTC)
    hours = int((datetime.now(UTC) - start) / timedelta(hours=1))
    counts = {
        since: analyzing("--traces", str(lines), "--since", f"{since}h", "--json").read["traces"]
        for since in (max(0, hours - 1), hours + 1)
    }
    assert list(counts.values()) == [0, 1]


ENTRIES: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({"kind": "langfuse"}, {}, "traces.3 (langfuse): set LANGFUSE_PUBLIC_KEY in"),
    ({"kind": "langfuse"}, {"LANGFUSE_PUBLIC_KEY": "pk"}, "set LANGFUSE_SECRET_KEY in"),
    ({"kind": "langfuse", "env_prefix": "EU_"},
     {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}, "set EU_LANGFUSE_PUBLIC_KEY in"),
    ({"kind": "langsmith", "project": "p", "env_prefix": "EU_"}, {"LANGSMITH_API_KEY": "k"},
     "traces.3 (langsmith): set EU_LANGSMITH_API_KEY in"),
    ({"kind": "langsmith", "env_prefix": "EU_"}, {"EU_LANGSMITH_API_KEY": "k"},
     "is missing; give traces.3.project, or set EU_LANGSMITH_PROJECT"),
    ({"kind": "files"}, {}, "traces.3.path: missing; a file, folder or glob"),
    ({"kind": "otlp"}, {}, "traces.3.path: missing; a file, folder or glob"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "environ", "says"), ENTRIES, ids=[s for *_, s in ENTRIES])
def test_what_a_source_lacks_is_named_with_its_place(
    entry: Mapping[str, str], environ: Mapping[str, str], says: str, tmp_path: Path
) -> None:
    spec = TraceSettings.model_validate(entry)
    with pytest.raises(ConfigError) as refused:
        open_trace_source(spec, "traces.3", tmp_path, budget_s=1, environ=environ)
    assert says in str(refused.value)
    assert not any(value in str(refused.value) for value in environ.values() if len(value) > 2)


@pytest.mark.parametrize(
    ("entry", "environ", "name"),
    [
        ({"kind": "langfuse", "env_prefix": "EU_"},
         {"EU_LANGFUSE_PUBLIC_KEY": "pk", "EU_LANGFUSE_SECRET_KEY": "sk"}, "langfuse"),
        ({"kind": "langsmith"},
         {"LANGCHAIN_API_KEY": "k", "LANGCHAIN_PROJECT": "p"}, "langsmith"),
        ({"kind": "phoenix"}, {}, "phoenix"),
        ({"kind": "otlp", "path": "x"}, {}, "otlp"),
    ],
)  # fmt: skip
def test_a_source_with_its_keys_is_opened(
    entry: Mapping[str, str], environ: Mapping[str, str], name: str, tmp_path: Path
) -> None:
    spec = TraceSettings.model_validate(entry)
    opened = open_trace_source(spec, "traces.0", tmp_path, budget_s=1, environ=environ)
    assert opened.name == name


class Gone(MemorySource):
    """Cannot be read before a time."""

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        if query.end is not None:
            raise SourceError("gone", backend="memory", operation="window")
        async for batch in super().window(query):
            yield batch


class HalfThere(MemorySource):
    """What ends at a time is read in part."""

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        yield TraceBatch(
            traces=(), read=ReadReport(source="half", format="memory", status="partial")
        )


def compared(baseline: MemorySource) -> Analysis:
    now = MemorySource([trace_of(root("do it"), tool(1, "pay", {}, "paid"))])
    earlier = TraceQuery(end=datetime(2026, 1, 1, tzinfo=UTC))
    return asyncio.run(analyze(now, TraceQuery(), project="p", baseline=(baseline, earlier)))


@pytest.mark.parametrize("baseline", [Gone([]), HalfThere([])], ids=["not at all", "in part"])
def test_a_baseline_that_was_not_read_whole_is_said_and_the_window_is_kept(
    baseline: MemorySource,
) -> None:
    found = compared(baseline)
    assert (found.status, found.read.status, found.read.traces) == ("partial", "complete", 1)
    document: dict[str, Any] = analysis_document(found)
    assert document["baseline"]["read"] == {"traces": 0, "status": "partial"}
    said = list(analysis_lines(found))
    assert any(line.startswith("compared with 0 traces") and "partial" in line for line in said)
    assert said[-1] == "nothing kept failing in the 1 traces that were read"
