"""One recorded corpus, written down as logs of steps: the same findings in the same units."""

import asyncio
import io
import json
import zipfile
from collections.abc import Callable, Sequence

import pytest

from connectors.traces import atif, chat_logs, inspect_logs, openinference
from connectors.traces.raw import Raw
from contracts.traces import Trace, TraceQuery
from examples.refund_agent.back_office import WEATHERS
from examples.refund_agent.record import record
from examples.refund_agent.requests import generate
from nodes.insights.analyze import analyze
from tests.emit import atif as atif_files
from tests.emit import chat as chat_files
from tests.emit import inspect as inspect_files
from tests.emit import openinference as tree_files
from tests.step_logs import built
from tests.trace_worlds import REPO, MemorySource, read_all

RUNS = 40
Written = Callable[[Sequence[Trace]], list[Raw]]


def chat(traces: Sequence[Trace]) -> list[Raw]:
    lines = chat_files.lines(traces).splitlines()
    return [raw for line in lines for raw in chat_logs.spans(json.loads(line))]


def trajectories(traces: Sequence[Trace]) -> list[Raw]:
    lines = atif_files.lines(traces).splitlines()
    return [raw for line in lines for raw in atif.spans(json.loads(line))]


def log(traces: Sequence[Trace]) -> list[Raw]:
    return list(inspect_logs.spans(json.loads(json.dumps(inspect_files.document(traces)))))


def archive(traces: Sequence[Trace]) -> list[Raw]:
    with zipfile.ZipFile(io.BytesIO(inspect_files.archive(traces))) as packed:
        values = [json.loads(packed.read(name)) for name in packed.namelist()]
    taken = [value for value in values if isinstance(value, dict) and inspect_logs.takes(value)]
    return [raw for value in taken for raw in inspect_logs.spans(value)]


def trees(traces: Sequence[Trace]) -> list[Raw]:
    lines = tree_files.lines(traces).splitlines()
    return [raw for line in lines for raw in openinference.tree_spans(json.loads(line))]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Trace]:
    out = tmp_path_factory.mktemp("corpus") / "own.otlp.jsonl"
    harness = REPO / "examples" / "refund_agent" / "repo"
    record(generate(RUNS, 7), harness, out, weather=WEATHERS["stormy"], seed=7)
    return read_all(out)[0]


def findings(traces: Sequence[Trace]) -> list[tuple[str, int, int, str]]:
    found = asyncio.run(analyze(MemorySource(traces), TraceQuery(), project="p"))
    return sorted((f.signature, f.units, f.units_total, f.severity) for f in found.findings)


@pytest.mark.parametrize("written", [chat, trajectories, log, archive, trees])
def test_the_same_corpus_gives_the_same_findings(written: Written, corpus: list[Trace]) -> None:
    expected = findings(corpus)
    assert len(expected) >= 3
    traces = built(written(corpus))
    assert findings(traces) == expected
    assert {t.id: (t.unit, t.environment) for t in traces} == {
        t.id: (t.unit, t.environment) for t in corpus
    }
    for count in ("input_tokens", "output_tokens"):
        assert _total(traces, count) == _total(corpus, count)


def _total(traces: Sequence[Trace], count: str) -> int:
    return sum(getattr(span, count) or 0 for trace in traces for span in trace.spans)
