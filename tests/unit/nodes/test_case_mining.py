"""Ordinary traffic as sealed cases: a seeded sample, one input a family, nothing that leaks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.taxonomy import taxonomy
from contracts.findings import FindingId, Signature
from contracts.gate import Case, CaseId
from contracts.json_types import Json
from contracts.traces import Trace, TraceBatch, TraceQuery
from memory.cases import fingerprint
from memory.families import family_key
from memory.workspace import Workspace
from nodes.casebook import read_casebook
from nodes.cases.mine import OWN_DOING, Mined, keep_ordinary, mine_ordinary, ordinary_assertions
from tests.card_worlds import finding
from tests.run_worlds import make_project
from tests.trace_worlds import MemorySource, root, tool, trace_of

TIMEOUT = ("TimeoutError", "504 Gateway Timeout from the payment API")
THINGS = ("shoes", "lamp", "table", "ticket", "train fare", "coat", "hotel night", "phone",
          "garden chair", "piano lesson")  # fmt: skip
WISHES = ("refund my", "where is my", "please exchange the", "what does it cost to insure a")


def asked(number: int) -> str:
    """A request that is a family of its own."""
    thing, wish = THINGS[number % 10], WISHES[number // 10 % 4]
    return f"{wish} {thing} {'very ' * (number // 40)}soon"


def run(
    number: int, *tools: str, text: str | None = None, session: str | None = None, at: int = 0
) -> Trace:
    marks: dict[str, Json] = {"session__id": session} if session else {}
    called = [
        tool(i + 1, name, {}, {"ok": True}, trace=number)
        for i, name in enumerate(tools or ("look_up_order", "queue_refund"))
    ]
    trace = trace_of(root(text or asked(number), "done", trace=number, also=marks), *called)
    moved = [
        replace(s, started_at=s.started_at + timedelta(seconds=at)) for s in trace.spans
    ]  # fmt: skip
    return replace(trace, spans=tuple(moved))


def failed(number: int, text: str | None = None, session: str | None = None) -> Trace:
    marks: dict[str, Json] = {"session__id": session} if session else {}
    return trace_of(
        root(text or asked(number), "sorry", trace=number, also=marks),
        tool(1, "pay", {}, trace=number, error=TIMEOUT),
    )


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    made = project(tmp_path)
    yield made
    made.ledger.close()


def project(tmp_path: Path, cases: Sequence[dict[str, Any]] = (), **sections: Any) -> Workspace:
    made = make_project(tmp_path / "home", tmp_path / "agent", cases=["cases/*.yaml"], **sections)
    folder = tmp_path / "agent" / "cases"
    folder.mkdir()
    (folder / "own.yaml").write_text(yaml.safe_dump(list(cases)), "utf-8")
    return made


async def mined(ws: Workspace, traces: Sequence[Trace], n: int = 5, seed: int = 1) -> Mined:
    return await mine_ordinary(ws, MemorySource(traces), TraceQuery(), n, seed)


def inputs(found: Mined) -> set[str]:
    return {str(case.input["message"]) for case in found.cases if isinstance(case.input, dict)}


async def test_a_sample_is_sealed_and_asserts_what_its_runs_did(ws: Workspace) -> None:
    found = await mined(ws, [run(n) for n in range(40)], n=12)
    assert len(found.cases) == 12
    assert len({case.family for case in found.cases}) == 12
    assert {case.tags for case in found.cases} == {frozenset({"sealed"})}
    for case in found.cases:
        assert case.assertions == (
            {"not_empty": True},
            {"tool_called": {"name": "queue_refund"}},
            *({"no_symptom": kind} for kind in OWN_DOING),
        )
    assert not any(case.weak for case in found.cases)
    assert all(case.origin.startswith("trace:") for case in found.cases)


async def test_the_order_of_the_traces_changes_nothing_and_the_seed_draws_others(
    ws: Workspace,
) -> None:
    traces = [run(n) for n in range(40)]
    one = await mined(ws, traces)
    assert (await mined(ws, traces[::-1])).cases == one.cases
    assert inputs(await mined(ws, traces, seed=2)) != inputs(one)


async def test_every_unit_is_drawn_about_as_often(ws: Workspace) -> None:
    traces = [run(n) for n in range(40)]
    counts = dict.fromkeys(map(asked, range(40)), 0)
    for seed in range(60):
        for text in inputs(await mined(ws, traces, n=10, seed=seed)):
            counts[text] += 1
    assert sum(counts.values()) == 600
    assert min(counts.values()) >= 4  # of 15 expected, with a deviation of 3.4
    assert max(counts.values()) <= 27


async def test_failed_runs_and_those_without_a_request_are_left_out_and_counted(
    ws: Workspace,
) -> None:
    silent = trace_of(root("", "hello", trace=90))
    found = await mined(ws, [run(1), run(2), failed(3), silent], n=9)
    assert inputs(found) == {asked(1), asked(2)}
    assert found.left_out == {"failed": 1, "no request recorded": 1}
    assert (found.asked, found.units) == (9, 4)


async def test_one_input_a_family(ws: Workspace) -> None:
    same = [run(n, text=f"Refund order A-{1000 + n} today please") for n in range(20)]
    found = await mined(ws, [*same, run(99)], n=9)
    assert len(found.cases) == 2
    assert found.left_out == {"near duplicate of another case": 19}


async def test_of_a_session_its_first_turn_stands_for_it(ws: Workspace) -> None:
    turns = [
        run(n, text=asked(n) if n % 2 == 0 else f"yes please, the {THINGS[n % 10]}",
            session=f"s{n // 2}", at=n % 2 * 60)
        for n in range(20)
    ]  # fmt: skip
    found = await mined(ws, turns[::-1], n=20)
    assert inputs(found) == {asked(n) for n in range(0, 20, 2)}


async def test_a_session_that_began_with_a_failure_is_no_ordinary_one(ws: Workspace) -> None:
    found = await mined(
        ws, [failed(1, session="s"), run(2, session="s", at=60), run(3, session="t")], n=5
    )
    assert inputs(found) == {asked(3)}


async def test_a_request_that_goes_on_from_an_earlier_answer_is_left_out(ws: Workspace) -> None:
    chat = (
        '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"},'
        ' {"role": "user", "content": "the blue one"}]}'
    )
    found = await mined(ws, [run(1), run(2, text=chat)])
    assert inputs(found) == {asked(1)}
    assert found.left_out == {"later in a conversation": 1}


async def test_no_relative_of_a_case_that_an_editor_saw_is_sealed(tmp_path: Path) -> None:
    seen = {"input": {"message": "Refund order A-1 today please"}, "assert": [{"not_empty": True}]}
    ws = project(tmp_path, [seen])
    target = Case(
        id=CaseId("c-t"), input={"message": "Where is order B-2 now, please?"},
        assertions=({"not_empty": True},), tags=frozenset({"target"}), family="", origin="trace:t",
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.put_cases(tx, "f-1", [target])
    found = await mined(
        ws,
        [run(1, text="Refund order A-7 today please"),
         run(2, text="Where is order B-9 now, please?"), run(3)],
    )  # fmt: skip
    assert inputs(found) == {asked(3)}
    with ws.ledger.db.write() as tx:
        keep_ordinary(ws, tx, found)
    book = read_casebook(ws)
    assert [case.input for case in book.tagged("sealed")] == [{"message": asked(3)}]
    ws.ledger.close()


async def test_what_is_known_to_go_wrong_must_not_happen(ws: Workspace) -> None:
    known = replace(finding(), signature=Signature("tool_timeout:pay:504~abc123"))
    closed = replace(
        finding(), id=FindingId("f-closed"), signature=Signature("exception:agent:KeyError")
    )
    with ws.ledger.db.write() as tx:
        for one in (known, closed):
            ws.ledger.knowledge.put_finding(tx, one)
        ws.ledger.knowledge.set_finding(tx, closed.id, "closed")
    found = await mined(ws, [run(1)])
    assert found.cases[0].assertions[2] == {"no_symptom": "tool_timeout:pay:504"}
    assert not any("exception" in str(one) for one in found.cases[0].assertions)


@pytest.mark.parametrize(
    ("tools", "wanted"),
    [
        (("get_order", "cancel_order", "send_mail", "get_status"), ("cancel_order", "send_mail")),
        (("search", "read_page"), ("read_page",)),
        ((), ()),
        (("search", "think"), ("search",)),
        (("calculate",), ()),
        (("add_a", "add_b", "add_c", "add_d"), ("add_b", "add_c", "add_d")),
    ],
)
def test_what_a_run_changed_is_asked_for_again_else_its_last_tool(
    tools: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    assertions = ordinary_assertions(tools, ())
    assert assertions[0] == {"not_empty": True}
    assert [one["tool_called"] for one in assertions[1:]] == [{"name": name} for name in wanted]


def test_what_no_agent_may_do_are_kinds_that_count() -> None:
    kinds = taxonomy().kinds
    assert all(kinds[kind].counted for kind in OWN_DOING)


async def test_a_tool_whose_name_was_not_recorded_is_not_asked_for(ws: Workspace) -> None:
    found = await mined(ws, [run(1, "tool"), run(2, "look", "tool")])
    wanted = [one for case in found.cases for one in case.assertions if "tool_called" in one]
    assert wanted == [{"tool_called": {"name": "look"}}]


async def test_a_run_without_tools_gives_a_case_that_is_marked_weak(ws: Workspace) -> None:
    bare = trace_of(root(asked(1), "from nine to five", trace=1))
    found = await mined(ws, [bare])
    assert [case.weak for case in found.cases] == [True]


async def test_secrets_of_a_request_reach_no_case(ws: Workspace) -> None:
    secret = "sk-" + "a1B2" * 8
    found = await mined(ws, [run(1, text=f"use {secret} for my refund")])
    assert len(found.cases) == 1
    assert secret not in str(found)


async def test_stored_cases_are_in_the_manifest_once(ws: Workspace) -> None:
    found = await mined(ws, [run(n) for n in range(9)], n=4)
    with ws.ledger.db.write() as tx:
        assert keep_ordinary(ws, tx, found) == 4
    with ws.ledger.db.write() as tx:
        assert keep_ordinary(ws, tx, found) == 0
    manifest = ws.ledger.sealed.listed()
    assert {line.fingerprint for line in manifest} == {fingerprint(c) for c in found.cases}
    assert len(read_casebook(ws).tagged("sealed")) == len(manifest) == 4


async def test_a_second_sample_brings_new_families_only(ws: Workspace) -> None:
    traces = [run(n) for n in range(30)]
    first = await mined(ws, traces, n=10)
    with ws.ledger.db.write() as tx:
        keep_ordinary(ws, tx, first)
    second = await mined(ws, traces, n=10)
    assert len(second.cases) == 10
    assert not inputs(first) & inputs(second)


async def test_the_memory_of_a_sample_does_not_grow_with_the_window(ws: Workspace) -> None:
    read = 0

    class Endless(MemorySource):
        async def window(self, query: TraceQuery) -> Any:
            nonlocal read
            async for batch in super().window(query):
                read += len(batch.traces)
                yield TraceBatch(traces=batch.traces, read=replace(batch.read, traces=read))

    source = Endless([run(n) for n in range(1_500)])
    found = await mine_ordinary(ws, source, TraceQuery(), 2, 1)
    assert (read, found.read.traces, len(found.cases)) == (1_500, 1_500, 2)
    assert found.units <= 200


async def test_a_number_that_makes_no_sense_is_refused(ws: Workspace) -> None:
    for n in (0, 1_001):
        with pytest.raises(ValueError, match="from 1 to 1000"):
            await mined(ws, [run(1)], n=n)


def test_the_requests_of_these_tests_are_families_of_their_own() -> None:
    keys = [family_key({"message": asked(n)}) for n in range(40)]
    assert len(set(keys)) == 40
