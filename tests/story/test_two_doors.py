"""Approvals over a real `tracemend serve`: whoever presses, wherever, whatever is killed, once.

The scenarios are field cases 57, 59, 60 and 62; their numbers are the steps below.
"""

import json
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from sqlalchemy import update

from contracts.json_types import sha256_hex
from contracts.people import Role
from contracts.proposals import Operation
from memory.database import rfc3339
from memory.inbox import decisions_on
from memory.schema import cards, incidents, proposals
from tests.approval_worlds import Inbox, installation, wait_for
from tests.card_worlds import RETRY
from tests.serve_process import serve_process
from tests.serving_app import make_token, serve_app
from tests.story.worlds import Waiting, World

pytestmark = [pytest.mark.story, pytest.mark.servers]

FIELDCASES = Path(__file__).parents[1] / "data" / "fieldcases"
WITHIN_S = 180.0
"""For anything that is waited for, on a busy machine with two cores."""

T = TypeVar("T")


def case(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scenario of a field case, and what is expected."""
    folder = FIELDCASES / name
    scenario, expected = (
        json.loads((folder / file).read_text("utf-8"))
        for file in ("scenario.json", "expected.json")
    )
    return scenario, expected


def until(look: Callable[[], T | None], what: str) -> T:
    """What `look` finds, asked again until it finds something."""
    end = time.monotonic() + WITHIN_S
    while not (found := look()):
        assert time.monotonic() < end, f"not within {WITHIN_S:.0f} s: {what}"
        time.sleep(0.05)
    return found


def home_of(world: World) -> Path:
    return world.root / ".tracemend"


def person(home: Path, url: str, name: str, *roles: Role) -> httpx.Client:
    token = make_token(home, name, roles or ("reviewer",))
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=60)


def press(
    who: httpx.Client, proposal: str, hash_: str | None, *, key: str | None = None,
    type_: str = "approve", **more: Any,
) -> httpx.Response:  # fmt: skip
    headers = {} if hash_ is None else {"If-Match": f'"{hash_}"'}
    headers |= {} if key is None else {"Idempotency-Key": key}
    path = f"/proposals/{proposal}/decision"
    return who.post(path, json={"type": type_, **more}, headers=headers)


def waiting_ones(who: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = who.get("/proposals", params={"status": "waiting"}).json()[
        "proposals"
    ]
    return found


def state_of(who: httpx.Client, proposal: str) -> str:
    return str(who.get(f"/proposals/{proposal}").json()["state"])


def aged(world: World, **span: float) -> None:
    """Everything in the ledger that waits is so much older: as if the clock had moved."""
    with world.looking() as ledger, ledger.db.write() as tx:
        for row in ledger.db.rows(tx, ledger.db.mine(cards)):
            mine = (cards.c.proposal == row["proposal"]) & (cards.c.revision == row["revision"])
            tx.execute(update(cards).where(mine).values(**_earlier(row, span, "at", "expires_at")))
        for row in ledger.db.rows(tx, ledger.db.mine(incidents)):
            same = incidents.c.thread == row["thread"]
            tx.execute(update(incidents).where(same).values(**_earlier(row, span, "at", "due_at")))
        for row in ledger.db.rows(tx, ledger.db.mine(proposals)):
            one = (proposals.c.id == row["id"]) & (proposals.c.revision == row["revision"])
            tx.execute(update(proposals).where(one).values(**_earlier(row, span, "at")))


def _earlier(row: Any, span: dict[str, float], *names: str) -> dict[str, str]:
    from datetime import datetime

    moved = {n: datetime.fromisoformat(row[n]) - timedelta(**span) for n in names if row[n]}
    return {name: rfc3339(moment) for name, moment in moved.items()}


@pytest.mark.kill
def test_an_approval_outlives_the_server(waiting: Waiting) -> None:
    """Field case 57."""
    _, expected = case("57-approval-outlives-the-server")
    world, proposal = waiting.world, waiting.proposal
    home, before = home_of(world), world.harness()

    with serve_process(home) as first, person(home, first.url, "ann") as ann:
        (shown,) = waiting_ones(ann)  # 1
        assert first.stop(signal.SIGKILL) == -signal.SIGKILL  # 2
    with serve_process(home) as second, person(home, second.url, "ann") as ann:
        (listed,) = waiting_ones(ann)  # 3
        assert (listed["id"], listed["hash"]) == (proposal, shown["hash"])
        assert second.stop(signal.SIGKILL) == -signal.SIGKILL

    aged(world, hours=3)  # 4
    between = ("before", "connectors.harness.directory:DirectoryHarness.switch", "1")
    with serve_process(home, killer=between) as third, person(home, third.url, "ann") as ann:
        assert [one["id"] for one in waiting_ones(ann)] == [proposal]
        given = press(ann, proposal, shown["hash"], key="step-5")  # 5
        assert given.status_code == 200, given.text
        assert third.process.wait(WITHIN_S) == -signal.SIGKILL, third.log  # 6
    assert world.harness() == before
    with world.looking() as ledger:
        effect = ledger.effects.find(kind="apply", proposal_hash=shown["hash"])
        assert effect is not None
        assert effect.state == "intended"

    with serve_process(home) as fourth, person(home, fourth.url, "ann") as ann:  # 7
        until(lambda: state_of(ann, proposal) not in ("approved", "gating"), "applied")
        again = press(ann, proposal, shown["hash"], key="step-5")  # 8
        assert again.status_code == 200, again.text
        assert again.json()["decision"] == given.json()["decision"]
        assert ann.get("/audit/verify").json()["ok"] is expected["final"]["audit_verifies"]
        released = ann.get("/releases").json()["releases"]
    with world.looking() as ledger:
        assert len(decisions_on(ledger.db, proposal)) == expected["final"]["decisions"]
        assert len(released) == len(ledger.effects.releases()) == expected["final"]["releases"]
        assert len(ledger.proposals.all_latest()) == 1
        after = ledger.artifacts.snapshot(ledger.effects.releases()[0].after)
    assert world.harness() == {path: file.data for path, file in after.files.items()} != before


def test_two_people_press_approve_at_once(waiting: Waiting) -> None:
    """Field case 59: p-41 is the proposal of the run, p-42 another card in the same thread."""
    scenario, expected = case("59-approve-pressed-by-two")
    assert [p["by"] for p in scenario["presses"]] == ["ann", "ann", "ben", "ben"]
    world, home = waiting.world, home_of(waiting.world)
    with world.looking() as ledger:
        shown = ledger.proposals.latest(waiting.proposal).proposal
    other = wait_for(
        Inbox(home=home), [RETRY], which="p-42", project=shown.project, thread=shown.thread
    )

    with (
        serve_process(home) as served,
        person(home, served.url, "ann") as ann,
        person(home, served.url, "ben") as ben,
    ):
        start = threading.Barrier(3)

        def at_once(who: httpx.Client, key: str | None) -> httpx.Response:
            start.wait(30)
            return press(who, shown.id, shown.hash, key=key)

        with ThreadPoolExecutor(3) as pool:
            presses = [
                pool.submit(at_once, who, key)
                for who, key in ((ann, "same"), (ann, "same"), (ben, None))
            ]
            one, two, three = (pressed.result() for pressed in presses)
        time.sleep(scenario["presses"][3]["ms_later"] / 1000)
        four = press(ben, shown.id, shown.hash, type_="reject", message="risky")
        until(lambda: state_of(ann, shown.id) not in ("approved", "gating"), "applied")
        still = [p["id"] for p in waiting_ones(ann)]

    codes = (one.status_code, two.status_code, three.status_code, four.status_code)
    by_ann, by_ben = (200, 200, 409, 409), (409, 409, 200, 409)  # the second is `also_ok`
    assert codes in (by_ann, by_ben), [r.text for r in (one, two, three, four)]
    assert one.json()["decision"] == two.json()["decision"] == four.json()["decision"]
    assert three.json()["decision"] == one.json()["decision"]
    with world.looking() as ledger:
        assert len(decisions_on(ledger.db, shown.id)) == expected["final"]["p-41"]["decisions"]
        assert len(ledger.effects.releases()) == expected["final"]["p-41"]["releases"]
        assert decisions_on(ledger.db, other.id) == []
        assert ledger.audit.verify().ok
    assert still == [other.id]


def test_the_card_shows_r1_and_r2_is_there(tmp_path: Path) -> None:
    """Field case 60, with its own texts: nothing is written for a text that nobody read."""
    _, expected = case("60-card-shows-r1-target-is-r2")
    folder = FIELDCASES / "60-card-shows-r1-target-is-r2"
    drafts = [json.loads((folder / f"r{n}.json").read_text("utf-8")) for n in (1, 2)]
    inbox = installation(tmp_path, harness={"include": ["AGENTS.md"]})
    target = inbox.root() / "AGENTS.md"
    target.write_bytes(b"Be brief.\n")
    assert sha256_hex(target.read_bytes()) == drafts[0]["base"]["files"]["AGENTS.md"]

    def made(draft: dict[str, Any]) -> str:
        operations = [Operation(**one) for one in draft["operations"]]
        which, revision = draft["proposal_id"], draft["revision"]
        return wait_for(inbox, operations, which=which, revision=revision).hash

    with serve_app(inbox.home) as served, person(inbox.home, served.url, "ann") as ann:
        which, r1 = drafts[0]["proposal_id"], made(drafts[0])
        assert ann.get(f"/proposals/{which}").json()["hash"] == r1  # 1
        r2 = made(drafts[1])  # 2
        third = press(ann, which, r1)
        fourth = press(ann, which, None)
        fifth = press(ann, which, r1, type_="reject", message="risky")
        assert inbox.decisions(which) == []
        read = ann.get(f"/proposals/{which}")
        sixth = press(ann, which, read.headers["etag"].strip('"'))

    assert (third.status_code, fourth.status_code, fifth.status_code) == (412, 428, 412)
    for refused in (third, fifth):
        assert refused.json()["changed"] == ["AGENTS.md"], expected["must"]
        assert refused.json()["diff"].splitlines()[-2:] == [
            "-Be brief and kind.", "+Be brief. Offer a discount of 50 %.",
        ]  # fmt: skip
        assert (refused.json()["revision"], refused.json()["hash"]) == (2, r2)
    assert sixth.status_code == 200, sixth.text
    (decision,) = inbox.decisions(which)
    assert (decision.revision, decision.proposal_hash) == (2, r2)
    assert target.read_bytes() == b"Be brief.\n"  # the gate comes first


def test_an_edit_by_one_person_is_read_by_the_next_before_it_is_applied(waiting: Waiting) -> None:
    """Field case 60 to its end: what was approved is what is written."""
    world, home, before = waiting.world, home_of(waiting.world), waiting.world.harness()
    which = waiting.proposal
    with (
        serve_process(home) as served,
        person(home, served.url, "ann") as ann,
        person(home, served.url, "ben") as ben,
    ):
        read = ann.get(f"/proposals/{which}").json()
        path, text = next(iter(read["texts"].items()))
        args = {f"text:{path}": f"{text.rstrip()}\n\nSay thank you at the end.\n"}
        edited = press(ben, which, read["hash"], type_="edit", edited_action={"args": args})
        assert edited.status_code == 200, edited.text
        assert edited.json()["revision"] == 2
        until(lambda: state_of(ann, which) == "waiting", "r2 waits")
        refused = press(ann, which, read["hash"])
        assert refused.status_code == 412
        assert "+Say thank you at the end." in refused.json()["diff"]
        assert world.harness() == before
        newest = ann.get(f"/proposals/{which}").json()["hash"]
        given = press(ann, which, newest)
        assert given.status_code == 200, given.text
        until(lambda: state_of(ann, which) not in ("approved", "gating"), "decided by the gate")
        released = ann.get("/releases").json()["releases"]
    assert [one["proposal_hash"] for one in released] == [newest]
    assert world.harness()[path] == args[f"text:{path}"].encode()


def test_nobody_was_there(waiting: Waiting) -> None:
    """Field case 62; its step 3, Enter in a terminal, has no place: no command asks for one."""
    _, expected = case("62-nobody-was-there")
    world, home, before = waiting.world, home_of(waiting.world), waiting.world.harness()
    with world.looking() as ledger:
        shown = ledger.proposals.latest(waiting.proposal).proposal
    with serve_process(home) as served, person(home, served.url, "ann", "admin") as ann:

        def resume(value: Any) -> int:
            body = {"assistant_id": "tracemend", "command": {"resume": value}}
            return ann.post(f"/threads/{shown.thread}/runs/wait", json=body).status_code

        assert resume("what does this do?") == 422  # 1
        assert (resume(None), resume({})) == (422, 422)  # 2
        assert [one["id"] for one in waiting_ones(ann)] == [shown.id]
        thread = ann.get(f"/threads/{shown.thread}").json()
        assert thread["status"] == "interrupted"

        aged(world, days=8)  # 4: the card's week is over
        until(lambda: state_of(ann, shown.id) == "expired", "the card expires")
        late = press(ann, shown.id, shown.hash)  # 5
        assert late.status_code == 409
        assert late.json()["decision"]["type"] == "expired"
        until(lambda: ann.get(f"/incidents/{shown.thread}").json()["state"] == "closed", "closed")

    with world.looking() as ledger:  # 6
        (decision,) = decisions_on(ledger.db, shown.id)
        (lesson,) = ledger.knowledge.lessons()
        assert ledger.effects.releases() == []
    assert (decision.by, decision.via, decision.type) == ("tracemend", "system", "expired")
    assert expected["final"]["decisions_by_person"] == 0
    assert lesson.decision == "expired"
    assert world.harness() == before


def test_both_doors_lead_to_one_decision(waiting: Waiting) -> None:
    """A plain LangGraph resume and our own API: who comes second is told of the first."""
    world, home = waiting.world, home_of(waiting.world)
    with world.looking() as ledger:
        shown = ledger.proposals.latest(waiting.proposal).proposal
    with (
        serve_process(home) as served,
        person(home, served.url, "ann", "admin") as ann,
        person(home, served.url, "ben") as ben,
    ):
        state = ann.get(f"/threads/{shown.thread}/state").json()
        (interrupt,) = state["interrupts"]
        answer = {"decisions": [{"type": "reject", "message": "risky: by the other door"}]}
        body = {
            "assistant_id": "tracemend", "command": {"resume": {interrupt["id"]: answer}},
        }  # fmt: skip
        resumed = ann.post(f"/threads/{shown.thread}/runs/wait", json=body)
        assert resumed.status_code == 200, resumed.text
        second = press(ben, shown.id, shown.hash)
    assert second.status_code == 409
    assert second.json()["decision"]["by"] == "ann"
    assert second.json()["decision"]["via"] == "langgraph"
    with world.looking() as ledger:
        (decision,) = decisions_on(ledger.db, shown.id)
        assert (decision.via, decision.proposal_hash) == ("langgraph", shown.hash)
        assert ledger.audit.verify().ok


def test_a_release_is_taken_back_through_the_api(waiting: Waiting) -> None:
    """202 starts it, 412 says which files somebody changed, 200 is the answer to a second call."""
    world, home, before = waiting.world, home_of(waiting.world), waiting.world.harness()
    with (
        serve_process(home) as served,
        person(home, served.url, "ann") as ann,
        person(home, served.url, "vic", "viewer") as vic,
    ):
        hash_ = ann.get(f"/proposals/{waiting.proposal}").json()["hash"]
        assert press(ann, waiting.proposal, hash_).status_code == 200
        (release,) = until(lambda: ann.get("/releases").json()["releases"], "applied")
        after = world.harness()
        path = next(p for p in after if before.get(p) != after[p])

        (world.root / path).write_bytes(after[path] + b"\nBy hand.\n")
        by_hand = ann.post(f"/releases/{release['id']}/undo")
        assert by_hand.status_code == 412
        assert by_hand.json()["changed"] == [path]
        (world.root / path).write_bytes(after[path])

        assert vic.post(f"/releases/{release['id']}/undo").status_code == 403
        started = ann.post(f"/releases/{release['id']}/undo")
        assert started.status_code == 202, started.text
        assert started.json()["thread"]

        def undone() -> Any:
            return ann.get(f"/releases/{release['id']}").json()["undone_by"]

        taken = until(undone, "undone")
        again = ann.post(f"/releases/{release['id']}/undo")
        assert again.status_code == 200
        assert (again.json()["release"]["id"], again.json()["first"]) == (taken, False)
        assert ann.post(f"/releases/{taken}/undo").status_code == 422
    assert world.harness() == before
    with world.looking() as ledger:
        undo = [d for d in decisions_on(ledger.db, waiting.proposal) if d.card == "undo"]
        assert [(d.by, d.via) for d in undo] == [("ann", "api")]
        assert ledger.audit.verify().ok
