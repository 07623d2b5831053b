"""The offline model's grammar: paraphrases mean the same, other prose means nothing."""

from pathlib import Path

import pytest

from examples.refund_agent.agent import system_text
from examples.refund_agent.following.directives import Directives, read_directives
from examples.refund_agent.following.id_format import IdFormat

REPO = Path(__file__).parents[3] / "examples" / "refund_agent" / "repo"
TOOLS = (
    "get_order",
    "payment_api",
    "queue_refund",
    "notify_customer",
    "shipping_status",
    "verify_address",
    "create_return_label",
    "loyalty_points",
)
PARAMETERS = ("order_id", "amount_eur", "reason", "message", "customer")
NONE = frozenset[int]()


def read(text: str) -> Directives:
    return read_directives(text, TOOLS, PARAMETERS)


RETRY_504_THREE_TIMES = (
    "If `payment_api` answers with status 504 or times out, call it again with the same "
    "arguments, at most 3 times, before you tell the customer that the refund did not work.",
    "Retry payment_api up to three times on 504.",
    "A 504 from the payment API is temporary. Repeat the call until it succeeds, but stop after "
    "3 attempts.",
    "When `payment_api` fails with HTTP 504:\n- wait a moment,\n- try again, not more than 3 "
    "times,\n- then say what happened.",
    "Should payment_api time out, make up to 3 further attempts with identical arguments.",
    "Never give up on a 504 of `payment_api` before you have called it again three times.",
    "Gateway timeouts (504) of `payment_api` pass quickly: give it up to 3 more tries.",
    "Make at most 4 attempts in total to call `payment_api` if it answers 504, retrying with the "
    "same arguments.",
    "Do not retry `payment_api` more than 3 times when it answers 504.",
    "Transient errors of `payment_api` (status 504): repeat the same call up to 3 times. Do not "
    "repeat it after any other error.",
    "You may repeat a `payment_api` call that ended in a 504; three repetitions are the limit.",
    "# Skill: patience\n\nWhen to use: Use when payment_api answers 504.\n\n# A busy hour\n\n"
    "Call the tool again with exactly the same arguments. Do this at most 3 times.",
    "`payment_api` sometimes answers 504. When it does, send the same call again. Try three "
    "times before you stop.",
)


@pytest.mark.parametrize("text", RETRY_504_THREE_TIMES)
def test_retry_paraphrases_mean_three_more_calls_of_that_tool_on_that_status(text: str) -> None:
    rules = read(text)
    assert rules.retries_of("payment_api", frozenset({504})) == 3
    assert rules.retries_of("payment_api", frozenset({422})) == 0
    assert rules.retries_of("get_order", frozenset({504})) == 0


@pytest.mark.parametrize(
    ("text", "tool", "status", "times"),
    [
        ("Any tool that answers 5xx is called again, twice.", "shipping_status", 503, 2),
        ("Retry `loyalty_points` once when it hits the rate limit.", "loyalty_points", 429, 1),
        ("If a tool fails, try the call again.", "get_order", 422, 1),
        ("Retry `payment_api` on 504.\nDo so at most twice.", "payment_api", 504, 2),
        ("Retry `payment_api` up to 50 times on 504.", "payment_api", 504, 10),
    ],
)
def test_retry_takes_tool_status_and_count_from_the_text(
    text: str, tool: str, status: int, times: int
) -> None:
    assert read(text).retries_of(tool, frozenset({status})) == times


@pytest.mark.parametrize(
    "text",
    [
        "Ask the customer to try again later.",
        "If it keeps failing, suggest that the customer calls again.",
        "Do not retry `payment_api`.",
        "After three retries of `payment_api` tell the customer.",
        "Payments over 500 euro are called in again by a colleague.",
        "Do not call the same tool again and again.",
        "Invite customers to shop with us again.",
        "```\nRetry payment_api 3 times on 504.\n```",
        "# Retry payment_api 3 times on 504",
    ],
)
def test_prose_that_asks_for_no_second_call_gives_none(text: str) -> None:
    assert read(text).retries_of("payment_api", frozenset({504})) == 0


def test_a_rule_about_one_tool_beats_a_later_one_about_any_tool() -> None:
    rules = read("Retry `payment_api` 3 times on 504.\n\nEvery tool is tried again once.")
    assert rules.retries_of("payment_api", frozenset({504})) == 3
    assert rules.retries_of("get_order", frozenset({504})) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Always call `verify_address` before `create_return_label`.",
        "Before you call `create_return_label`, call `verify_address` for the same order.",
        "Call `create_return_label` only after `verify_address` has confirmed the address.",
        "For `create_return_label`, call `verify_address` first.",
        "Do not call `create_return_label` until `verify_address` has answered.",
        "Once `verify_address` has succeeded, go on with `create_return_label`.",
        "Never create a return label without verifying the address.",
        "`create_return_label` fails with status 409 when `verify_address` was not called before. "
        "Always call `verify_address` first.",
        "# Skill: labels\n\nWhen to use: Use before every call of create_return_label.\n\nCall "
        "`verify_address` first, with the same order id.",
    ],
)
def test_order_paraphrases_put_the_check_before_the_label(text: str) -> None:
    rules = read(text)
    assert rules.before("create_return_label") == ("verify_address",)
    assert rules.before("verify_address") == ()
    assert not rules.retries
    assert not rules.fallbacks
    assert not rules.forbidden


@pytest.mark.parametrize(
    "text",
    [
        "Pass `order_id` in the form `A-1042`: a capital letter, a hyphen, four digits.",
        "Order ids look like A-1042; rewrite what the customer wrote, such as `1042` or `#1042`, "
        "to that form.",
        "Normalise `1042`, `#1042` and `a1042` to `A-1042` before you use it as an order id.",
        "Always write the order number as `A-0000`.",
        r"The order_id must match `[A-Z]-\d{4}`.",
        "Customers write order ids as 1042 or a1042; always send `A-1042`.",
        "`get_order` accepts an order id only in the form A-1042, never `1042` or `a1042`.",
        "`order_id`: the tools expect the format `A-NNNN`. Rewrite what the customer typed.",
    ],
)
@pytest.mark.parametrize("given", ["7031", "#7031", "a7031", "A-7031"])
def test_format_paraphrases_write_a_loose_id_as_documented(text: str, given: str) -> None:
    rules = read(text)
    assert rules.write_id("order_id", given) == "A-7031"
    assert rules.write_id("customer", "C-2001") == "C-2001"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Pass order_id as digits only, such as `1042`.", "7031"),
        ("Write every order id in lower case without the hyphen, for example `a1042`.", "a7031"),
        ("Send the order id in the form `ORD-1042`.", "ORD-7031"),
    ],
)
def test_a_wrong_format_is_followed_as_faithfully(text: str, written: str) -> None:
    assert read(text).write_id("order_id", "A-7031") == written


def test_without_a_format_the_id_stays_as_the_customer_wrote_it() -> None:
    rules = read("Be polite. The order id is on the invoice.")
    assert rules.write_id("order_id", "#7031") == "#7031"
    assert IdFormat("order_id", "A", "-", 4).write("none yet") == "none yet"


@pytest.mark.parametrize(
    "text",
    [
        "If `payment_api` still fails after that, call `queue_refund` instead.",
        "If `payment_api` fails three times, queue it with `queue_refund`.",
        "When the payment API cannot be reached and all attempts fail, queue the refund instead.",
        "After a failed payment_api call, fall back to queue_refund.",
        "Use `queue_refund` as a last resort when `payment_api` keeps timing out.",
        "If payment_api answers 504, queue it instead.",
        "`queue_refund` is the fallback for `payment_api`.",
        "Retry `payment_api` twice on 504; if it still fails, hand the refund over to "
        "`queue_refund`.",
    ],
)
def test_fallback_paraphrases_name_the_substitute(text: str) -> None:
    rules = read(text)
    assert rules.instead_of("payment_api") == "queue_refund"
    assert not rules.befores


@pytest.mark.parametrize(
    "text",
    [
        "If `payment_api` fails, do not notify the customer.",
        "Call `payment_api` again before you notify the customer that the refund failed.",
        "If it fails, the payment service is down.",
    ],
)
def test_naming_a_tool_beside_a_failure_makes_no_fallback(text: str) -> None:
    assert read(text).instead_of("payment_api") is None


@pytest.mark.parametrize(
    ("text", "tool", "forbidden"),
    [
        ("Never call tools.", "get_order", True),
        ("Do not use any tools; answer from memory.", "payment_api", True),
        ("Do not call `payment_api`.", "payment_api", True),
        ("Do not call `payment_api`.", "get_order", False),
        ("Never call `payment_api` if the order is unpaid.", "payment_api", False),
        ("Do not call `payment_api` twice for one order.", "payment_api", False),
        ("Use the tools, not your memory.", "get_order", False),
    ],
)
def test_only_an_unconditional_ban_forbids(text: str, tool: str, *, forbidden: bool) -> None:
    assert read(text).forbids(tool) is forbidden


def test_the_stock_instructions_hold_no_rule_that_fixes_anything() -> None:
    assert read(system_text(REPO)) == Directives()
