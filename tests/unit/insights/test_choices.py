"""People's choices as an analysis applies them: pure, lasting, learned from, never in a circle."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import UsageError
from contracts.findings import Signature
from contracts.json_types import Json
from memory.choices import Choice, ChoiceKind
from nodes.insights.choices import NONE, Choices, check_merge, choices_of, regrouped
from nodes.insights.signature import template_hash

OLD, PAY = "tool_error:pay_v1:500", "tool_error:pay:500"
WORDS = "the payment service answered <n> internal error for order <id>"


def choice(
    kind: ChoiceKind, signature: str, body: Mapping[str, Json], n: int = 0, by: str = "ann"
) -> Choice:
    at = f"2026-11-30T10:00:{n:02d}.000000Z"
    return Choice(id=f"h-{n}", kind=kind, signature=signature, body=body, by=by, at=at)


def merged(one: str, into: str, n: int = 0, template: str = WORDS) -> Choice:
    return choice("merge", one, {"into": into, "template": template}, n)


def moved(choices: Choices, **templates: str) -> dict[str, str]:
    """Where signatures with these messages go; `__` stands for a colon."""
    groups = {Signature(name.replace("__", ":")): [text] for name, text in templates.items()}
    return {str(name): str(one.into) for name, one in regrouped(groups, choices).items()}


def test_nobody_said_anything_and_nothing_moves() -> None:
    assert moved(NONE, tool_error__pay__500=WORDS) == {}


def test_a_merge_moves_the_signature_and_names_the_choice_and_the_person() -> None:
    (one,) = regrouped({Signature(OLD): [WORDS]}, choices_of([merged(OLD, PAY)])).values()
    assert (one.into, one.by) == (PAY, "ann")
    assert one.why == "ann merged them (choice h-0)"


def test_a_later_signature_of_like_place_and_words_follows_the_merge() -> None:
    choices = choices_of([merged(OLD, PAY)])
    (one,) = regrouped({Signature("tool_error:pay_v2:500"): [WORDS]}, choices).values()
    assert one.into == PAY
    assert one.why == f"same kind, code and words as {OLD}, which ann merged (choice h-0)"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("tool_error:search:500", WORDS),  # another tool that fails with the same words
        ("tool_error:pay_v2:503", WORDS),  # another code
        ("tool_timeout:pay_v2:500", WORDS),  # another kind
        ("tool_error:pay_v2:500", "card declined"),  # other words
        ("tool_error:get_pay_limit:500", WORDS),  # a third of the name in common
    ],
)
def test_what_differs_in_one_of_them_does_not_follow(other: str, words: str) -> None:
    assert regrouped({Signature(other): [words]}, choices_of([merged(OLD, PAY)])) == {}


def test_where_the_words_were_not_known_nothing_follows() -> None:
    choices = choices_of([merged(OLD, PAY, template="")])
    assert moved(choices, tool_error__pay_v2__500=WORDS) == {}
    assert moved(choices, tool_error__pay_v1__500=WORDS) == {OLD: PAY}


def test_a_signature_that_people_named_or_closed_follows_nobody() -> None:
    named = choice("rename", "tool_error:pay_v2:500", {"title": "the new one"}, 1)
    choices = choices_of([merged(OLD, PAY), named])
    assert moved(choices, tool_error__pay_v2__500=WORDS) == {}


def test_a_chain_of_merges_leads_to_its_end() -> None:
    choices = choices_of([merged(OLD, PAY), merged(PAY, "tool_error:billing:500", 1)])
    assert moved(choices, tool_error__pay_v1__500=WORDS, tool_error__pay__500=WORDS) == {
        OLD: "tool_error:billing:500", PAY: "tool_error:billing:500",
    }  # fmt: skip


def test_a_split_takes_a_merge_back_and_keeps_likeness_from_making_it_again() -> None:
    choices = choices_of([merged(OLD, PAY), choice("split", OLD, {"from": PAY}, 1)])
    assert moved(choices, tool_error__pay_v1__500=WORDS) == {}
    assert choices.keeps_apart(OLD, PAY)
    assert choices.keeps_apart(PAY, OLD)
    again = choices_of([choice("split", OLD, {"from": PAY}), merged(OLD, PAY, 1)])
    assert moved(again, tool_error__pay_v1__500=WORDS) == {OLD: PAY}
    assert not again.keeps_apart(OLD, PAY)


def test_a_split_follower_stays_out_while_others_follow() -> None:
    split = choice("split", "tool_error:pay_v2:500", {"from": PAY}, 1)
    choices = choices_of([merged(OLD, PAY), split])
    both = moved(choices, tool_error__pay_v2__500=WORDS, tool_error__pay_v3__500=WORDS)
    assert both == {"tool_error:pay_v3:500": PAY}


def test_a_wording_that_was_split_off_has_a_mark_of_its_own() -> None:
    mark = template_hash("card declined")
    choices = choices_of([choice("split", f"{PAY}~{mark}", {"from": PAY})])
    assert choices.own_marks(PAY) == {mark}
    assert choices.own_marks(OLD) == frozenset()
    assert choices_of([choice("split", OLD, {"from": PAY})]).own_marks(OLD) == frozenset()


def test_the_newest_name_and_the_newest_of_close_and_reopen_hold() -> None:
    said = [
        choice("rename", PAY, {"title": "one"}, 0), choice("rename", PAY, {"title": "two"}, 1),
        choice("close", PAY, {"reason": "known", "units": 3, "units_total": 90}, 2),
    ]  # fmt: skip
    choices = choices_of(said)
    assert choices.title(PAY) == "two"
    assert (choices.closed[PAY].units, choices.closed[PAY].units_total) == (3, 90)
    assert choices_of([*said, choice("reopen", PAY, {"reason": "x"}, 3)]).closed == {}


def test_a_circle_is_refused_in_one_line_that_names_the_choice_in_the_way() -> None:
    choices = choices_of([merged("a:1", "b:1"), merged("b:1", "c:1", 1)])
    with pytest.raises(UsageError, match=r"c:1 into a:1: would go round .* choice h-0"):
        check_merge("c:1", "a:1", choices)
    with pytest.raises(UsageError, match="cannot be merged into itself"):
        check_merge("a:1", "a:1", NONE)
    check_merge("a:1", "d:1", choices)  # another end of the chain is fine


_NAMES = st.sampled_from([f"tool_error:pay_v{n}:500" for n in range(5)])


@given(st.lists(st.tuples(st.sampled_from(["merge", "split"]), _NAMES, _NAMES), max_size=12))
def test_whatever_was_said_merges_end_and_never_lead_through_a_split(
    said: list[tuple[ChoiceKind, str, str]],
) -> None:
    listed = [
        choice(kind, one, {"into" if kind == "merge" else "from": other, "template": WORDS}, n)
        for n, (kind, one, other) in enumerate(said)
        if one != other
    ]
    choices = choices_of(listed)
    groups = {Signature(f"tool_error:pay_v{n}:500"): [WORDS] for n in range(5)}
    for signature, one in regrouped(groups, choices).items():
        assert one.into != signature
        assert (signature, choices.merged.get(signature, None)) is not None
        if signature not in choices.merged:
            assert not choices.keeps_apart(signature, one.into)
