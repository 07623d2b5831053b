"""Failures in shapes and words that other interfaces use, each beside a near miss that is fine."""

import pytest

from contracts.json_types import Json
from tests.silent_worlds import call, kinds, the
from tests.trace_worlds import OtlpSpan, root, tool

TRACE = "Traceback (most recent call last):\n  File '<s>', line 1\nModuleNotFoundError: No module"


def ended(said: str, *before: OtlpSpan, system: str = "You help.") -> tuple[OtlpSpan, ...]:
    return (root("go", said), *before, call(9, said, system=system, user="go"))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"errcode": 40003, "errmsg": "invalid openid"}, "tool_error"),
        ({"error_code": 17, "message": "no such room"}, "tool_error"),
        ({"content": [{"type": "text", "text": "DatabaseError: session ended, sign in again."}]},
         "auth"),
        ({"content": [{"type": "text", "text": '{"ok": false, "error": "not_in_channel"}'}]},
         "tool_error"),
    ],
)  # fmt: skip
def test_an_interface_that_tells_its_failure_its_own_way_is_read(answer: Json, kind: str) -> None:
    assert kinds(*ended("I could not do it.", tool(1, "act", {}, answer))) == {kind}


@pytest.mark.parametrize(
    "answer",
    [
        {"errcode": 0, "errmsg": "ok"},
        {"error_code": None, "message": "saved"},
        {"content": [{"type": "text", "text": "3 rooms are free"}]},
        "How to sign in: open the page, enter your password. If the token expired, renew it.",
        "When your session is no longer valid, the page asks you to log in again.",
    ],
)
def test_what_only_looks_like_such_a_failure_is_fine(answer: Json) -> None:
    assert kinds(*ended("Here is what I found.", tool(1, "act", {}, answer))) == set()


def test_figures_after_nothing_but_stack_traces_are_invented() -> None:
    code = tool(
        1, "python", {"code": "import pandas; print(pandas.read_csv('d.csv').mean())"}, TRACE
    )
    steps = ended("The mean is 42.7 over 1,204 rows.", code)
    assert kinds(*steps) == {"unsupported_claim"}
    assert the("unsupported_claim", *steps).evidence.quote.endswith("No module")


@pytest.mark.parametrize(
    "said",
    ["It fails: there is no such module.", "The script raises ModuleNotFoundError at line 1."],
)
def test_who_tells_of_the_stack_trace_invents_nothing(said: str) -> None:
    assert kinds(*ended(said, tool(1, "python", {"code": "import pandas"}, TRACE))) == set()


@pytest.mark.parametrize("state", ["cancelled", "pending", "rejected"])
def test_an_order_that_did_not_go_has_not_shipped(state: str) -> None:
    order = tool(1, "get_order", {"id": 12}, {"id": 12, "status": state})
    assert kinds(*ended("Your order 12 has been delivered.", order)) == {"contradicted_output"}
    assert kinds(*ended(f"Your order 12 is {state}.", order)) == set()


JSON_RULES = (
    "Always answer in JSON with the keys total and currency.",
    "You sum up orders.\nRespond only with a JSON object.",
    "Every reply must be JSON.",
)


@pytest.mark.parametrize("system", JSON_RULES)
def test_prose_where_json_is_the_rule_ignores_an_instruction(system: str) -> None:
    steps = ended("The total is five euros.", system=system)
    assert kinds(*steps) == {"ignored_instruction"}
    assert kinds(*ended('{"total": 5}', system=system)) == set()


@pytest.mark.parametrize(
    "system",
    [
        "If the user asks for data, answer only with JSON.",
        "Tools always return their results as JSON.",
        "You may answer in JSON or in prose.",
    ],
)
def test_json_that_is_asked_for_elsewhere_is_no_rule_for_the_answer(system: str) -> None:
    assert kinds(*ended("The total is five euros.", system=system)) == set()


def test_a_frameworks_last_words_in_place_of_an_answer_are_no_answer() -> None:
    for said in ("Agent stopped due to max iterations.",
                 "Sorry, need more steps to process this request."):  # fmt: skip
        assert kinds(*ended(said)) == {"unfinished"}
    assert kinds(*ended("The agent stopped at step 3 of 5, as you asked.")) == set()
