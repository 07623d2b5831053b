"""The HTTP API for people: what it shows, what it takes, and what it refuses, over real sockets."""

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from contracts.proposals import ProposalId
from memory.schema import audit
from tests.approval_worlds import Inbox, installation, wait
from tests.serving_app import Served, serve_app

P = "p-4k7q2m6xza"


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return installation(tmp_path)


@pytest.fixture
def served(inbox: Inbox) -> Iterator[Served]:
    with serve_app(inbox.home) as server:
        yield server


def client(served: Served, name: str = "ann", *roles: Any) -> httpx.Client:
    return httpx.Client(
        base_url=served.url, headers=served.headers(name, roles or ("reviewer",)), timeout=30
    )


def press(
    who: httpx.Client, hash_: str | None, *, key: str | None = None, which: str = P,
    type: str = "approve", **more: Any,
) -> httpx.Response:  # fmt: skip
    headers = {} if hash_ is None else {"If-Match": f'"{hash_}"'}
    headers |= {} if key is None else {"Idempotency-Key": key}
    return who.post(f"/proposals/{which}/decision", json={"type": type, **more}, headers=headers)


def test_a_waiting_proposal_is_listed_and_read_with_its_hash_as_etag(
    inbox: Inbox, served: Served
) -> None:
    made = wait(inbox)
    with client(served) as ann:
        (listed,) = ann.get("/proposals", params={"status": "waiting"}).json()["proposals"]
        read = ann.get(f"/proposals/{P}")
        again = ann.get(f"/proposals/{P}", headers={"If-None-Match": read.headers["etag"]})
    assert listed["id"] == P
    assert listed["hash"] == made.hash
    assert listed["waits"]["seats"] == {"have": 0, "needed": 1}
    assert read.headers["etag"] == f'"{made.hash}"'
    assert read.json()["card"]["proposal_hash"] == made.hash
    assert "- Be kind." in read.json()["texts"]["instructions/main.md"]
    assert again.status_code == 304
    assert again.content == b""


def test_a_decision_says_who_how_when_and_on_which_hash(inbox: Inbox, served: Served) -> None:
    made = wait(inbox)
    with client(served) as ann:
        given = press(ann, made.hash)
        shown = ann.get(f"/proposals/{P}").json()["decisions"]
    assert given.status_code == 200, given.text
    assert given.json()["first"] is True
    assert given.json()["seats"] == {"have": 1, "needed": 1}
    (decision,) = inbox.decisions(P)
    assert (decision.by, decision.via, decision.proposal_hash) == ("ann", "api", made.hash)
    assert shown == [given.json()["decision"]]
    with inbox.looking() as ledger:
        entries = [r["body"] for r in ledger.db.find(audit) if r["event"] == "decision.made"]
        assert ledger.audit.verify().ok
    (entry,) = entries
    assert (entry["by"], entry["via"], entry["proposal_hash"]) == ("ann", "api", made.hash)


def test_a_decision_needs_the_hash_that_was_read(inbox: Inbox, served: Served) -> None:
    wait(inbox)
    with client(served) as ann:
        assert press(ann, None).status_code == 428
        assert press(ann, "*").status_code == 422
        any_text = ann.post(
            f"/proposals/{P}/decision", json={"type": "approve"}, headers={"If-Match": "*"}
        )
        assert any_text.status_code == 428
    assert inbox.decisions(P) == []


def test_the_same_call_again_gets_the_first_answer(inbox: Inbox, served: Served) -> None:
    made = wait(inbox)
    with client(served) as ann:
        first = press(ann, made.hash, key="k-1")
        again = press(ann, made.hash, key="k-1")
        other = press(ann, made.hash, key="k-1", type="reject", message="risky")
        later = press(ann, made.hash, key="k-2")
    with client(served, "ben") as ben:
        his = press(ben, made.hash, key="k-1")
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 422)
    assert again.json()["decision"] == first.json()["decision"]
    assert (first.json()["first"], again.json()["first"]) == (True, True)
    assert later.status_code == his.status_code == 409
    assert his.json()["decision"] == first.json()["decision"]
    assert len(inbox.decisions(P)) == 1


def test_the_first_answer_survives_a_restart(inbox: Inbox) -> None:
    made = wait(inbox)
    with serve_app(inbox.home) as served, client(served) as ann:
        first = press(ann, made.hash, key="k-1").json()
    with serve_app(inbox.home) as served, client(served) as ann:
        again = press(ann, made.hash, key="k-1")
    assert again.status_code == 200
    assert again.json()["decision"] == first["decision"]


def test_a_rejection_needs_a_reason_and_an_unknown_answer_is_none(
    inbox: Inbox, served: Served
) -> None:
    made = wait(inbox)
    with client(served) as ann:
        bare = press(ann, made.hash, type="reject")
        unknown = press(ann, made.hash, type="perhaps")
        more = press(ann, made.hash, type="approve", by="somebody else")
        hidden = ann.post(
            f"/proposals/{P}/decision", headers={"If-Match": f'"{made.hash}"'},
            content=b'{"type": "reject", "message": "risky: \\ud800"}',
        )  # fmt: skip
        typed = ann.post(
            f"/proposals/{P}/decision",
            headers={"If-Match": f'"{made.hash}"', "Content-Type": "application/json"},
            content=b'{"type": "reject", "message": "risky: \\ud800"}',
        )
        said = press(ann, made.hash, type="reject", message="risky: too much at once")
    assert [r.status_code for r in (bare, unknown, more, hidden, typed)] == [
        422, 422, 422, 415, 422,
    ]  # fmt: skip
    assert "wrong_cause" in bare.json()["detail"]
    assert said.json()["decision"]["reason"] == "risky"
    assert said.json()["decision"]["note"] == "too much at once"
    assert said.json()["state"] == "rejected"


def test_a_secret_in_a_message_is_masked_before_it_is_kept(inbox: Inbox, served: Served) -> None:
    made = wait(inbox)
    key = "sk-" + "proj-" + "A1b2C3d4" * 5
    with client(served) as ann:
        said = press(ann, made.hash, type="reject", message=f"other: found {key} in it")
    assert key not in said.text
    assert key not in str(inbox.decisions(P))


def test_an_edit_makes_the_next_revision_and_one_that_breaks_a_rule_is_refused(
    inbox: Inbox, served: Served
) -> None:
    made = wait(inbox)
    with client(served) as ann:
        texts = ann.get(f"/proposals/{P}").json()["texts"]
        path, text = next(iter(texts.items()))
        args = {f"text:{path}": text.replace("Be kind.", "Be kind and \u202eshort.")}
        bidi = press(ann, made.hash, type="edit", edited_action={"args": args})
        args = {f"text:{path}": text.replace("Be kind.", "Be kind and short.")}
        elsewhere = {"text:../../etc/passwd": "root"}
        outside = press(ann, made.hash, type="edit", edited_action={"args": elsewhere})
        nothing = press(ann, made.hash, type="edit")
        edited = press(ann, made.hash, type="edit", edited_action={"args": args})
        stale = press(ann, made.hash)
    assert (bidi.status_code, outside.status_code, nothing.status_code) == (422, 422, 422)
    assert edited.status_code == 200, edited.text
    assert edited.json()["revision"] == 2
    assert stale.status_code == 412
    assert stale.json()["changed"] == [path]
    assert "-- Be kind." in stale.json()["diff"]
    assert "+- Be kind and short." in stale.json()["diff"]


def test_who_wrote_a_risky_text_does_not_approve_it_and_the_answer_says_so(
    inbox: Inbox, served: Served
) -> None:
    made = wait(inbox, risk="medium", author="person:ann")
    with client(served) as ann, client(served, "ben") as ben:
        own = press(ann, made.hash)
        other = press(ben, made.hash)
    assert own.status_code == 403
    assert "ann wrote this text" in own.json()["detail"]
    assert other.status_code == 200


def test_two_seats_are_two_people(tmp_path: Path) -> None:
    inbox = installation(tmp_path, review={"second_person": "high"})
    made = wait(inbox, risk="high")
    with (
        serve_app(inbox.home) as served,
        client(served) as ann,
        client(served, "ben") as ben,
        client(served, "cleo") as cleo,
    ):
        first = press(ann, made.hash)
        twice = press(ann, made.hash)
        listed = ben.get("/proposals", params={"status": "waiting"}).json()["proposals"]
        second = press(ben, made.hash)
        third = press(cleo, made.hash)
    assert first.json()["seats"] == {"have": 1, "needed": 2}
    assert first.json()["state"] == "waiting"
    assert twice.status_code == 403
    assert "second person" in twice.json()["detail"]
    assert listed[0]["waits"]["seats"] == {"have": 1, "needed": 2}
    assert second.json()["state"] == "approved"
    assert third.status_code == 409
    assert third.json()["decision"]["by"] == "ben"


def test_two_people_at_the_same_moment_take_both_seats(tmp_path: Path) -> None:
    inbox = installation(tmp_path, review={"second_person": "high"})
    made = wait(inbox, risk="high")
    with (
        serve_app(inbox.home) as served,
        client(served) as ann,
        client(served, "ben") as ben,
        ThreadPoolExecutor(2) as pool,
    ):
        answers = list(pool.map(lambda who: press(who, made.hash), (ann, ben)))
    assert [a.status_code for a in answers] == [200, 200], [a.text for a in answers]
    assert sorted((d.seat, d.by) for d in inbox.decisions(P)) in (
        [(1, "ann"), (2, "ben")], [(1, "ben"), (2, "ann")],
    )  # fmt: skip


def test_a_moved_base_records_nothing_and_says_what_moved(inbox: Inbox, served: Served) -> None:
    made = wait(inbox)
    file = inbox.root() / "instructions" / "main.md"
    file.write_text(file.read_text("utf-8") + "\n- A rule by hand.\n", "utf-8")
    with client(served) as ann:
        moved = press(ann, made.hash)
    assert moved.status_code == 409
    assert moved.json()["changed"] == ["instructions/main.md"]
    assert moved.json()["decision"] is None
    assert inbox.decisions(P) == []


def test_an_override_is_never_meant_by_itself(inbox: Inbox, served: Served) -> None:
    """A late second press of `approve` must not approve the card that came after it, unread."""
    made = wait(inbox)
    with client(served) as ann, client(served, "ben") as ben:
        first = press(ann, made.hash)
        inconclusive(inbox)
        shown = ann.get(f"/proposals/{P}").json()
        listed = ann.get("/proposals", params={"status": "inconclusive"}).json()["proposals"]
        again = press(ann, made.hash)
        edited = press(
            ben, made.hash, card="override", type="edit",
            edited_action={"args": {"text:instructions/main.md": "x"}},
        )  # fmt: skip
        assert len(inbox.decisions(P)) == 1
        meant = press(ben, made.hash, card="override")
        twice = press(ann, made.hash, card="override")
    assert first.json()["decision"]["card"] == "approve"
    assert shown["waits"]["card"] == listed[0]["waits"]["card"] == "override"
    assert shown["allowed"] == ["approve", "reject"]
    assert again.status_code == 409
    assert again.json()["decision"] == first.json()["decision"]
    assert "card: override" in again.json()["detail"]
    assert edited.status_code == 422
    assert meant.status_code == 200, meant.text
    assert (meant.json()["decision"]["card"], meant.json()["decision"]["by"]) == ("override", "ben")
    assert twice.status_code == 409
    assert twice.json()["decision"]["by"] == "ben"


def inconclusive(inbox: Inbox) -> None:
    """The gate could not tell, and its card waits."""
    with inbox.looking() as ledger:
        card = ledger.proposals.card(P, 1, "approve")
        assert card is not None
        with ledger.db.write() as tx:
            ledger.proposals.put_card(tx, replace(card, kind="override"))
            ledger.proposals.set_state(tx, ledger.proposals.latest(P).proposal, "inconclusive")


def test_an_override_before_the_gate_is_refused(inbox: Inbox, served: Served) -> None:
    made = wait(inbox)
    with client(served) as ann:
        early = press(ann, made.hash, card="override")
    assert early.status_code == 409
    assert early.json()["decision"] is None
    assert inbox.decisions(P) == []


def test_a_list_is_filtered_by_state_and_finding(inbox: Inbox, served: Served) -> None:
    for name in ("a", "b", "c"):
        wait(inbox, f"p-{name}")
    with client(served) as ann:

        def listed(**params: Any) -> list[str]:
            answer = ann.get("/proposals", params=params)
            assert answer.status_code == 200, answer.text
            return [one["id"] for one in answer.json()["proposals"]]

        tag = ann.get("/proposals/p-b").headers["etag"].strip('"')
        assert press(ann, tag, which="p-b", type="reject", message="duplicate").status_code == 200
        assert listed(status="waiting") == listed(status="open") == ["p-c", "p-a"]
        assert listed(status="decided") == listed(status="rejected") == ["p-b"]
        assert listed(status="applied") == listed(finding="f-none") == []
        assert listed(finding="f-3qk7m2xza4") == listed() == ["p-c", "p-b", "p-a"]
        assert ann.get("/proposals", params={"status": "perhaps"}).status_code == 422
        assert ann.get("/proposals", params={"limit": 0}).status_code == 422
        closed = ann.post("/proposals/p-b/ask", json={"text": "Why?"})
    assert closed.status_code == 409
    assert closed.json()["decision"]["type"] == "reject"


def test_pages_go_through_all_proposals_of_all_projects_newest_first(tmp_path: Path) -> None:
    inbox = installation(tmp_path, "refunds", "billing")
    made = []
    for number in range(7):
        project = "refunds" if number % 3 else "billing"
        made.append(wait(inbox, f"p-{number}", project=project).id)
    seen, cursor = [], None
    with serve_app(inbox.home) as served, client(served) as ann:
        while True:
            params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
            page = ann.get("/proposals", params=params).json()
            seen += [one["id"] for one in page["proposals"]]
            cursor = page["next"]
            if cursor is None:
                break
        one = ann.get("/proposals", params={"project": "billing"}).json()["proposals"]
        for forged in ("x", "AAAA", base64.urlsafe_b64encode(b'{"a": 1}').decode(), "é"):
            assert ann.get("/proposals", params={"cursor": forged}).status_code == 422
    assert seen == made[::-1]
    assert [p["id"] for p in one] == ["p-6", "p-3", "p-0"]


def test_a_question_and_a_deferral_decide_nothing_and_are_kept_once(
    inbox: Inbox, served: Served
) -> None:
    made = wait(inbox)
    until = (datetime.now(UTC) + timedelta(hours=3)).isoformat()
    with client(served) as ann:
        key = {"Idempotency-Key": "q-1"}
        asked = ann.post(f"/proposals/{P}/ask", json={"text": "Why here?"}, headers=key)
        again = ann.post(f"/proposals/{P}/ask", json={"text": "Why here?"}, headers=key)
        later = ann.post(f"/proposals/{P}/defer", json={"until": until})
        past = ann.post(f"/proposals/{P}/defer", json={"until": "2020-01-01T00:00:00Z"})
        last = ann.post(f"/proposals/{P}/defer", json={"until": "9999-12-31T23:59:59-10:00"})
        naive = ann.post(f"/proposals/{P}/defer", json={"until": "2030-01-01T00:00:00"})
        waiting = ann.get("/proposals", params={"status": "waiting"}).json()["proposals"]
        deferred = ann.get("/proposals", params={"status": "deferred"}).json()["proposals"]
        remarks = ann.get(f"/proposals/{P}").json()["remarks"]
        yes = press(ann, made.hash)
    assert (asked.json()["first"], again.json()["first"]) == (True, False)
    assert asked.json()["remark"] == again.json()["remark"]
    assert later.status_code == 200, later.text
    assert {past.status_code, last.status_code, naive.status_code} == {422}
    assert waiting == []
    assert [one["id"] for one in deferred] == [P]
    assert [r["kind"] for r in remarks] == ["ask", "defer"]
    assert yes.status_code == 200


def test_a_viewer_reads_an_operator_runs_and_neither_decides(inbox: Inbox, served: Served) -> None:
    made = wait(inbox)
    for roles in (("viewer",), ("operator",), ("viewer", "operator")):
        with client(served, "vic", *roles) as vic:
            assert vic.get(f"/proposals/{P}").status_code == 200
            refused = press(vic, made.hash)
            assert refused.status_code == 403
            assert "'decide'" in refused.json()["detail"]
            for path in ("ask", "defer"):
                body = {"text": "?"} if path == "ask" else {"until": "2030-01-01T00:00:00Z"}
                assert vic.post(f"/proposals/{P}/{path}", json=body).status_code == 403
    assert inbox.decisions(P) == []


def test_a_thousand_waiting_proposals_are_listed(inbox: Inbox, served: Served) -> None:
    made = wait(inbox, "p-0000")
    with inbox.looking() as ledger, ledger.db.write() as tx:
        for number in range(1, 1000):
            one = replace(made, id=ProposalId(f"p-{number:04d}"))
            ledger.proposals.insert(tx, one, state="waiting")
    with client(served) as ann:
        page = ann.get("/proposals", params={"status": "waiting", "limit": 200}).json()
        seen = {one["id"] for one in page["proposals"]}
        while page["next"] is not None:
            params = {"status": "waiting", "limit": 200, "cursor": page["next"]}
            page = ann.get("/proposals", params=params).json()
            seen |= {one["id"] for one in page["proposals"]}
    assert len(seen) == 1000


def test_findings_runs_and_the_audit_log_are_shown(inbox: Inbox, served: Served) -> None:
    wait(inbox)
    with inbox.looking() as ledger:
        ledger.incidents.open(
            "11111111-1111-4111-8111-111111111111", kind="alert", key="a|1",
            request={"kind": "alert"}, driver="local",
        )  # fmt: skip
        ledger.incidents.set_state(
            "11111111-1111-4111-8111-111111111111", "quarantined", tries=6, problem="no disk"
        )
    with client(served, "vic", "viewer") as vic, client(served, "olga", "operator") as olga:
        (found,) = vic.get("/findings").json()["findings"]
        (run,) = vic.get("/incidents", params={"state": "quarantined"}).json()["incidents"]
        thread = run["thread"]
        refused = vic.post(f"/incidents/{thread}/retry")
        put_back = olga.post(f"/incidents/{thread}/retry")
        audit_ = vic.get("/audit/verify").json()
    assert found["title"] == "payment_api answers 504"
    with inbox.looking() as ledger, ledger.db.write() as tx:
        ledger.choices.put(tx, "rename", found["signature"], {"title": "Payments hang"}, by="ann")
    with client(served, "vic", "viewer") as vic:
        (renamed,) = vic.get("/findings").json()["findings"]
    assert renamed["title"] == "Payments hang"
    assert (run["problem"], run["tries"], run["fired"]) == ("no disk", 6, 1)
    assert refused.status_code == 403
    assert put_back.status_code == 200, put_back.text
    assert audit_["ok"] is True
    assert audit_["projects"][0]["entries"] > 0
