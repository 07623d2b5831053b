"""What holds for the offline model's grammar whatever the text."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples.refund_agent.following.directives import Directives, read_directives
from examples.refund_agent.following.id_format import IdFormat
from examples.refund_agent.following.plan import Answer, Done, Situation, next_step
from examples.refund_agent.following.request import TRADE, understand
from examples.refund_agent.following.retry import MOST

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

TOOLS = {tool: ("order_id",) for tools in TRADE.values() for tool in tools}
WORDS = [
    *("never", "call", "retry", "again", "payment_api", "get_order", "504", "5xx", "three"),
    *("times", "before", "after", "if", "fails", "instead", "order id", "A-1042", "`1042`"),
    *("the customer", "once", "until", "first", "then", ".", ",", ":", ";", "\n", "-", "# not"),
]
phrases = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)


@unhurried
@given(st.one_of(st.text(max_size=300), phrases))
def test_any_text_can_be_read_and_reads_the_same_twice(text: str) -> None:
    rules = read_directives(text, tuple(TOOLS), ("order_id",))
    assert rules == read_directives(text, tuple(TOOLS), ("order_id",))
    assert all(0 <= rule.times <= MOST for rule in rules.retries)
    assert all(rule.first != rule.then for rule in rules.befores)
    assert all(rule.instead != rule.tool for rule in rules.fallbacks)


@unhurried
@given(st.text(alphabet="abcdefghijklm nop.", max_size=200))
def test_text_that_names_no_tool_no_number_and_no_rule_changes_nothing(text: str) -> None:
    assert read_directives(text, tuple(TOOLS), ("order_id",)) == Directives()


@unhurried
@given(phrases, st.sets(st.sampled_from(sorted(TOOLS))), st.sampled_from(sorted(TRADE)))
def test_every_conversation_ends(text: str, broken: set[str], wish: str) -> None:
    rules = read_directives(text, tuple(TOOLS), ("order_id",))
    asked = {
        "refund": "refund A-1234",
        "shipping": "where is A-1234",
        "return": "label for A-1234",
        "loyalty": "points",
        "order": "A-1234?",
    }
    request = understand(asked[wish])
    assert request.wish == wish
    history: list[Done] = []
    for _ in range(3 * MOST + 10):
        step = next_step(Situation(request=request, tools=TOOLS, rules=rules, history=history))
        if isinstance(step, Answer):
            assert step.text
            return
        failed = step.tool in broken
        history.append(Done(step.tool, step.arguments, "HTTP 504" if failed else "{}", failed))
    raise AssertionError(f"still going after {[done.tool for done in history]}")


@unhurried
@given(
    st.sampled_from(["", "A", "ord"]),
    st.sampled_from(["", "-", "_"]),
    st.integers(1, 6),
    st.from_regex(r"#?[A-Za-z]?-?[0-9]{1,6}", fullmatch=True),
)
def test_writing_an_id_twice_changes_nothing_more(
    letters: str, separator: str, digits: int, given_id: str
) -> None:
    form = IdFormat("order_id", letters, separator, digits)
    once = form.write(given_id)
    assert form.write(once) == once
