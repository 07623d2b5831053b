"""Findings and gates go back into the vendor's tool once, marked as ours, without sealed cases."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from configs.settings import TraceSettings
from connectors.datasets.items import vendor_id
from connectors.publishing.opening import open_publisher
from connectors.traces.tree import OWN_ENVIRONMENT, RUN_ID, is_own
from contracts.errors import ConfigError, SourceError, UsageError
from contracts.gate import Block, CaseId, Graded, Phase
from contracts.json_types import Json
from contracts.publishing import Experiment, Mark, PublishedRun, Publisher
from contracts.traces import SpanId, TraceId
from graph.cli.main import app
from memory.workspace import open_project
from nodes.publishing import experiments_of, marks_of
from tests.apply_worlds import ApplyWorld, two_places
from tests.fakes.published import LangfuseKept, LangSmithKept, Row
from tests.fakes.serving import serve

KEYS = {
    "LANGFUSE_PUBLIC_KEY": "pk-lf-x", "LANGFUSE_SECRET_KEY": "sk-lf-secret-value",
    "LANGSMITH_API_KEY": "lsv2_pt_secret_value",
}  # fmt: skip
MARK = Mark(
    id="0b5c9a52-3f0e-5d1c-9a51-9d2f5f2b7a11", trace_id=TraceId("t1"), span_id=SpanId("s1"),
    name="tracemend.tool_timeout", text="payment_api does not answer (finding f-1)",
)  # fmt: skip
RUN = PublishedRun(
    id="1b5c9a52-3f0e-5d1c-9a51-9d2f5f2b7a12", case="c-refund", input={"message": "Refund A-1"},
    passed=True, failed=(), seconds=1.5, cost_usd=0.002, input_tokens=10, output_tokens=None,
)  # fmt: skip
ARM = Experiment(
    id="2b5c9a52-3f0e-5d1c-9a51-9d2f5f2b7a13", name="tracemend p-1 r1 candidate",
    at=datetime(2026, 3, 10, 9, 30, tzinfo=UTC), about={"tracemend.verdict": "accept"},
    runs=(RUN, replace(RUN, id="3b5c9a52-3f0e-5d1c-9a51-9d2f5f2b7a14", passed=None,
                       failed=("protocol",))),
)  # fmt: skip


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def langfuse(stack: ExitStack, kept: LangfuseKept) -> Publisher:
    url = stack.enter_context(serve(kept.app))
    return open_publisher("langfuse", [TraceSettings(kind="langfuse", base_url=url)], environ=KEYS)


def langsmith(stack: ExitStack, kept: LangSmithKept, dataset: str | None = None) -> Publisher:
    url = stack.enter_context(serve(kept.app))
    spec = TraceSettings(kind="langsmith", base_url=url)
    return open_publisher("langsmith", [spec], dataset=dataset, environ=KEYS)


def attributes(span: Row) -> dict[str, Json]:
    """Of an OTLP span."""
    listed = cast("list[dict[str, Any]]", span["attributes"])
    return {one["key"]: one["value"]["stringValue"] for one in listed}


@pytest.mark.parametrize("takes", ["one", "list"])
async def test_a_finding_is_one_score_however_often_it_is_published(
    stack: ExitStack, takes: str
) -> None:
    kept = LangfuseKept(takes="list" if takes == "list" else "one")
    publisher = langfuse(stack, kept)
    assert [await publisher.scores([MARK]) for _ in range(2)] == [1, 1]
    assert list(kept.scores) == [MARK.id]
    assert kept.scores[MARK.id]["name"] == "tracemend.tool_timeout"


async def test_a_comment_is_written_once(stack: ExitStack) -> None:
    kept = LangfuseKept()
    publisher = langfuse(stack, kept)
    await publisher.comments([replace(MARK, id="another")])
    assert [await publisher.comments([MARK]) for _ in range(2)] == [1, 0]
    assert len(kept.comments) == 2


async def test_an_experiment_is_marked_as_ours_and_unknown_runs_have_no_score(
    stack: ExitStack,
) -> None:
    kept = LangfuseKept()
    publisher = langfuse(stack, kept)
    for _ in range(2):
        assert await publisher.experiment(ARM) == 2
    assert len(kept.spans) == 2
    for span in kept.spans.values():
        pairs = attributes(span)
        assert is_own([pairs], {})
        assert pairs["langfuse.environment"] == OWN_ENVIRONMENT
        assert pairs["langfuse.experiment.id"] == ARM.id
        assert pairs["langfuse.experiment.item.id"] == "c-refund"
    assert [(row["value"], row["name"]) for row in kept.scores.values()] == [
        (1, "tracemend.passed")
    ]


async def test_feedback_does_not_extend_the_retention_of_a_trace(stack: ExitStack) -> None:
    kept = LangSmithKept()
    publisher = langsmith(stack, kept)
    for _ in range(2):
        await publisher.scores([MARK])
        await publisher.comments([MARK])
    assert len(kept.feedback) == 2
    assert {row["extend_trace_retention"] for row in kept.feedback.values()} == {False}
    assert {row["run_id"] for row in kept.feedback.values()} == {"s1"}
    assert sorted(str(row.get("score")) for row in kept.feedback.values()) == ["1", "None"]


async def test_an_experiment_of_langsmith_belongs_to_the_examples_of_its_dataset(
    stack: ExitStack,
) -> None:
    kept = LangSmithKept(datasets={"regressions": "ds-1"})
    publisher = langsmith(stack, kept, "regressions")
    for _ in range(2):
        assert await publisher.experiment(ARM) == 2
    assert kept.sessions[ARM.id]["reference_dataset_id"] == "ds-1"
    assert len(kept.runs) == 2
    assert {run["reference_example_id"] for run in kept.runs.values()} == {
        vendor_id("regressions", "c-refund")
    }
    assert all(RUN_ID in run["extra"]["metadata"] for run in kept.runs.values())  # type: ignore[index,call-overload,operator]
    assert [row["score"] for row in kept.feedback.values()] == [1]


@pytest.mark.parametrize(
    ("dataset", "says"), [(None, "give --dataset NAME"), ("gone", "there is no dataset 'gone'")]
)
async def test_an_experiment_without_its_dataset_says_how_to_make_it(
    stack: ExitStack, dataset: str | None, says: str
) -> None:
    kept = LangSmithKept(datasets={"regressions": "ds-1"})
    with pytest.raises(UsageError, match=says):
        await langsmith(stack, kept, dataset).experiment(ARM)
    assert not kept.runs
    assert not kept.sessions


async def test_a_refusal_names_the_variables_and_no_key(stack: ExitStack) -> None:
    kept = LangfuseKept()
    refusing = kept.app
    refusing.status(401, times=10)
    url = stack.enter_context(serve(refusing))
    spec = TraceSettings(kind="langfuse", base_url=url)
    publisher = open_publisher("langfuse", [spec], environ=KEYS)
    with pytest.raises(SourceError, match="LANGFUSE_SECRET_KEY") as raised:
        await publisher.scores([MARK])
    assert "secret-value" not in str(raised.value)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ConfigError, match="LANGSMITH_API_KEY"):
        open_publisher("langsmith", [], environ={})


def test_a_mark_that_is_not_ours_by_name_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="not marked as ours"):
        replace(MARK, name="quality")


async def test_langsmiths_own_client_sends_the_feedback_that_we_send(stack: ExitStack) -> None:
    from langsmith import Client

    session = "6b5c9a52-3f0e-4d1c-9a51-9d2f5f2b7a17"
    kept = LangSmithKept(projects={"production": session})
    url = stack.enter_context(serve(kept.app))
    spec = TraceSettings(kind="langsmith", base_url=url, project="production")
    run = "4b5c9a52-3f0e-4d1c-9a51-9d2f5f2b7a15"
    mark = replace(MARK, trace_id=TraceId(run), span_id=SpanId(run))
    await open_publisher("langsmith", [spec], environ=KEYS).scores([mark])
    theirs = "5b5c9a52-3f0e-4d1c-9a51-9d2f5f2b7a16"
    client = Client(api_url=url, api_key=KEYS["LANGSMITH_API_KEY"])
    await asyncio.to_thread(
        client.create_feedback, run, MARK.name, score=1, comment=MARK.text, feedback_id=theirs,
        extend_trace_retention=False, trace_id=run, session_id=session,
    )  # fmt: skip
    same = ("run_id", "key", "score", "comment", "trace_id", "session_id",
            "extend_trace_retention")  # fmt: skip
    ours, sent = (kept.feedback[key] for key in (MARK.id, theirs))
    assert [ours[key] for key in same] == [sent[key] for key in same]


@pytest.fixture
def gated(tmp_path: Path) -> ApplyWorld:
    """A proposal with a report and three blocks, one of them of a sealed case."""
    world = two_places(tmp_path)
    ws = open_project(world.inbox.home, "refunds")
    good, bad = Graded(result="pass", seconds=1.0), Graded(result="fail", failed=("contains: x",))
    places: list[tuple[Phase, str, int]] = [
        ("target", "c-a", 0), ("target", "c-a", 1), ("sealed", "c-z", 0),
    ]  # fmt: skip
    for phase, case, index in places:
        block = Block(
            phase=phase, case=CaseId(case), index=index, attempt=0, first="B", baseline=bad,
            candidate=good,
        )  # fmt: skip
        ws.ledger.gate.put_block(world.proposal.hash, block)
    return world


def test_a_gate_is_two_experiments_without_its_sealed_cases(gated: ApplyWorld) -> None:
    ws = open_project(gated.inbox.home, "refunds")
    arms = experiments_of(ws, gated.proposal.id)
    assert [[run.passed for run in arm.runs] for arm in arms] == [[False] * 2, [True] * 2]
    assert {run.case for arm in arms for run in arm.runs} == {"c-a"}
    assert len({run.id for arm in arms for run in arm.runs}) == 4
    assert experiments_of(ws, gated.proposal.id) == arms


def test_findings_are_marked_at_their_exemplars(gated: ApplyWorld) -> None:
    ws = open_project(gated.inbox.home, "refunds")
    finding = ws.ledger.knowledge.findings()[0].finding
    marks = marks_of(ws, None)
    assert [(m.trace_id, m.span_id) for m in marks] == list(finding.exemplars)
    assert all(finding.id in mark.text for mark in marks)
    with pytest.raises(UsageError, match="no such finding"):
        marks_of(ws, "f-nothere")


def test_the_commands_write_and_say_what_they_wrote(
    gated: ApplyWorld, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = LangfuseKept()
    monkeypatch.setenv("LANGFUSE_BASE_URL", stack.enter_context(serve(kept.app)))
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRACEMEND_HOME", str(gated.inbox.home))
    monkeypatch.chdir(gated.root)
    run = CliRunner().invoke
    dry = run(app, ["publish", "findings", "--to", "langfuse", "--dry-run", "--json"])
    assert (dry.exit_code, kept.scores) == (0, {})
    assert json.loads(dry.stdout)["marks"] == 2
    done = run(app, ["publish", "findings", "--to", "langfuse"])
    assert (done.exit_code, len(kept.scores)) == (0, 2)
    assert "2 of 2 scores written to langfuse http://127.0.0.1" in done.stdout
    gate = run(app, ["publish", "gate", gated.proposal.id, "--to", "langfuse", "--json"])
    said = json.loads(gate.stdout)
    assert [one["runs"] for one in said["experiments"]] == [2, 2]
    assert (said["written"], len(kept.spans)) == (4, 4)


def test_another_vendor_is_refused_by_name(
    gated: ApplyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEMEND_HOME", str(gated.inbox.home))
    monkeypatch.chdir(gated.root)
    done = CliRunner().invoke(app, ["publish", "findings", "--to", "phoenix"])
    assert isinstance(done.exception, UsageError)
    assert "needs one of langfuse, langsmith" in str(done.exception)
