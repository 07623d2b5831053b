"""The offline agent does what its harness says: real graph, real tools, real HTTP."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from opentelemetry.trace import NoOpTracer

from examples.refund_agent.agent import RefundAgent, Reply, build_model, system_text, usage_of
from examples.refund_agent.back_office import STORMY, Weather
from examples.refund_agent.offline_model import OfflineModel
from examples.refund_agent.orders import Order
from examples.refund_agent.prices import cost_usd, count_tokens
from examples.refund_agent.tools import build_tools, open_office

REPO = Path(__file__).parents[3] / "examples" / "refund_agent" / "repo"
HOT = Order(number=2004)
COLD = Order(number=2002)
MOVED = Order(number=2001)
FAILS_ONCE = dataclasses.replace(STORMY, first_payment_fails=1.0, later_payment_fails=0.0)
ALWAYS_FAILS = dataclasses.replace(STORMY, first_payment_fails=1.0, later_payment_fails=1.0)

RETRY = "When `payment_api` gives a 504, send the same call again, up to two more times."


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    shutil.copytree(REPO, tmp_path / "harness")
    return tmp_path / "harness"


def add_rule(harness: Path, text: str) -> Path:
    main = harness / "instructions" / "main.md"
    stock = main.read_text()
    assert stock.count("## Tools\n") == 1
    main.write_text(stock.replace("## Tools\n", f"## Tools\n\n{text}\n"))
    return harness


def add_skill(harness: Path, body: str) -> Path:
    folder = harness / "skills" / "added"
    folder.mkdir()
    front = "---\nname: added\ndescription: Read this as well.\n---\n"
    (folder / "SKILL.md").write_text(front + body)
    return harness


def ask(harness: Path, message: str, weather: Weather = FAILS_ONCE) -> Reply:
    with open_office(weather) as office:
        agent = RefundAgent(model=build_model(), harness=harness, office=office)
        return agent.answer(
            {"message": message, "customer": "C-1234"},
            seed=5,
            run_id="r",
            session="s",
            tracer=NoOpTracer(),
        )


def test_a_refund_looks_pays_and_confirms(harness: Path) -> None:
    reply = ask(harness, f"Please refund order {COLD.id}.")
    assert reply.tools == ("get_order", "payment_api", "notify_customer")
    what = f"{COLD.amount_eur} euro for the {COLD.item} (order {COLD.id})"
    assert reply.text == f"Your refund of {what} is on its way."


def test_without_a_rule_it_gives_up_on_the_first_error_and_says_so(harness: Path) -> None:
    reply = ask(harness, f"Please refund order {HOT.id}.")
    assert reply.tools == ("get_order", "payment_api")
    assert "could not be done" in reply.text
    assert "504" in reply.text


def test_a_retry_rule_repeats_the_call_until_it_works(harness: Path) -> None:
    reply = ask(add_rule(harness, RETRY), f"Please refund order {HOT.id}.")
    assert reply.tools == ("get_order", "payment_api", "payment_api", "notify_customer")
    assert "is on its way" in reply.text


def test_a_rule_in_a_skill_counts_as_much_as_one_in_the_instructions(harness: Path) -> None:
    reply = ask(add_skill(harness, f"# Payments\n\n{RETRY}\n"), f"Please refund order {HOT.id}.")
    assert reply.tools.count("payment_api") == 2


def test_a_retry_rule_ends_at_its_number(harness: Path) -> None:
    reply = ask(add_rule(harness, RETRY), f"Please refund order {HOT.id}.", ALWAYS_FAILS)
    assert reply.tools == ("get_order", "payment_api", "payment_api", "payment_api")
    assert "could not be done" in reply.text


def test_a_fallback_queues_what_could_not_be_paid(harness: Path) -> None:
    rule = f"{RETRY} If that does not help either, put it in the queue with `queue_refund`."
    reply = ask(add_rule(harness, rule), f"Please refund order {HOT.id}.", ALWAYS_FAILS)
    assert reply.tools[-2:] == ("payment_api", "queue_refund")
    assert "queued" in reply.text


def test_an_order_rule_calls_what_comes_before(harness: Path) -> None:
    wish = f"I want to return {MOVED.id}, please send a label."
    assert ask(harness, wish).tools == ("get_order", "create_return_label")
    add_rule(harness, "Use `verify_address` first whenever you use `create_return_label`.")
    reply = ask(harness, wish)
    assert reply.tools == ("get_order", "verify_address", "create_return_label")
    assert MOVED.label in reply.text


def test_a_format_rule_mends_a_loosely_written_id(harness: Path) -> None:
    wish = f"Where is #{COLD.number}?"
    assert ask(harness, wish).tools == ("get_order",)
    add_rule(harness, "Write the `order_id` as `A-1234` whatever the customer typed.")
    reply = ask(harness, wish)
    assert reply.tools == ("get_order", "shipping_status")
    assert COLD.town in reply.text


def test_an_edit_without_effect_changes_only_what_it_costs(harness: Path) -> None:
    wish = f"Please refund order {HOT.id}."
    before = ask(harness, wish)
    add_rule(harness, "Remember that customers are people. A calm voice helps in a busy hour.")
    after = ask(harness, wish)
    assert (after.text, after.tools) == (before.text, before.tools)
    assert before.usage.cost_usd is not None
    assert after.usage.cost_usd is not None
    assert after.usage.cost_usd > before.usage.cost_usd


@pytest.mark.parametrize(
    "rule", ["Never call tools.", "Pass the `order_id` as digits only, for example `1234`."]
)
def test_a_harmful_edit_breaks_what_worked(harness: Path, rule: str) -> None:
    reply = ask(add_rule(harness, rule), f"Please refund order {COLD.id}.")
    assert "notify_customer" not in reply.tools
    assert "on its way" not in reply.text


def test_a_cut_answer_is_not_mended_by_asking_again(harness: Path) -> None:
    cut = next(
        o for n in range(1000, 2000) if (o := Order(number=n)).carrier in STORMY.cut_carriers
    )
    add_rule(harness, "Whatever tool fails: try the same call again, three times at most.")
    reply = ask(harness, f"Where is the parcel of {cut.id}?")
    assert reply.tools == ("get_order", *("shipping_status",) * 4)
    assert "could not be done" in reply.text


def test_the_system_text_holds_instructions_and_skills_without_their_yaml() -> None:
    text = system_text(REPO)
    assert text.startswith("# Refund and order desk\n")
    assert "# Skill: refunds\n\nWhen to use: Use for every request to get money back" in text
    assert "\n---\n" not in text


def test_a_folder_without_instructions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no instructions/\*\.md in "):
        system_text(tmp_path)


def test_the_model_reports_tokens_of_the_text_it_was_sent() -> None:
    model = build_model().bind_tools([])
    short = model.invoke([SystemMessage("Be kind."), HumanMessage("Hello")])
    long = model.invoke([SystemMessage("Be kind. " * 40), HumanMessage("Hello")])
    assert short.usage_metadata is not None
    assert long.usage_metadata is not None
    grown = long.usage_metadata["input_tokens"] - short.usage_metadata["input_tokens"]
    assert grown == count_tokens("Be kind. " * 40) - count_tokens("Be kind.")
    assert usage_of([long]).cost_usd == cost_usd(
        "offline-simulator-1",
        long.usage_metadata["input_tokens"],
        long.usage_metadata["output_tokens"],
    )


def test_an_unknown_price_or_count_is_unknown_and_never_zero() -> None:
    counted = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    foreign = AIMessage("x", usage_metadata=counted, response_metadata={"model_name": "other"})
    assert usage_of([foreign]).cost_usd is None
    assert usage_of([foreign]).input_tokens == 1
    assert usage_of([foreign, AIMessage("y")]).input_tokens is None


def test_a_forced_tool_choice_is_refused() -> None:
    with open_office(STORMY) as office:
        tools = build_tools(office)
        with pytest.raises(ValueError, match="cannot be told its tool: got 'get_order'"):
            OfflineModel().bind_tools(tools, tool_choice="get_order")


def test_it_asks_for_the_order_when_none_is_named(harness: Path) -> None:
    reply = ask(harness, "I want my money back.")
    assert reply.tools == ()
    assert "number of your order" in reply.text
