"""Which failing inputs become targets, which stay sealed, and which are no cases at all."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.settings import ScoreRule
from contracts.findings import Signature
from contracts.gate import Case, CaseId
from contracts.json_types import Json
from contracts.traces import Score, Trace, TraceQuery
from memory.cases import assign_families
from memory.workspace import Workspace
from nodes.casebook import read_casebook
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.mined import keep_targets, mined_targets
from nodes.insights.targets import Apart, Targets, target_cases
from tests.run_worlds import make_project
from tests.trace_worlds import MemorySource, root, tool, trace_of

TIMEOUT = ("TimeoutError", "504 Gateway Timeout from the payment API")
THINGS = ("shoes", "lamp", "table", "ticket", "train fare", "coat", "hotel night", "phone",
          "garden chair", "piano lesson", "blue bicycle", "book on birds", "winter tyres",
          "opera seats")  # fmt: skip


def asked(number: int) -> str:
    return f"I want my money for the {THINGS[number % 14]} {'again ' * (number // 14)}back"


def bad(number: int, text: str | None = None) -> Trace:
    return trace_of(
        root(text or asked(number), "sorry", trace=number),
        tool(3, "pay", {"n": number}, trace=number, error=TIMEOUT),
    )


def good(number: int, *more: str) -> Trace:
    return trace_of(
        root(f"an order that works, number {number}", "done", trace=number),
        tool(3, "pay", {"n": number}, {"paid": True}, trace=number),
        *(tool(4 + i, name, {}, {"ok": True}, trace=number) for i, name in enumerate(more)),
    )


def analysed(traces: Sequence[Trace], **how: Any) -> Analysis:
    source = MemorySource(traces)
    return asyncio.run(analyze(source, TraceQuery(), project="refunds", **how))


def chosen(found: Analysis, apart: Apart, max_targets: int = 3) -> Targets:
    finding = found.findings[0]
    seen = found.evidence[finding.id]
    return target_cases(
        finding, seen.failing, seen.passing, max_targets=max_targets, seed=7, apart=apart
    )


def tagged(found: Targets, tag: str) -> list[Case]:
    return [case for case in found.cases if tag in case.tags]


FAILURES = [bad(n) for n in range(13)]
CLEAN = [good(100 + n, "queue") for n in range(20)]


def test_every_case_names_the_issue_that_it_failed_with() -> None:
    found = chosen(analysed(FAILURES + CLEAN), Apart())
    assert {case.issue for case in found.cases} == {"tool_timeout:pay:504"}
    assert found.notes == ()


def test_half_of_the_families_left_over_are_sealed_where_the_profile_asks_for_it() -> None:
    world = analysed(FAILURES + CLEAN)
    found = chosen(world, Apart(seal_rest=True))
    assert [len(tagged(found, t)) for t in ("target", "sealed", "training")] == [3, 5, 5]
    assert len({case.family for case in found.cases}) == 13
    assert len(tagged(chosen(world, Apart()), "sealed")) == 0


def test_a_whole_family_is_sealed_or_none_of_it() -> None:
    twins = [bad(50 + n, text=f"{asked(n)} for order A-{n}1") for n in range(11)]
    more = [bad(70 + n, text=f"{asked(n)} for order A-{n}2") for n in range(11)]
    found = chosen(analysed(twins + more + CLEAN), Apart(seal_rest=True))
    sealed = {case.family for case in tagged(found, "sealed")}
    assert len(tagged(found, "sealed")) == 2 * len(sealed) == 8
    assert not sealed & {case.family for case in found.cases if "sealed" not in case.tags}


def test_what_an_editor_sees_is_never_sealed() -> None:
    world = analysed(FAILURES + CLEAN)
    free = {case.id for case in tagged(chosen(world, Apart(seal_rest=True)), "sealed")}
    for key in free:
        (shown,) = [c for c in chosen(world, Apart(seal_rest=True)).cases if c.id == key]
        known = replace(shown, tags=frozenset({"training"}), family="")
        again = chosen(world, Apart(known=(known,), seal_rest=True))
        assert key not in {case.id for case in tagged(again, "sealed")}


def known_sealed(*numbers: int) -> tuple[Case, ...]:
    cases = [
        Case(
            id=CaseId(f"c-own-{n}"), input={"message": f"{asked(n)}!"},
            assertions=({"not_empty": True},), tags=frozenset({"sealed"}), family="",
            origin="file:own.yaml",
        )
        for n in numbers
    ]  # fmt: skip
    return assign_families(cases)


def test_a_failing_input_whose_relative_is_sealed_is_not_used_while_there_are_others() -> None:
    found = chosen(analysed(FAILURES + CLEAN), Apart(known=known_sealed(0, 1, 2)), max_targets=20)
    used = {str(case.input) for case in found.cases}
    assert found.held_back == 3
    assert not any(THINGS[n] in text for text in used for n in range(3))
    assert len(tagged(found, "target")) == 10


def test_where_every_failing_input_has_a_sealed_relative_one_of_them_is_given_up() -> None:
    found = chosen(analysed(FAILURES[:3] + CLEAN), Apart(known=known_sealed(0, 1, 2)))
    assert len(tagged(found, "target")) == 1
    assert found.held_back == 2


def test_a_relative_that_an_editor_sees_anyway_is_used() -> None:
    seen = [replace(case, id=CaseId(f"{case.id}-seen"), tags=frozenset({"training"}))
            for case in known_sealed(0)]  # fmt: skip
    found = chosen(
        analysed(FAILURES + CLEAN), Apart(known=(*known_sealed(0), *seen)), max_targets=20
    )
    assert len(tagged(found, "target")) == 13


def test_a_finding_that_rests_on_scores_has_no_target_since_no_run_of_the_gate_has_any() -> None:
    disliked = [
        replace(good(n, "queue"), scores=(Score(name="helpful", value=0.0, source="user"),))
        for n in range(6)
    ]
    world = analysed(
        disliked + [good(50 + n, "queue") for n in range(12)],
        scores=(ScoreRule(name="helpful", below=0.5),),
    )
    found = chosen(world, Apart())
    assert world.findings[0].kind == "low_score"
    assert tagged(found, "target") == []
    assert len(found.cases) == 6  # which still train: an editor is told of them
    (note,) = found.notes
    assert note.startswith("not a target: cannot fail on the evidence: no_symptom, not_empty")
    assert note.endswith("(6 cases)")


def test_an_answer_that_clean_runs_do_not_record_is_asked_for_all_the_same() -> None:
    silent = [
        trace_of(root(f"order {n}", None, trace=n), tool(3, "pay", {}, {"ok": True}, trace=n))
        for n in range(100, 120)
    ]
    found = chosen(analysed(FAILURES + silent), Apart())
    assert all({"not_empty": True} in case.assertions for case in found.cases)
    assert found.notes == ()


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Workspace]:
    gate: dict[str, Json] = {"profile": "strict", "max_targets": 3}
    made = make_project(tmp_path / "home", tmp_path / "agent", gate=gate, cases=["cases/*.yaml"])
    yield made
    made.ledger.close()


def test_in_profile_strict_the_ledger_keeps_cases_of_the_issue_sealed(strict: Workspace) -> None:
    world = analysed(FAILURES + CLEAN)
    mined = mined_targets(strict, world)
    (finding_id,) = mined
    with strict.ledger.db.write() as tx:
        keep_targets(strict, tx, finding_id, mined[finding_id])
    book = read_casebook(strict, finding_id)
    sealed = book.tagged("sealed")
    assert 2 <= len(sealed) <= 4  # of 13 families 5 are exemplars and 3 targets; half of the rest
    assert {case.issue for case in sealed} == {"tool_timeout:pay:504"}
    assert {line.case for line in strict.ledger.sealed.listed()} == {case.id for case in sealed}
    exemplars = {trace for trace, _ in world.findings[0].exemplars}
    assert not exemplars & {case.origin.removeprefix("trace:") for case in sealed}


def test_a_second_analysis_gives_up_sealed_families_only_where_an_editor_sees_a_relative(
    strict: Workspace,
) -> None:
    def analyse(traces: Sequence[Trace]) -> Analysis:
        world = analysed(traces)
        for finding_id, found in mined_targets(strict, world).items():
            with strict.ledger.db.write() as tx:
                keep_targets(strict, tx, finding_id, found)
        return world

    analyse(FAILURES + CLEAN)
    before = {str(case.input) for case in read_casebook(strict).tagged("sealed")}
    again = [bad(200 + n, text=f"{asked(n)}!") for n in range(13)]
    world = analyse(again + CLEAN)
    lost = before - {str(case.input) for case in read_casebook(strict).tagged("sealed")}
    seen = {trace for trace, _ in world.findings[0].exemplars}
    shown = {str({"message": asked(n)}) for n in range(13) if again[n].id in seen}
    assert lost == before & shown
    assert lost < before


def test_a_case_file_that_cannot_be_used_does_not_stop_an_analysis(strict: Workspace) -> None:
    folder = strict.root / "cases"
    folder.mkdir()
    (folder / "broken.yaml").write_text(yaml.safe_dump([{"input": 1}]), "utf-8")
    mined = mined_targets(strict, analysed(FAILURES + CLEAN))
    assert sum(len(found.cases) for found in mined.values()) == 13


def test_signatures_of_merged_findings_are_asserted_too() -> None:
    world = analysed(FAILURES + CLEAN)
    finding = replace(
        world.findings[0], signature=Signature("tool_timeout:pay:504~abc123")
    )  # fmt: skip
    seen = world.evidence[finding.id]
    found = target_cases(finding, seen.failing, seen.passing, max_targets=1, seed=1)
    assert found.cases[0].assertions[0] == {"no_symptom": "tool_timeout:pay:504"}
