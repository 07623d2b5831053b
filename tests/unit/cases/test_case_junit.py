"""JUnit of a run over cases: what CI systems read, and nothing that a sealed case says."""

import os
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.gate import Case, CaseId, Graded
from nodes.cases.junit import junit_xml
from nodes.cases.run import CasesRun, exit_code
from tests.gate_worlds import case

GOLDEN = Path(__file__).parents[2] / "golden" / "cases_run.junit.xml"
"""After a change that is meant: TRACEMEND_UPDATE_GOLDEN=1, then read the diff."""
PASS = Graded(result="pass", cost_usd=0.01, seconds=1.25)
FAIL = Graded(result="fail", failed=("contains (assertion 1)",), cost_usd=0.01, seconds=0.5)
LOST = Graded(result="missing", failed=("not observed: worker",))


def made(*cases: tuple[Case, tuple[Graded, ...]], asked: int = 1, **more: object) -> CasesRun:
    return CasesRun(
        revision="ab" * 32, started_at=datetime(2026, 11, 30, 18, 5, tzinfo=UTC), asked=asked,
        cases=tuple(one for one, _ in cases), skipped=more.get("skipped", {}),  # type: ignore[arg-type]  # a mapping
        runs={one.id: list(runs) for one, runs in cases},
        stopped=more.get("stopped"),  # type: ignore[arg-type]  # a text
    )  # fmt: skip


EVERY = made(
    (case("c-good"), (PASS, PASS)), (case("c-bad"), (PASS, FAIL)), (case("c-lost"), (PASS, LOST)),
    (case("c-late"), (PASS,)), (case("c-none"), ()), (case("c-out"), ()),
    (case("the secret words", "sealed"), (FAIL, FAIL)),
    asked=2, skipped={CaseId("c-out"): "quarantined until 2027-01-01 (ann)"},
    stopped="the time is spent (gate.max_seconds: 60)",
)  # fmt: skip


def test_the_document_is_the_golden_one() -> None:
    document = junit_xml(EVERY, "refunds").decode()
    if os.environ.get("TRACEMEND_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(document, "utf-8")
    assert document == GOLDEN.read_text("utf-8")


def test_what_was_not_observed_or_never_run_is_an_error_and_no_failure() -> None:
    suite = ET.fromstring(junit_xml(EVERY, "refunds"))  # noqa: S314  # our own
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "7", "failures": "2", "errors": "3", "skipped": "1",
    }  # fmt: skip
    inner = {test.get("name"): [child.tag for child in test] for test in suite.iter("testcase")}
    assert inner["c-good"] == []
    assert inner["c-bad"] == ["failure"]
    assert [inner[name] for name in ("c-lost", "c-late", "c-none")] == 3 * [["error"]]
    assert inner["c-out"] == ["skipped"]


def test_a_sealed_case_is_named_by_its_fingerprint_alone() -> None:
    document = junit_xml(EVERY, "refunds").decode()
    assert "secret" not in document
    assert 'classname="sealed" name="sealed ' in document


@given(st.text(st.characters(exclude_categories=())), st.text(max_size=40))
def test_any_text_makes_a_document_that_can_be_read(name: str, why: str) -> None:
    hostile = CaseId(f"]]><x a='{name}")
    one = Case(
        id=hostile, input=1, assertions=(), tags=frozenset({"training"}), family="f",
        origin=f"file:{name}",
    )  # fmt: skip
    lost = Graded(result="missing", failed=(why,))
    suite = ET.fromstring(junit_xml(made((one, (lost,))), name))  # noqa: S314  # our own
    assert suite.get("errors") == "1"
    assert next(suite.iter("testcase")).get("name", "").startswith("]]><x a='")


@pytest.mark.parametrize(
    ("runs", "under", "code"),
    [
        ([PASS, PASS], None, 0), ([PASS, FAIL], None, 5), ([PASS, LOST], None, 6),
        ([LOST, FAIL], None, 5), ([PASS, FAIL], 0.5, 0), ([PASS, FAIL], 0.51, 5),
        ([PASS, LOST], 0.5, 6), ([PASS, PASS, PASS, FAIL, LOST], 0.6, 6),
        ([PASS, FAIL, LOST], 0.5, 5), ([None, PASS], None, 6), ([FAIL], 0.0, 0),
        ([LOST], 0.0, 6),
    ],
)  # fmt: skip
def test_exit_codes_tell_failed_from_not_observed(
    runs: list[Graded | None], under: float | None, code: int
) -> None:
    cases = [(case(f"c{at}"), (run,) if run else ()) for at, run in enumerate(runs)]
    assert exit_code(made(*cases), under) == code


def test_a_quarantined_case_counts_neither_way() -> None:
    run = made((case("a"), (PASS,)), (case("b"), ()), skipped={CaseId("b"): "quarantined"})
    assert exit_code(run, None) == 0
    assert exit_code(run, 1.0) == 0


def test_an_unknown_cost_is_no_zero() -> None:
    run = made((case("a"), (PASS,)))
    run.costs.extend([0.01, 0.02])
    assert run.spent_usd == pytest.approx(0.03)
    run.costs.append(None)
    assert run.spent_usd is None
