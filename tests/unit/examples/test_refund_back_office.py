"""The back office misbehaves as documented, and equally for equal seeds."""

import dataclasses
import json

import httpx
import pytest

from examples.refund_agent.back_office import (
    ATTEMPT_HEADER,
    CALM,
    SEED_HEADER,
    STORMY,
    BackOffice,
    Call,
    open_back_office,
)
from examples.refund_agent.orders import Order

HOT = next(o for n in range(1000, 9999) if (o := Order(number=n)).shard in STORMY.hot_shards)
COLD = next(o for n in range(1000, 9999) if (o := Order(number=n)).shard not in STORMY.hot_shards)
MOVED = next(o for n in range(1000, 9999) if (o := Order(number=n)).moved)
CUT = next(o for n in range(1000, 9999) if (o := Order(number=n)).carrier in STORMY.cut_carriers)


def call(tool: str, *, seed: int = 1, attempt: int = 1, run_id: str = "r", **given: str) -> Call:
    return Call(tool=tool, arguments=given, seed=seed, run_id=run_id, attempt=attempt)


def pay(order: Order, *, seed: int, attempt: int) -> int:
    office = BackOffice(STORMY)
    return office.answer(call("payment_api", seed=seed, attempt=attempt, order_id=order.id)).status


def test_equal_seed_tool_and_attempt_see_the_same_world() -> None:
    seen = [[pay(HOT, seed=s, attempt=a) for s in range(50) for a in (1, 2)] for _ in range(2)]
    assert seen[0] == seen[1]
    assert set(seen[0]) == {200, 504}


def test_a_hot_shard_fails_the_first_payment_mostly_and_later_ones_seldom() -> None:
    first = sum(pay(HOT, seed=s, attempt=1) == 504 for s in range(1000)) / 1000
    later = sum(pay(HOT, seed=s, attempt=2) == 504 for s in range(1000)) / 1000
    assert first == pytest.approx(0.9, abs=0.04)
    assert later == pytest.approx(0.3, abs=0.06)


def test_payments_never_fail_on_a_cold_shard_or_in_calm_weather() -> None:
    assert all(pay(COLD, seed=s, attempt=1) == 200 for s in range(100))
    calm = BackOffice(CALM)
    assert calm.answer(call("payment_api", order_id=HOT.id)).status == 200


def test_about_a_quarter_of_the_orders_is_hot() -> None:
    hot = sum(Order(number=n).shard in STORMY.hot_shards for n in range(1000, 7000)) / 6000
    assert 0.25 <= hot <= 0.30


@pytest.mark.parametrize("given", ["1042", "#1042", "a1042", "A1042", "A-104", ""])
def test_a_loosely_written_order_id_is_refused_and_the_form_is_told(given: str) -> None:
    reply = BackOffice(CALM).answer(call("get_order", order_id=given))
    assert reply.status == 422
    assert "such as A-1042" in json.loads(reply.body)["error"]


def test_a_moved_customer_needs_the_address_verified_in_the_same_run() -> None:
    office = BackOffice(CALM)
    label = call("create_return_label", order_id=MOVED.id)
    assert office.answer(label).status == 409
    office.answer(call("verify_address", order_id=MOVED.id, run_id="another"))
    assert office.answer(label).status == 409
    office.answer(call("verify_address", order_id=MOVED.id))
    assert office.answer(label).status == 200
    office.forget("r")
    assert office.answer(label).status == 409


def test_a_cut_tracking_answer_stays_cut_however_often_one_asks() -> None:
    office = BackOffice(STORMY)
    for attempt in (1, 2, 3):
        reply = office.answer(call("shipping_status", attempt=attempt, order_id=CUT.id))
        assert reply.status == 200
        with pytest.raises(json.JSONDecodeError):
            json.loads(reply.body)
    whole = BackOffice(CALM).answer(call("shipping_status", order_id=CUT.id))
    assert json.loads(whole.body)["carrier"] == CUT.carrier


def test_the_loyalty_quota_refuses_wholesale_accounts_in_any_weather() -> None:
    for weather in (CALM, STORMY):
        office = BackOffice(dataclasses.replace(weather, quota_used_up=1.0))
        assert office.answer(call("loyalty_points", customer="C-9001")).status == 429
        assert office.answer(call("loyalty_points", customer="C-1001")).status == 200


def test_it_answers_over_http_by_the_headers_of_the_call() -> None:
    seeds = [s for s in range(50) if pay(HOT, seed=s, attempt=1) == 504]
    with open_back_office(STORMY) as (url, _), httpx.Client(base_url=url, trust_env=False) as http:
        for attempt in (1, 2):
            answer = http.post(
                "/payment_api",
                json={"order_id": HOT.id},
                headers={SEED_HEADER: str(seeds[0]), ATTEMPT_HEADER: str(attempt)},
            )
            assert answer.status_code == pay(HOT, seed=seeds[0], attempt=attempt)
        assert http.post("/nowhere", json={}).status_code == 404


def test_an_order_number_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"order number out of range 1000\.\.9999: 12"):
        Order(number=12)
