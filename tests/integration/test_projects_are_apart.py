"""Two projects in one installation: what one token sees, another of the other project does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from contracts.proposals import DecisionId, Release, ReleaseId
from memory.ledger import Ledger
from tests.approval_worlds import Inbox, installation, wait
from tests.serving_app import Served, serve_app

PROJECTS = ("refunds", "billing")
THREADS = {
    "refunds": "11111111-1111-4111-8111-111111111111",
    "billing": "22222222-2222-4222-8222-222222222222",
}


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = installation(tmp_path, *PROJECTS)
    for project in PROJECTS:
        wait(made, f"p-{project}", project=project, text=f"- Words of {project}.")
        with made.looking(project) as ledger:
            ledger.incidents.open(
                THREADS[project], kind="alert", key=project, request={"kind": "alert"},
                driver="local",
            )  # fmt: skip
            ledger.incidents.set_state(THREADS[project], "quarantined", problem=f"of {project}")
            release(ledger, project)
    return made


def release(ledger: Ledger, project: str) -> None:
    proposal = ledger.proposals.latest(f"p-{project}").proposal
    with ledger.db.write() as tx:
        ledger.effects.put_release(
            tx,
            Release(
                id=ReleaseId(f"r-{project}"), proposal=proposal.id, proposal_hash=proposal.hash,
                decision_id=DecisionId(f"d-{project}"), target=f"directory:{project}",
                before=proposal.base_revision, after=proposal.candidate_revision,
                at=ledger.db.clock(),
            ),
        )  # fmt: skip


@pytest.fixture
def served(inbox: Inbox) -> Iterator[Served]:
    with serve_app(inbox.home) as server:
        yield server


def of(served: Served, project: str | None) -> httpx.Client:
    """An administrator of one project, or of all."""
    headers = served.headers("ann", ("admin",), None if project is None else [project])
    return httpx.Client(base_url=served.url, headers=headers, timeout=30)


LISTS = ("/proposals", "/releases", "/findings", "/incidents", "/audit/verify")


@pytest.mark.parametrize("project", PROJECTS)
def test_a_list_holds_rows_of_the_callers_projects_alone(served: Served, project: str) -> None:
    other = next(p for p in PROJECTS if p != project)
    with of(served, project) as ann, of(served, None) as root:
        for path in LISTS:
            mine, all_ = ann.get(path), root.get(path)
            assert f'"project":"{project}"' in mine.text, path
            assert other not in mine.text, path
            assert f'"project":"{project}"' in all_.text, path
            assert f'"project":"{other}"' in all_.text, path
            assert ann.get(path, params={"project": other}).status_code == 404


@pytest.mark.parametrize("project", PROJECTS)
def test_rows_of_another_project_are_not_there(inbox: Inbox, served: Served, project: str) -> None:
    other = next(p for p in PROJECTS if p != project)
    hash_ = '"' + "a" * 64 + '"'
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/proposals/p-{}", {}),
        ("POST", "/proposals/p-{}/decision", {"json": {"type": "approve"}}),
        ("POST", "/proposals/p-{}/ask", {"json": {"text": "hm"}}),
        ("POST", "/proposals/p-{}/defer", {"json": {"until": "2040-01-01T00:00:00Z"}}),
        ("GET", "/releases/r-{}", {}),
        ("GET", "/releases/r-{}/story", {}),
        ("POST", "/releases/r-{}/undo", {}),
    ]
    before = {p: inbox.harness(p) for p in PROJECTS}
    with of(served, project) as ann:
        for method, path, more in calls:
            for headers in ({}, {"If-Match": hash_}):
                theirs = ann.request(method, path.format(other), headers=headers, **more)
                nobodys = ann.request(method, path.format("nowhere"), headers=headers, **more)
                assert theirs.status_code == nobodys.status_code == 404, (method, path)
                assert theirs.text == nobodys.text, (method, path)
        theirs = ann.post(f"/incidents/{THREADS[other]}/retry")
        nobodys = ann.post("/incidents/33333333-3333-4333-8333-333333333333/retry")
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.text == nobodys.text
        assert ann.get(f"/incidents/{THREADS[other]}").status_code == 404
        assert ann.get(f"/proposals/p-{project}").status_code == 200
    assert inbox.decisions(f"p-{other}", other) == []
    with inbox.looking(other) as ledger:
        assert ledger.incidents.get(THREADS[other]).state == "quarantined"
        assert ledger.trail.of(f"p-{other}") == []
    assert {p: inbox.harness(p) for p in PROJECTS} == before


def test_a_key_of_one_project_says_nothing_in_another(inbox: Inbox, served: Served) -> None:
    with of(served, None) as root:
        answers = []
        for project in PROJECTS:
            path = f"/proposals/p-{project}"
            tag = root.get(path).headers["etag"]
            headers = {"If-Match": tag, "Idempotency-Key": "the same"}
            answers.append(root.post(f"{path}/decision", json={"type": "approve"}, headers=headers))
    assert [a.status_code for a in answers] == [200, 200]
    assert [a.json()["first"] for a in answers] == [True, True]


def test_a_project_that_cannot_be_opened_hides_no_other(inbox: Inbox, served: Served) -> None:
    (inbox.root("billing") / "tracemend.yaml").write_text("project: [", "utf-8")
    with of(served, None) as root:
        listed = root.get("/proposals").json()["proposals"]
        broken = root.get("/proposals", params={"project": "billing"})
    assert [one["project"] for one in listed] == ["refunds"]
    assert broken.status_code == 500
    assert str(inbox.home.parent) not in broken.text
