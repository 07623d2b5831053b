"""Which failures are one finding: templates, look-alikes, wordings, people's choices, memory."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.findings import Finding, Signature
from contracts.traces import Trace, TraceQuery
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.choices import NONE, Choices, Taken
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.grouping import grouped
from nodes.insights.likeness import conflict, words_of
from nodes.insights.signature import split_templates, template_hash, template_of
from nodes.insights.similar import Side, merged_by_likeness
from nodes.insights.tally import Bounds, Tally
from tests.trace_worlds import MemorySource, root, tool, trace_of

KEY = "tool_error:pay:ValueError"
FORMAT = "order id must look like A-9999"
CLOSED = "the account of this customer has been closed since March"


def bad(n: int, message: str, place: str = "pay") -> Trace:
    return trace_of(
        root(f"refund {n}", trace=n),
        tool(1, place, {"n": n}, trace=n, error=("ValueError", message)),
    )


def good(n: int) -> Trace:
    return trace_of(root(f"refund {n}", trace=n), tool(1, "pay", {"n": n}, {"paid": n}, trace=n))


def analysed(
    traces: Sequence[Trace], known: Iterable[Finding] = (), choices: Choices = NONE
) -> Analysis:
    return asyncio.run(
        analyze(MemorySource(traces), TraceQuery(), project="p", known=known, choices=choices)
    )


def some(message: str, count: int, start: int = 0, place: str = "pay") -> list[Trace]:
    return [bad(start + n, message, place) for n in range(count)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the account of the customer is closed", "the account of the customer is locked"),
        ("the request to the office gave status 404", "the request to the office gave status 403"),
        ("this customer may use the refund desk", "this customer may not use the refund desk"),
        ("KeyError: the row was not there in table", "IndexError: the row was not there in table"),
        ("the card of the customer has expired", "the card of the customer was declined"),
        ("page 7 cannot be printed: its ink was used up by ann", 
         "page 7 cannot be printed: its paper was torn off by ann"),
    ],
)  # fmt: skip
def test_look_alikes_with_another_cause_stay_two_findings(one: str, other: str) -> None:
    found = analysed(some(one, 3) + some(other, 2, 10))
    assert sorted(f.units for f in found.findings) == [2, 3]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user alice was not found in the directory", "user bob was not found in the directory"),
        ("order A-1 must look like A-9999", "order B-22 must look like A-9999"),
        ("the desk in New York has no forms", "the desk in San Marino has no forms"),
        ("took 31.5 s for 12 rows of orders.csv", "took 8 s for 977 rows of orders.csv"),
    ],
)
def test_messages_that_differ_in_a_value_alone_are_one_finding(one: str, other: str) -> None:
    (found,) = analysed(some(one, 3) + some(other, 2, 10)).findings
    assert found.units == 5


def test_values_at_two_places_are_one_finding_once_there_are_many() -> None:
    pairs = [("ann", "acme"), ("bob", "globex"), ("eve", "initech"), ("joe", "umbrella")]
    traces = [
        one
        for n, (who, firm) in enumerate(pairs)
        for one in some(f"user {who} was found nowhere in the books of {firm} today", 2, 10 * n)
    ]
    assert [f.units for f in analysed(traces).findings] == [8]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the year must have four digits, got 98", "98 is no year: please give all four digits"),
        ("order id must be a number with dashes", "order id is not a number with dashes"),
    ],
)
def test_a_demand_and_a_refusal_in_the_same_words_are_one_finding(one: str, other: str) -> None:
    (found,) = analysed(some(one, 3) + some(other, 2, 10)).findings
    assert found.units == 5


def test_a_message_that_only_adds_to_another_is_merged_with_the_evidence() -> None:
    short = "could not reach the office printer"
    longer = "could not reach the office printer from here in this part of town in our working week"
    (found,) = analysed(some(short, 4) + some(longer, 2, 10)).findings
    assert found.units == 6
    (merge,) = found.merged
    assert (merge.units, merge.by) == (2, "similar")
    assert merge.signature == f"{KEY}~{template_hash(template_of(longer))}"
    assert "of the shorter message" in merge.why


def test_one_tool_under_two_spellings_is_merged_and_two_tools_are_not() -> None:
    found = analysed(
        some(FORMAT, 4, 0, "pay_v1") + some(FORMAT, 2, 10, "pay_v2") + some(FORMAT, 2, 20, "queue")
    )
    assert {f.signature: f.units for f in found.findings} == {
        "tool_error:pay_v1:ValueError": 6, "tool_error:queue:ValueError": 2,
    }  # fmt: skip
    merged = next(f for f in found.findings if f.merged).merged[0]
    assert merged.signature == "tool_error:pay_v2:ValueError"
    assert "differ in numbers or spelling alone" in merged.why


def test_a_person_who_keeps_two_apart_is_obeyed() -> None:
    traces = some(FORMAT, 4, 0, "pay_v1") + some(FORMAT, 2, 10, "pay_v2")
    pair = ("tool_error:pay_v2:ValueError", "tool_error:pay_v1:ValueError")
    found = analysed(traces, choices=Choices(apart=frozenset({pair})))
    assert [f.units for f in found.findings] == [4, 2]


def test_a_persons_merge_moves_counts_and_names_who_said_so() -> None:
    traces = some(FORMAT, 4) + some(CLOSED, 2, 10)
    other = Signature(f"{KEY}~{template_hash(template_of(CLOSED))}")
    taken = Taken(into=Signature(KEY), by="ann", choice="h-1", at="2026-11-30", template=CLOSED)
    (found,) = analysed(traces, choices=Choices(merged={other: taken})).findings
    assert (found.signature, found.units) == (KEY, 6)
    assert (found.merged[0].signature, found.merged[0].by) == (other, "ann")
    symptoms = analysed(traces, choices=Choices(merged={other: taken})).symptoms
    assert {s.signature for s in symptoms} == {KEY}


def test_a_persons_name_is_the_title() -> None:
    found = analysed(some(FORMAT, 2), choices=Choices(renamed={KEY: "Order ids without a letter"}))
    assert found.findings[0].title == "Order ids without a letter"


def test_a_template_that_a_person_split_off_is_a_finding_by_itself() -> None:
    near = FORMAT + ", got 12"
    mark = f"~{template_hash(template_of(near))}"
    apart = Choices(apart=frozenset({(KEY + mark, KEY)}))
    found = analysed(some(FORMAT, 3) + some(near, 2, 10), choices=apart)
    assert {f.signature: f.units for f in found.findings} == {KEY: 3, KEY + mark: 2}


def test_signatures_do_not_flip_when_the_counts_do() -> None:
    first = analysed(some(FORMAT, 5) + some(CLOSED, 2, 10)).findings
    ids = {f.templates[0]: f.id for f in first}
    second = analysed(some(FORMAT, 2) + some(CLOSED, 9, 10), known=first).findings
    assert {f.templates[0]: f.id for f in second} == ids
    forgetful = analysed(some(FORMAT, 2) + some(CLOSED, 9, 10)).findings
    assert {f.templates[0]: f.id for f in forgetful} != ids


def test_a_known_finding_is_found_again_where_its_own_message_is_gone() -> None:
    first = analysed(some(FORMAT, 5) + some(CLOSED, 2, 10)).findings
    (again,) = analysed(some(CLOSED, 3), known=first).findings
    assert again.id == next(f.id for f in first if f.templates[0] == template_of(CLOSED))


def test_a_drifting_message_keeps_its_finding_and_its_first_wording() -> None:
    known: tuple[Finding, ...] = ()
    ids = set()
    for n in range(4):
        message = f"{FORMAT}{''.join(f' {word}' for word in ('please', 'again', 'today')[:n])}"
        known = analysed(some(message, 3), known=known).findings
        ids |= {f.id for f in known}
        assert known[0].templates[0] == template_of(FORMAT)
    assert len(ids) == 1


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from([FORMAT, CLOSED, "no row", "busy now", "x y z"]),
                    st.integers(1, 9), min_size=1),
    st.dictionaries(st.sampled_from([FORMAT, CLOSED, "no row", "busy now", "p q r"]),
                    st.integers(1, 9), min_size=1),
)  # fmt: skip
def test_remembered_marks_hold_whatever_the_counts(
    before: dict[str, int], now: dict[str, int]
) -> None:
    first = split_templates(before)
    leaders = {t: mark for t, mark in first.items() if mark == "" or mark == f"~{template_hash(t)}"}
    again = split_templates(now, leaders)
    assert {t: again[t] for t in again if t in leaders} == {
        t: leaders[t] for t in again if t in leaders
    }
    assert again == split_templates(dict(reversed(now.items())), leaders)


WORDINGS = [
    "could not reach the office", "could not reach the office from here today",
    "the account is closed", "the account is locked", "no such order in the book",
]  # fmt: skip
PLACES = ["pay", "pay_v2", "Pay", "queue"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(WORDINGS), st.integers(1, 5)),
        max_size=8, unique_by=lambda side: side[:2],
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_merges_do_not_depend_on_order_and_never_chain(
    drawn: list[tuple[str, str, int]], chance: random.Random
) -> None:
    sides = [
        Side(signature=Signature(f"tool_error:{p}~{template_hash(w)}"), units=n, template=w)
        for p, w, n in drawn
    ]
    first = merged_by_likeness(sides, NONE.keeps_apart)
    chance.shuffle(sides)
    assert merged_by_likeness(sides, NONE.keeps_apart) == first
    assert not {one.into for one in first} & {one.signature for one in first}
    templates = {side.signature: side.template for side in sides}
    for one in first:
        words = (words_of(templates[one.signature]), words_of(templates[one.into]))
        assert conflict(*words) is None


def tally_of(traces: Iterable[Trace], bounds: Bounds | None = None) -> Tally:
    tally = Tally(bounds=bounds or Bounds())
    for trace in traces:
        tally.add(detect(trace, Scans()))
    return tally


def test_frequent_signatures_survive_whatever_order_they_come_in() -> None:
    rare = [bad(n, FORMAT, f"step_{chr(97 + n % 26)}{chr(97 + n // 26)}") for n in range(60)]
    often = some(FORMAT, 5, 100)
    for traces in (rare + often, often + rare):
        grouping = grouped(tally_of(traces), None, max_keys=10)
        kept = {name: len(pair.now.units) for name, pair in grouping.pairs.items()}
        assert kept[Signature(KEY)] == 5
        assert kept[Signature("tool_error:various")] == 51
        assert grouping.rest is not None
        assert (grouping.rest.signatures, grouping.rest.units) == (51, 51)
        names = {name for of in grouping.names.values() for name in of.values()}
        assert names == set(grouping.pairs)


def test_beyond_its_bounds_a_tally_counts_a_share_and_says_which() -> None:
    traces = some(FORMAT, 40) + [good(n) for n in range(100, 260)]
    whole = tally_of(traces)
    small = tally_of(traces, Bounds(units=64))
    backwards = tally_of(traces[::-1], Bounds(units=64))
    assert (whole.one_in(), small.one_in()) == (1, 4)
    assert small.units == backwards.units
    assert {u for u in whole.units if u < 1 << 62} == set(small.units)
    failing = small.groups[KEY][template_of(FORMAT)].units
    assert set(failing) == set(whole.groups[KEY][template_of(FORMAT)].units) & set(small.units)


def test_a_unit_with_many_symptoms_is_one_unit_of_which_all_are_counted() -> None:
    calls = [tool(i, "pay", {"n": i}, error=("ValueError", FORMAT)) for i in range(1, 6)]
    (found,) = analysed([trace_of(root(), *calls)]).findings
    assert (found.units, found.symptoms_kept) == (1, 5)


def test_a_finding_without_templates_is_known_by_its_signature_alone() -> None:
    first = analysed(some(FORMAT, 2)).findings
    older = [replace(f, templates=()) for f in first]
    assert analysed(some(FORMAT, 2), known=older).findings[0].id == first[0].id


def test_one_other_word_that_recurs_tells_two_causes_apart() -> None:
    day, month = "the limit of the day is reached", "the limit of the month is reached"
    assert len(analysed(some(day, 9) + some(month, 5, 20)).findings) == 2
    assert len(analysed(some(day, 9) + some(month, 4, 20)).findings) == 1


def test_one_other_word_of_many_messages_is_a_value() -> None:
    cities = ("Rome", "Oslo", "Bern", "Lima")
    seen = [t for at, city in enumerate(cities) for t in some(f"{city} has no desk", 6, 20 * at)]
    assert len(analysed(seen).findings) == 1


def test_where_a_parser_stopped_tells_no_two_causes_apart() -> None:
    said = "the answer is not JSON (JSONDecodeError: {}: line 1 column {} (char {}))"
    one = said.format("Expecting ',' delimiter", 86, 85)
    other = said.format("Unterminated string starting at", 79, 78)
    assert len(analysed(some(one, 9) + some(other, 7, 20)).findings) == 1
