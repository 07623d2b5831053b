"""The made-up traffic and the sealed cases are of one kind and never the same."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from contracts.gate import Case, CaseId
from examples.refund_agent.back_office import STORMY
from examples.refund_agent.following.request import understand
from examples.refund_agent.orders import order_of, wholesale
from examples.refund_agent.requests import FIRST_ORDER, LAST_ORDER, Request, generate
from memory.cases import load_cases
from memory.families import assign_families

SEALED = Path(__file__).parents[3] / "examples" / "refund_agent" / "repo" / "cases" / "sealed.yaml"


def number_of(message: str) -> int | None:
    found = understand(message).order
    return int(re.sub(r"\D", "", found)) if found else None


def sealed() -> list[dict[str, object]]:
    cases = yaml.safe_load(SEALED.read_text())
    assert isinstance(cases, list)
    return cases


def as_case(case_id: str, case_input: dict[str, str]) -> Case:
    return Case(
        id=CaseId(case_id),
        input=case_input,
        assertions=(),
        tags=frozenset(),
        family="",
        origin="test",
    )


def test_equal_seeds_give_equal_requests_and_others_do_not() -> None:
    assert generate(40, 3) == generate(40, 3)
    assert generate(40, 3) != generate(40, 4)


@pytest.mark.parametrize("seed", [0, 1, 7, 42])
def test_the_mix_holds_in_every_recording(seed: int) -> None:
    requests = generate(150, seed)
    wishes = Counter(understand(r.message).wish for r in requests)
    assert wishes == {"refund": 90, "shipping": 30, "return": 12, "loyalty": 10, "order": 8}
    assert sum(wholesale(r.customer) for r in requests) == 2
    loose = [r for r in requests if (o := understand(r.message).order) and order_of(o) is None]
    assert 12 <= len(loose) <= 15
    assert len({r.customer for r in requests}) == len({r.session for r in requests}) == 150


@pytest.mark.parametrize("seed", range(5))
def test_hot_orders_are_about_a_quarter_of_the_refunds(seed: int) -> None:
    refunds = [r for r in generate(150, seed) if understand(r.message).wish == "refund"]
    numbers = [n for r in refunds if (n := number_of(r.message)) is not None]
    hot = sum(n % 11 in STORMY.hot_shards for n in numbers) / len(numbers)
    assert 0.22 <= hot <= 0.33


def test_a_recording_has_each_order_once_and_none_of_the_sealed_ones() -> None:
    numbers = [n for r in generate(150, 7) if (n := number_of(r.message)) is not None]
    assert len(set(numbers)) == len(numbers)
    assert all(FIRST_ORDER <= n <= LAST_ORDER for n in numbers)
    for case in sealed():
        message = case["input"]["message"]  # type: ignore[index]  # checked by the next test
        number = number_of(message)
        assert number is None or number > LAST_ORDER


def test_sealed_cases_are_64_whole_cases() -> None:
    cases = sealed()
    assert len({str(case["id"]) for case in cases}) == len(cases) == 64
    for case in cases:
        assert set(case) == {"id", "input", "tags", "assert"}
        assert case["tags"] == ["sealed"]
        kinds = [kind for item in case["assert"] for kind in item]  # type: ignore[attr-defined]
        assert kinds == ["not_empty", "tool_called", "contains"]
        assert set(case["input"]) == {"message", "customer"}  # type: ignore[call-overload]


@pytest.mark.parametrize("seed", [7, 1007, 5007])
def test_sealed_cases_are_64_families_and_none_is_in_the_traffic(seed: int) -> None:
    loaded = load_cases(SEALED.parents[1], ["cases/*.yaml"])
    assert len({case.family for case in loaded}) == len(loaded) == 64
    traffic = [as_case(r.session, r.input) for r in generate(300, seed)]
    # Families that are set are never joined: those of the file are worked out again.
    together = assign_families([*(replace(case, family="") for case in loaded), *traffic])
    families = [case.family for case in together]
    assert len(set(families[:64])) == 64
    assert not set(families[:64]) & set(families[64:])


def test_a_request_is_given_to_the_agent_as_message_and_customer() -> None:
    request = Request(message="Hello", customer="C-1", session="s-1")
    assert request.input == {"message": "Hello", "customer": "C-1"}
