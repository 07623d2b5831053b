"""What text, JSON and pages of the ledger are, on SQLite and on PostgreSQL."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert

from contracts.proposals import ProposalId, ProposalState
from memory.columns import REPLACEMENT
from memory.database import Place, open_engine
from memory.ledger import Ledger, open_ledger
from memory.schema import incidents
from memory.tokens import Tokens
from tests.ledger_worlds import NOW, SNAPSHOT, alert, waiting

HOSTILE = "a\x00b\ud800c\udfffd"
"""What an alert or a trace can say, and what PostgreSQL refuses in a text."""
CLEAN = f"a{REPLACEMENT}b{REPLACEMENT}c{REPLACEMENT}d"


# -- what text and JSON can hold


def test_hostile_text_is_kept_and_found_again(ledger: Ledger) -> None:
    assert ledger.alerts.receive(replace(alert(HOSTILE, group=HOSTILE), body={"said": HOSTILE}))
    assert not ledger.alerts.receive(alert(HOSTILE))
    found = ledger.alerts.new()[0]
    assert (found.key, found.group) == (CLEAN, f"generic|{CLEAN}")
    assert found.request["alert"]["body"]["said"] == HOSTILE  # type: ignore[index, call-overload]
    ledger.incidents.open(HOSTILE, kind="alert", key="k", request={"a": HOSTILE}, driver="local")
    ledger.incidents.set_state(HOSTILE, "quarantined", problem=HOSTILE)
    run = ledger.incidents.get(HOSTILE)
    assert (run.thread, run.problem, run.request) == (CLEAN, CLEAN, {"a": HOSTILE})
    ledger.protocol.put_thread("t", {"said": HOSTILE})
    thread = ledger.protocol.thread("t")
    assert thread is not None
    assert thread.metadata == {"said": HOSTILE}
    ledger.trail.add(waiting(ledger), "ask", by=HOSTILE, via="api", key="k", text=HOSTILE)
    assert [(said.by, said.text) for said in ledger.trail.of("p-1")] == [(CLEAN, CLEAN)]
    tokens = Tokens(ledger.db.engine)
    row, secret = tokens.create(HOSTILE, ["viewer"], projects=None, expires_at=None)
    who = tokens.principal(secret)
    assert who is not None
    assert (who.name, row.projects, who.projects) == (CLEAN, None, None)
    assert tokens.principal(f"tm_{HOSTILE}_{HOSTILE}") is None


def test_keys_of_any_length_are_told_apart(ledger: Ledger) -> None:
    long = os.urandom(6_000).hex()  # an index of PostgreSQL takes 2,700 bytes
    assert ledger.alerts.receive(alert(f"{long}1", group=long))
    assert ledger.alerts.receive(alert(f"{long}2", group=long))
    assert not ledger.alerts.receive(alert(f"{long}2", group=long))
    found = ledger.alerts.new()
    assert len({a.key for a in found}) == 2
    ledger.incidents.open("t", kind="alert", key=long, request={}, group=found[0].group)
    with ledger.db.write() as tx:
        assert ledger.alerts.open_incident(tx, found[1].group) == "t"
    claimed = ledger.incidents.claim_alert(
        source="generic", key=f"{long}1", thread="t", body={}
    )  # fmt: skip
    assert claimed == "t"
    assert len(ledger.alerts.listed()) == 2


def test_numbers_that_are_none_are_null_and_big_bodies_are_whole(ledger: Ledger) -> None:
    big = "x" * 5_000_000
    ledger.reads.put(
        "t", "window", "c", {"n": [float("nan"), {"i": float("inf")}, 0.1], "big": big}
    )
    found = ledger.reads.get("t", "window")
    assert found is not None
    assert found.body == {"n": [None, {"i": None}, 0.1], "big": big}


def test_exact_bytes_stay_exact(ledger: Ledger) -> None:
    with ledger.db.write() as tx:
        ledger.artifacts.put_snapshot(tx, SNAPSHOT)
    assert ledger.artifacts.snapshot(SNAPSHOT.revision) == SNAPSHOT


# -- pages


def test_pages_show_each_proposal_once_newest_first(ledger: Ledger) -> None:
    moment = [NOW]
    ledger.db.clock = lambda: moment[0]
    for number in range(7):
        moment[0] = NOW + timedelta(seconds=number // 4)  # four at the same time
        waiting(ledger, f"p-{number}", thread=f"t-{number}")
    waiting(ledger, "p-0", thread="t-0", revision=2)
    seen: list[tuple[str, int]] = []
    before: tuple[str, str] | None = None
    while page := ledger.proposals.page(states=None, finding=None, limit=3, before=before):
        assert len(page) <= 3
        seen += [(s.proposal.id, s.proposal.revision) for s in page]
        before = (page[-1].at, page[-1].proposal.id)
    assert sorted(seen) == [("p-0", 2), *((f"p-{n}", 1) for n in range(1, 7))]
    times = [datetime.fromisoformat(ledger.proposals.latest(p).at) for p, _ in seen]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("states", "finding", "expected"),
    [
        (["waiting"], None, ["p-1"]), (["rejected", "stale"], None, ["p-2"]), ([], None, []),
        (None, "f-3qk7m2xza4", ["p-2", "p-1"]), (None, "f-other", []),
    ],
)  # fmt: skip
def test_a_page_is_of_the_states_and_the_finding_asked_for(
    ledger: Ledger, states: list[ProposalState] | None, finding: str | None, expected: list[str]
) -> None:
    waiting(ledger, "p-1", revision=1)
    waiting(ledger, "p-1", revision=2)  # r1 is stale now, and stands for nothing
    other = waiting(ledger, "p-2", thread="t-2")
    with ledger.db.write() as tx:
        ledger.proposals.set_state(tx, other, "rejected")
    page = ledger.proposals.page(states=states, finding=finding, limit=9, before=None)
    assert [s.proposal.id for s in page] == expected
    opened = ledger.proposals.open()
    assert opened is not None
    assert (opened.proposal.id, opened.proposal.revision) == (ProposalId("p-1"), 2)


def test_threads_are_paged_without_gaps(ledger: Ledger) -> None:
    ledger.db.clock = lambda: NOW  # all at the same time
    for number in range(9):
        ledger.protocol.put_thread(f"t{number}", {})
    pages = [ledger.protocol.threads(limit=4, offset=start) for start in (0, 4, 8)]
    assert sorted(t.thread for page in pages for t in page) == [f"t{n}" for n in range(9)]


def test_a_reader_waits_for_no_writer(place: Place) -> None:
    ledger = open_ledger(place, "refunds")
    tokens = Tokens(open_engine(place))
    _, secret = tokens.create("ann", ["viewer"], projects=None, expires_at=None)
    assert tokens.principal(secret) is not None  # and its first use is noted
    with ledger.db.write() as tx:
        tx.execute(insert(incidents).values(_incident_row()))
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(tokens.principal, secret).result(20) is not None
            assert pool.submit(ledger.incidents.listed).result(20) == []
    ledger.close()


def _incident_row() -> dict[str, object]:
    return {"project": "refunds", "thread": "t", "kind": "k", "key": "k", "request": {},
            "state": "running", "at": ""}  # fmt: skip
