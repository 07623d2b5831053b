"""A case has to fail on the run that it was made of, and clean runs have to satisfy it."""

from dataclasses import replace

import pytest

from contracts.gate import Case, CaseId
from contracts.json_types import JsonObject
from contracts.traces import Trace, TraceQuery
from nodes.cases.recorded import check_recorded
from nodes.cases.soundness import check_case, check_ordinary, notes_of
from nodes.cases.witness import Witness, witness_of, witness_of_sketch
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.sketch import sketch_of
from tests.trace_worlds import MemorySource, root, span, tool, trace_id, trace_of

TIMEOUT = ("TimeoutError", "504 Gateway Timeout from the payment API")
ASKED = "refund order A-1042"


def failing(number: int = 0, asked: str = ASKED) -> Trace:
    return trace_of(
        root(asked, "it did not work", trace=number),
        tool(1, "pay", {"order": "A-1042"}, trace=number, error=TIMEOUT),
    )


def clean(number: int, *tools: str, answer: str | None = "queued", asked: str = ASKED) -> Trace:
    called = [tool(i + 1, name, {}, {"ok": True}, trace=number) for i, name in enumerate(tools)]
    return trace_of(root(asked, answer, trace=number), *called)


def runs(count: int, *tools: str, **how: str | None) -> list[Witness]:
    return [witness_of(clean(100 + n, *tools, **how)) for n in range(count)]  # type: ignore[arg-type]  # by name


def case(*assertions: JsonObject, **changed: object) -> Case:
    made = Case(
        id=CaseId("c-1"), input={"message": ASKED}, assertions=assertions,
        tags=frozenset({"training"}), family="", origin=f"trace:{trace_id(0)}",
    )  # fmt: skip
    return replace(made, **changed)  # type: ignore[arg-type]  # fields by name


NO_TIMEOUT: JsonObject = {"no_symptom": "tool_timeout:pay"}
ANSWERED: JsonObject = {"not_empty": True}


def test_a_case_that_fails_on_its_evidence_and_holds_on_clean_runs_is_sound() -> None:
    found = check_case(case(NO_TIMEOUT, ANSWERED), witness_of(failing()), runs(6, "pay"))
    assert found.sound
    assert (found.refused, found.said) == ((), ())
    assert len(found.case.assertions) == 2


def test_a_case_that_cannot_fail_on_its_evidence_says_what_held_there() -> None:
    found = check_case(case(ANSWERED, {"tool_called": "pay"}), witness_of(failing()), [])
    assert found.why_not == (
        "cannot fail on the evidence: not_empty, tool_called held in the failing run"
    )


@pytest.mark.parametrize(
    ("assertion", "why"),
    [
        ({"tool_called": "queue"}, "tool_called (assertion 1) fails on 6 of 6 clean runs"),
        ({"contains": "refunded"}, "contains (assertion 1) fails on 6 of 6 clean runs"),
        ({"equals": "done"}, "equals (assertion 1) fails on 6 of 6 clean runs"),
        ({"max_seconds": 1}, "max_seconds (assertion 1) fails on 6 of 6 clean runs"),
        ({"tool_not_called": "pay"}, "tool_not_called (assertion 1) fails on 6 of 6 clean runs"),
        ({"tool_order": ["pay", "look"]}, "tool_order (assertion 1) fails on 6 of 6 clean runs"),
    ],
)
def test_an_assertion_that_clean_runs_do_not_satisfy_is_refused_with_the_counts(
    assertion: JsonObject, why: str
) -> None:
    found = check_case(case(assertion, NO_TIMEOUT), witness_of(failing()), runs(6, "look", "pay"))
    assert found.refused == ((1, why),)
    assert found.case.assertions == (NO_TIMEOUT,)
    assert found.sound
    assert found.case.weak  # by absence alone now


def test_one_clean_run_in_ten_may_differ_and_two_may_not() -> None:
    many = runs(9, "pay")
    odd = runs(2, "pay", answer="")
    one = check_case(case(ANSWERED, NO_TIMEOUT), witness_of(failing()), [*many, *odd[:1]])
    two = check_case(case(ANSWERED, NO_TIMEOUT), witness_of(failing()), [*many, *odd])
    assert one.refused == ()
    assert two.refused == ((1, "not_empty (assertion 1) fails on 2 of 11 clean runs"),)


def test_a_tool_may_be_missing_in_one_run_of_five_as_the_rule_of_the_closing_tool_has_it() -> None:
    wanted = case({"tool_called": "queue"}, NO_TIMEOUT)
    four_of_five = [*runs(8, "pay", "queue"), *runs(2, "pay")]
    assert check_case(wanted, None, four_of_five).refused == ()
    assert len(check_case(wanted, None, [*four_of_five, *runs(1, "pay")]).refused) == 1


def test_fewer_than_five_clean_runs_refuse_nothing_and_are_said() -> None:
    found = check_case(case({"contains": "x"}, NO_TIMEOUT), witness_of(failing()), runs(4))
    assert found.refused == ()
    assert "contains (assertion 1) is not tried: 4 clean runs to compare with, 5 are needed" in (
        found.said
    )


def test_what_is_about_this_request_is_held_against_clean_runs_of_its_family_alone() -> None:
    others = runs(9, "look", asked="what are your opening hours", answer="from nine")
    found = check_case(
        case({"contains": "queued"}, {"tool_called": "queue"}, NO_TIMEOUT),
        witness_of(failing()), others,
    )  # fmt: skip
    assert found.refused == ()
    assert len(found.said) == 2
    alike = check_case(
        case({"tool_called": "queue"}, NO_TIMEOUT), witness_of(failing()), others,
        alike=frozenset({"look"}),
    )  # fmt: skip
    assert alike.refused == ((1, "tool_called (assertion 1) fails on 9 of 9 clean runs"),)


def test_what_was_not_recorded_is_unknown_and_no_reason_to_refuse() -> None:
    silent = runs(6, "pay", answer=None)
    found = check_case(case(ANSWERED, {"max_usd": 0.1}, NO_TIMEOUT), witness_of(failing()), silent)
    assert found.refused == ()
    assert found.said == (
        "not_empty (assertion 1) cannot be decided on a trace",
        "max_usd (assertion 2) cannot be decided on a trace",
    )


@pytest.mark.parametrize("assertion", [{"judge": "Is it polite?"}, {"python": "checks.polite"}])
def test_what_only_a_real_run_can_tell_is_said(assertion: JsonObject) -> None:
    found = check_case(case(assertion), witness_of(failing()), runs(6))
    assert found.why_not == "nothing of it can be decided on the evidence"
    assert found.refused == ()


def test_an_agents_own_error_is_a_fail_whatever_is_asserted() -> None:
    crashed = trace_of(root(ASKED, None, error=("KeyError", "order")))
    assert check_case(case({"max_seconds": 900}), witness_of(crashed), []).sound


def test_a_providers_outage_is_no_evidence() -> None:
    down = trace_of(
        root(ASKED, "sorry"),
        span(1, "LLM", "model", error=("RateLimitError", "Error code: 429 - slow down")),
    )
    found = check_case(case({"contains": "queued"}), witness_of(down), [])
    assert found.why_not == "its evidence is a provider's outage, which the gate does not count"


def test_a_score_of_a_person_is_nothing_that_a_run_of_the_gate_could_have() -> None:
    sketch = replace(sketch_of(detect(failing(), Scans())), signatures=("low_score:helpful",))
    found = check_case(case({"no_symptom": "low_score:helpful"}), witness_of_sketch(sketch), [])
    assert not found.sound


def test_a_condensed_run_decides_what_it_holds_and_leaves_the_rest_open() -> None:
    seen = witness_of_sketch(sketch_of(detect(failing(), Scans())))
    sound = check_case(case(NO_TIMEOUT), seen, [])
    assert sound.sound
    open_ones: list[JsonObject] = [
        {"contains": "queued"}, {"max_seconds": 0}, {"tool_not_called": "pay"},
        {"tool_called": {"name": "pay", "args": {"order": "A-1"}}},
    ]  # fmt: skip
    for one in open_ones:
        assert check_case(case(one), seen, []).why_not is not None
    assert check_case(case({"tool_called": "queue"}), seen, []).sound


def test_an_ordinary_case_holds_on_its_own_run_and_fails_for_an_agent_that_does_nothing() -> None:
    own = witness_of(clean(1, "look", "queue"))
    good = check_ordinary(case(ANSWERED, {"tool_called": "queue"}, NO_TIMEOUT), own)
    assert (good.sound, good.refused) == (True, ())
    idle = check_ordinary(case(NO_TIMEOUT, {"tool_not_called": "pay"}), own)
    assert idle.why_not == "cannot fail: an agent that does nothing passes it"
    wrong = check_ordinary(case({"tool_called": "pay"}), own)
    assert wrong.why_not == "none of its assertions holds on runs that went well"


def test_an_ordinary_case_asks_for_nothing_that_other_runs_of_its_request_do_without() -> None:
    own = witness_of(clean(1, "look", "queue"))
    others = [*runs(4, "look"), *runs(2, "look", "queue")]
    found = check_ordinary(case(ANSWERED, {"tool_called": "queue"}), own, others)
    assert found.refused == ((2, "tool_called (assertion 2) fails on 4 of 6 clean runs"),)
    assert found.sound
    assert found.case.assertions == (ANSWERED,)


def test_reasons_are_counted_over_the_cases() -> None:
    bad = check_case(case(ANSWERED), witness_of(failing()), [])
    assert notes_of([bad, bad]) == (
        "not a target: cannot fail on the evidence: not_empty held in the failing run (2 cases)",
    )


async def test_a_read_of_the_window_holds_every_case_against_its_run_and_clean_ones() -> None:
    good = [clean(10 + n, "look", "pay") for n in range(12)]
    source = MemorySource([failing(0), *good])
    cases = [
        case(NO_TIMEOUT, {"tool_called": "queue"}),
        case(ANSWERED, id=CaseId("c-2")),
        case(NO_TIMEOUT, id=CaseId("c-3"), origin="file:a.yaml"),
        case(ANSWERED, id=CaseId("c-4"), origin=f"trace:{trace_id(12)}",
             tags=frozenset({"sealed"})),
    ]  # fmt: skip
    found = await check_recorded(cases, source, TraceQuery())
    assert [one.sound for one in found.cases] == [True, False, True, True]
    assert found.cases[0].refused == (
        (2, "tool_called (assertion 2) fails on 12 of 12 clean runs"),
    )
    assert found.no_evidence == {"c-3"}
    assert found.clean == 12


async def test_the_order_of_the_traces_changes_nothing() -> None:
    traces = [failing(0), *(clean(10 + n, "pay") for n in range(150))]
    cases = [case(NO_TIMEOUT, {"contains": "queued"})]
    one = await check_recorded(cases, MemorySource(traces), TraceQuery())
    other = await check_recorded(cases, MemorySource(traces[::-1]), TraceQuery())
    assert one.cases == other.cases
    assert one.clean == 100
