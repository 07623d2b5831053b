"""What the cases can prove: the sentence for everybody, the counts, the row of the design."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.gate import CaseId
from memory.case_runs import Passes
from memory.cases import fingerprint
from memory.sealed import SealedCase
from nodes.cases.stats import CaseStats, Rules, SetState, case_stats, first_line, lines
from tests.gate_worlds import cases, designed

GOLDEN = Path(__file__).parents[2] / "golden" / "cases_stats.txt"
"""After a change that is meant: TRACEMEND_UPDATE_GOLDEN=1, then read the diff."""
RULES = Rules(profile="standard", margin=0.10, uses=5, max_runs=400)
FRESH = SetState(epoch=1, manifest="5ea1" * 16, listed=(), uses=0)


def stats(sealed: int, *, uses: int = 0, allowed: int = 5, margin: float = 0.1) -> CaseStats:
    """Of so many sealed cases without a stored run."""
    rules = replace(RULES, uses=allowed, margin=margin)
    return case_stats(cases(sealed, "sealed"), replace(FRESH, uses=uses), {}, rules)


SENTENCES = [
    (stats(0), "no case is sealed, so nothing can be said of unseen requests; 126 would show 10 of"
     " 100"),
    (stats(1), "1 sealed case cannot exclude any harm that matters; 125 more would show 10 of 100"),
    (stats(38, allowed=1), "38 sealed cases can show that an edit loses no more than 16 of 100; 40"
     " more would show 10 of 100"),
    (stats(126), "126 sealed cases can show that an edit loses no more than 10 of 100, as is"
     " asked"),
    (stats(200), "200 sealed cases can show that an edit loses no more than 8 of 100; 10 of 100 is"
     " asked"),
    (stats(60, margin=0.05), "60 sealed cases can show that an edit loses no more than 16 of 100; 5"
     " of 100 needs more than 300 cases"),
    (stats(40, uses=5), "40 sealed cases, but the set has had its 5 uses and is left out now; 126"
     " fresh ones would show 10 of 100"),
    (stats(40, uses=1, allowed=1), "40 sealed cases, but the set has had its one use and is left"
     " out now; 78 fresh ones would show 10 of 100"),
]  # fmt: skip


@pytest.mark.parametrize(("found", "sentence"), SENTENCES, ids=range(len(SENTENCES)))
def test_the_first_line_is_understood_by_everybody(found: CaseStats, sentence: str) -> None:
    assert first_line(found) == sentence


def test_the_margin_is_that_of_the_plan_that_the_gate_would_make() -> None:
    for sealed, use in ((38, 1), (60, 1), (60, 3), (140, 1)):
        plan = designed(3, sealed, uses=5, use=use)
        found = stats(sealed, uses=use - 1)
        assert (max(found.margin, 0.10), found.level) == (plan.margin, plan.alpha)


def test_the_row_is_that_of_the_design() -> None:
    """GATE.md section 4: smallest provable margin by cases and share of discordant ones."""
    printed = {
        8: ".32/.45 .32/.45 .48/- .48/-", 20: ".14/.21 .22/.30 .24/.33 .29/.39",
        60: ".08/.11 .10/.14 .12/.16 .16/.20",
    }  # fmt: skip
    for sealed, row in printed.items():
        assert lines(stats(sealed))[-1].split()[1:] == row.split()


def test_near_copies_count_once_and_the_line_says_so() -> None:
    twins = [replace(case, family="f" + case.id[-1]) for case in cases(40, "sealed")]
    found = case_stats(twins, FRESH, {}, RULES)
    assert (found.sealed_cases, found.sealed) == (40, 10)
    assert first_line(found).startswith("10 families of 40 sealed cases ")


def test_stored_runs_say_what_is_stable_and_how_often_runs_differ() -> None:
    found = cases(30, "sealed")
    counts = [Passes(passes=10, runs=10), Passes(passes=0, runs=10), Passes(passes=5, runs=10)]
    runs = {fingerprint(case): counts[at % 4] for at, case in enumerate(found) if at % 4 < 3}
    made = case_stats(found, FRESH, runs, RULES)
    assert (made.stable_pass, made.stable_fail, made.flaky, made.unknown) == (8, 8, 7, 7)
    # 7 cases of 5 passes in 10 differ in 5/9 of the pairs; 5 cases of the default .10 are added.
    assert made.discordance == pytest.approx((7 * 5 / 9 + 5 * 0.10) / (23 + 5))
    assert not made.assumed
    assert stats(30).assumed


def test_fewer_than_thirty_families_mean_the_starter_profile() -> None:
    assert (stats(29).profile, stats(30).profile) == ("starter", "standard")
    assert stats(30, uses=5).profile == "starter"
    said = lines(stats(29))
    assert any("starter instead of standard (fewer than 30 sealed families)" in one for one in said)
    assert any("(the sealed set is used up)" in one for one in lines(stats(30, uses=5)))


def test_a_budget_that_cannot_pay_for_the_cases_is_said() -> None:
    few = case_stats(cases(60, "sealed"), FRESH, {}, replace(RULES, max_runs=100))
    assert "gate.max_runs: 100 runs pay for 50 of these cases" in lines(few)
    assert not any("max_runs" in one for one in lines(stats(60)))


def test_retired_cases_are_counted_and_level_halves_with_each_use() -> None:
    line = SealedCase(
        fingerprint="a", case=CaseId("c"), family="f", epoch=1, sealed_at="2026-01-01",
        uses=1, retired_at="2026-01-02", why="leaked",
    )  # fmt: skip
    found = case_stats(cases(30, "sealed"), replace(FRESH, listed=(line,), uses=2), {}, RULES)
    assert (found.retired, found.level) == (1, 0.0025)


def test_what_a_person_reads_is_the_golden_text() -> None:
    found = case_stats(
        [*cases(38, "sealed"), *cases(3, "guard"), replace(cases(1)[0], weak=True)],
        replace(FRESH, uses=1), {}, RULES,
    )  # fmt: skip
    text = "\n".join((first_line(found), *lines(found))) + "\n"
    if os.environ.get("TRACEMEND_UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, "utf-8")
    assert text == GOLDEN.read_text("utf-8")


def test_cases_that_no_gate_ran_are_said_to_be_left_when_the_uses_are_spent() -> None:
    state = replace(FRESH, uses=1, unused=18)
    found = case_stats(cases(64, "sealed"), state, {}, replace(RULES, uses=1))
    assert first_line(found).startswith(
        "64 sealed cases: the set has had its one use, but for 18 that no gate ran; "
    )
    assert "only 18 that no gate has run are left until fresh cases are sealed" in "\n".join(
        lines(found)
    )
