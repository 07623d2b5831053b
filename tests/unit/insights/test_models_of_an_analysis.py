"""What the analyst adds to an analysis, over a real ledger: bounded, and asked once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

from connectors.traces.files import FilesSource
from connectors.traces.reading import Reading
from contracts.errors import ConfigError
from contracts.findings import FindingId
from contracts.json_types import Json
from contracts.traces import TraceQuery
from memory.schema import steps
from memory.workspace import Workspace
from nodes.insights.analyze import analyze
from nodes.insights.by_models import ByModels, add_models
from nodes.insights.exemplars import RUN
from tests.model_worlds import (
    ANALYST,
    T1,
    analysed,
    modelled,
    notes,
    says,
    script,
    storm,
    workspace,
)
from tests.trace_worlds import OtlpSpan, line, root, tool


async def test_without_models_nothing_is_added(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    source, found = await analysed(storm())
    told = await add_models(ws, T1, source, found, resting=frozenset(), asked=True)
    assert (told.analysis, told.report, dict(told.kept), source.opened) == (found, None, {}, 0)


async def test_three_answers_stand_beside_the_rules_and_are_paid_for_once(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", *[says(cost=0.01)] * 3)
    told, source = await modelled(ws)
    (finding,) = told.analysis.findings
    assert finding.diagnosis.by == f"rules+model:{ANALYST}"
    assert finding.diagnosis.agreement == 1.0
    assert "3 of 3 answers" in finding.reasons[-1]
    assert told.report is not None
    assert told.report["tokens"] == {"diagnose": 3_000}
    assert told.report["cost_usd"] == pytest.approx(0.03)
    assert notes(told) == "[]"
    spent = ws.ledger.spends.of_thread(T1)
    assert (spent.calls, spent.tokens) == (3, 3_000)
    assert spent.cost_usd == pytest.approx(0.03)
    (tmp_path / "analyst.jsonl").unlink()  # a second look needs no model, and changes nothing
    again, _ = await modelled(ws)
    assert again.analysis.findings == told.analysis.findings
    assert again.report == {**told.report}
    assert ws.ledger.spends.of_thread(T1) == spent
    assert source.opened == 4


async def test_a_run_killed_between_answers_asks_only_for_the_missing_ones(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", *[says()] * 3)
    told, _ = await modelled(ws)
    (finding,) = told.analysis.findings
    lost = f"insights.diagnose:{finding.id}:1"
    with ws.ledger.db.write() as tx:
        tx.execute(delete(steps).where(steps.c.step == lost))
    script(ws, "analyst.jsonl", says("tool_failure", "tool"))  # there is only one more answer
    again, _ = await modelled(ws)
    assert again.analysis.findings[0].diagnosis.agreement == pytest.approx(2 / 3)


async def test_a_word_stands_for_a_week_while_rules_say_the_same(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", *[says()] * 3)
    told, _ = await modelled(ws)
    keep(ws, told)
    (tmp_path / "analyst.jsonl").unlink()
    later, source = await modelled(ws, thread=T1[:-1] + "2")
    (finding,) = later.analysis.findings
    assert finding.diagnosis == told.analysis.findings[0].diagnosis
    assert "was asked on" in finding.reasons[-1]
    assert later.report is not None
    assert (later.report["standing"], later.report["tokens"], source.opened) == (1, {}, 0)
    question, _ = await modelled(ws, thread=T1[:-1] + "3", asked=False)
    assert question.analysis.findings[0].diagnosis == finding.diagnosis
    assert (question.report, question.kept) == (None, told.kept)


async def test_a_word_falls_when_the_finding_is_reopened(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", *[says()] * 3)
    told, _ = await modelled(ws)
    keep(ws, told)
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.set_finding(tx, told.analysis.findings[0].id, "reopened")
    later, _ = await modelled(ws, thread=T1[:-1] + "2")
    assert later.report is not None
    assert later.report["diagnosed"] == 1


def keep(ws: Workspace, told: ByModels) -> None:
    with ws.ledger.db.write() as tx:
        for finding in told.analysis.findings:
            ws.ledger.knowledge.put_finding(tx, finding)
            ws.ledger.knowledge.put_evidence(tx, finding.id, told.kept[finding.id])


async def test_what_was_told_is_read_again_from_artifacts(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", *[says()] * 3)
    told, _ = await modelled(ws)
    named = ws.ledger.steps.get(T1, f"insights.runs:{told.analysis.findings[0].id}")
    assert named is not None
    for trace, digest in named.items():
        text = ws.ledger.artifacts.text(str(digest), RUN)
        assert trace in text
        assert "504 Gateway Timeout" in text


async def test_runs_that_cannot_be_opened_are_told_condensed(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", *[says()] * 3)
    told, _ = await modelled(ws, gone=True)
    assert told.report is not None
    assert told.report["condensed"] == 4
    assert told.analysis.findings[0].diagnosis.agreement == 1.0


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({"analysis_tokens": 9_000}, "the token budget of the analysis"),
        ({"max_usd": 0}, "budget.max_usd (0)"),
        ({"max_usd_per_day": 0.5}, "budget.max_usd_per_day (0.5)"),
    ],
)
async def test_over_a_budget_the_rules_speak_and_the_finding_says_so(
    tmp_path: Path, budget: dict[str, Json], why: str
) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST}, budget=budget)
    with ws.ledger.db.write() as tx:
        ws.ledger.spends.add(tx, "ask", "m", key="k", tokens=9, cost_usd=0.6)
    script(ws, "analyst.jsonl", *[says()] * 3)
    told, _ = await modelled(ws)
    (finding,) = told.analysis.findings
    assert (finding.diagnosis.by, finding.diagnosis.agreement) == ("rules", None)
    assert why in finding.reasons[-1]
    assert "The analyst was not asked" in finding.diagnosis.summary
    assert why in notes(told)
    assert ws.ledger.spends.of_thread(T1).calls == 0


async def test_a_cost_that_nobody_knows_is_not_zero_and_is_said(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", says(cost=0.01), says(), says())
    told, _ = await modelled(ws)
    assert told.report is not None
    assert (told.report["cost_usd"], told.report["known_usd"]) == (None, 0.01)
    assert "the cost of 2 calls is not known" in notes(told)


async def test_what_a_call_costs_on_average_must_fit_into_the_money_that_is_left(
    tmp_path: Path,
) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST}, budget={"max_usd": 1.0})
    with ws.ledger.db.write() as tx:
        ws.ledger.spends.add(tx, "ask", "m", key="k", tokens=9, cost_usd=0.3, thread=T1)
    script(ws, "analyst.jsonl", *[says()] * 3)
    told, _ = await modelled(ws)
    assert "budget.max_usd (1) leaves no room" in notes(told)


async def test_a_provider_that_is_down_leaves_the_rules_and_says_why(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", *[{"error": "503 overloaded"}] * 6)
    told, _ = await modelled(ws)
    (finding,) = told.analysis.findings
    assert (finding.diagnosis.by, finding.diagnosis.agreement) == ("rules", None)
    assert "503 overloaded" in finding.reasons[-1]
    assert "too few, so the diagnosis is the rules'" in finding.diagnosis.summary
    assert dict(told.kept) == {}  # asked anew the next time


async def test_a_model_that_cannot_be_opened_is_an_error_of_the_settings(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    with pytest.raises(ConfigError, match="analyst: the script"):
        await modelled(ws)


async def test_tokens_are_flat_in_the_number_of_traces(tmp_path: Path) -> None:
    sent = []
    for number, bad in enumerate((10, 100, 400)):
        home = tmp_path / str(number)
        home.mkdir()
        ws = workspace(home, models={"analyst": ANALYST})
        script(ws, "analyst.jsonl", *[says(tokens=None)] * 3)
        told, _ = await modelled(ws, storm(bad, bad))
        assert told.report is not None
        tokens = told.report["tokens"]
        assert isinstance(tokens, dict)
        sent.append(tokens["diagnose"])
    assert max(sent) - min(sent) < 0.02 * max(sent)


async def test_findings_at_rest_cost_nothing(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    source, found = await analysed(storm())
    rest = frozenset({str(f.id) for f in found.findings})
    told = await add_models(ws, T1, source, found, resting=rest, asked=True)
    assert source.opened == 0
    assert told.analysis.findings == found.findings


async def test_five_findings_at_most_are_asked_about_the_worst_first(tmp_path: Path) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST, "samples": 1})
    source, found = await analysed(storm())
    (one,) = found.findings
    many = tuple(replace(one, id=FindingId(f"f-{n}"), score=9.0 - n) for n in range(8))
    wide = replace(found, findings=many, evidence={f.id: found.evidence[one.id] for f in many})
    script(ws, "analyst.jsonl", *[says()] * 8)
    told = await add_models(ws, T1, source, wide, resting=frozenset({"f-1"}), asked=True)
    asked = [f.id for f in told.analysis.findings if f.diagnosis.agreement is not None]
    assert asked == ["f-0", "f-2", "f-3", "f-4", "f-5"]


async def test_the_runs_of_all_findings_are_opened_by_one_reading_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = workspace(tmp_path, models={"analyst": ANALYST})
    script(ws, "analyst.jsonl", *[says()] * 6)
    file = tmp_path / "t.otlp.jsonl"
    file.write_bytes(
        b"".join(
            line([root("pay", trace=n), refused(n, "pay" if n % 2 else "label")]) for n in range(12)
        )
    )
    source = FilesSource([file])
    found = await analyze(source, TraceQuery(), project="refunds")
    readings: list[int] = []
    monkeypatch.setattr(FilesSource, "_open", counted(FilesSource._open, readings))
    told = await add_models(ws, T1, source, found, resting=frozenset(), asked=True)
    assert [f.diagnosis.agreement is None for f in told.analysis.findings] == [False, False]
    assert len(readings) == 1
    assert told.report is not None
    assert told.report["condensed"] == 0


def refused(trace: int, name: str) -> OtlpSpan:
    return tool(4, name, {"order": f"A-{trace}"}, trace=trace, error=("TimeoutError", "504"))


def counted(
    read: Callable[[FilesSource], Reading], calls: list[int]
) -> Callable[[FilesSource], Reading]:
    def counting(self: FilesSource) -> Reading:
        calls.append(1)
        return read(self)

    return counting
