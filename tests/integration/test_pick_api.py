"""Alternatives over HTTP: what is shown of them, and how one is picked, over real sockets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.approval_worlds import ADDED, Inbox, installation, wait
from tests.serving_app import Served, serve_app

P = "p-4k7q2m6xza"
OTHERS = ("- Ask twice before you send it.", "- Name the carrier.")


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return installation(tmp_path)


@pytest.fixture
def ann(inbox: Inbox) -> Iterator[httpx.Client]:
    with serve_app(inbox.home) as server, _client(server) as client:
        yield client


def _client(served: Served) -> httpx.Client:
    return httpx.Client(
        base_url=served.url, headers=served.headers("ann", ("reviewer",)), timeout=30
    )


def _send(ann: httpx.Client, hash_: str, **body: Any) -> httpx.Response:
    return ann.post(f"/proposals/{P}/decision", json=body, headers={"If-Match": f'"{hash_}"'})


def test_the_detail_names_the_alternatives_and_the_list_does_not(
    inbox: Inbox, ann: httpx.Client
) -> None:
    wait(inbox, others=OTHERS)
    detail = ann.get(f"/proposals/{P}").json()
    (listed,) = ann.get("/proposals").json()["proposals"]
    assert [one["label"] for one in detail["alternatives"]] == ["b", "c"]
    assert detail["alternatives"][0]["paths"] == ["instructions/main.md"]
    assert detail["alternatives"][0]["risk"] == "low"
    assert list(detail["texts"]) == ["instructions/main.md"]
    assert "Ask twice" not in str(detail["texts"])
    assert "Ask twice" in str(detail["card"]["alternatives"])
    assert "Ask twice" not in str(listed)


def test_a_pick_is_an_edit_that_makes_the_next_revision_and_approves_nothing(
    inbox: Inbox, ann: httpx.Client
) -> None:
    made, before = wait(inbox, others=OTHERS), inbox.harness()
    given = _send(ann, made.hash, type="edit", alternative="b")
    assert given.status_code == 200, given.text
    body = given.json()
    assert (body["decision"]["type"], body["decision"]["note"]) == ("edit", "picked alternative b")
    assert (body["revision"], body["state"]) == (2, "drafting")
    with inbox.looking() as ledger:
        picked = ledger.proposals.latest(P).proposal
    assert picked.draft == made.alternatives[0].draft
    added = [one.draft.operations[0].text for one in picked.alternatives]
    assert added == [f"{ADDED}\n", f"{OTHERS[1]}\n"]
    assert inbox.harness() == before
    stale = _send(ann, made.hash, type="approve")
    assert stale.status_code == 412
    assert OTHERS[0] in stale.json()["diff"]


def test_a_pick_through_the_arguments_of_an_edit_is_the_same(
    inbox: Inbox, ann: httpx.Client
) -> None:
    made = wait(inbox, others=OTHERS)
    given = _send(ann, made.hash, type="edit", edited_action={"args": {"alternative": "c"}})
    assert given.status_code == 200, given.text
    with inbox.looking() as ledger:
        assert ledger.proposals.latest(P).proposal.draft == made.alternatives[1].draft


@pytest.mark.parametrize(
    ("others", "body", "why"),
    [
        (OTHERS, {"type": "edit", "alternative": "d"}, "'b' or 'c'"),
        (OTHERS[:1], {"type": "edit", "alternative": "c"}, "no such draft; there is b"),
        ((), {"type": "edit", "alternative": "b"}, "no such draft; there is none"),
        (OTHERS, {"type": "approve", "alternative": "b"}, "waits for its own approval"),
        (
            OTHERS,
            {"type": "edit", "alternative": "b", "edited_action": {"args": {"text:x": "y"}}},
            "an edit needs",
        ),
        (OTHERS, {"type": "edit"}, "or `alternative`"),
    ],
)
def test_a_pick_that_is_none_is_refused_with_the_reason(
    inbox: Inbox, ann: httpx.Client, others: tuple[str, ...], body: dict[str, Any], why: str
) -> None:
    made = wait(inbox, others=others)
    refused = _send(ann, made.hash, **body)
    assert refused.status_code == 422
    assert why in refused.text
    assert inbox.decisions(P) == []
    assert ann.get(f"/proposals/{P}").json()["revision"] == 1


def test_the_document_of_the_api_names_the_field(ann: httpx.Client) -> None:
    document = ann.get("/openapi.json").json()
    answer = document["components"]["schemas"]["Answer"]["properties"]["alternative"]
    assert ["b", "c"] in [one.get("enum") for one in answer["anyOf"]]
    assert "AlternativeSummary" in document["components"]["schemas"]
