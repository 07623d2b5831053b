"""A person picks an alternative: an edit, a card of its own, and only the picked one ever runs."""

from pathlib import Path

import pytest

from contracts.errors import PolicyRefused, StaleBase
from contracts.json_types import Json, JsonObject
from graph.service import Service
from memory.workspace import open_project
from nodes.decide import Person
from tests.story.small_worlds import (
    ANN,
    BEFORE,
    GOOD,
    HARMFUL,
    MAIN,
    NOTHING,
    PROJECT,
    Small,
    cases,
    change_settings,
    enter,
    opened,
    text_hash,
    write_project,
)

pytestmark = pytest.mark.story

OTHER = "- When payments are slow, Ask the payment service a second time.\n"


def pick(label: str, **more: Json) -> JsonObject:
    return {"type": "edit", "edited_action": {"args": {"alternative": label, **more}}}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    write_project(folder, cases())
    change_settings(folder, gate={"precheck": False})
    monkeypatch.setenv("TRACEMEND_HOME", str(folder / ".tracemend"))
    return folder


def _labels(small: Small) -> list[tuple[str, str]]:
    found = small.latest().alternatives
    return [(one.label, one.draft.operations[0].text) for one in found]


async def test_only_the_picked_draft_runs_and_is_applied(root: Path) -> None:
    """The worker notes which instructions it was given in every run."""
    async with opened(enter(root), added=NOTHING, others=(OTHER, HARMFUL)) as small:
        picked = await small.service.decide(small.proposal, pick("b"), ANN)
        assert (picked.state, picked.proposal.revision) == ("waiting", 2)
        assert small.ran() == []
        assert (root / MAIN).read_text("utf-8") == BEFORE
        done = await small.approve()
        assert done.report is not None
        assert done.report[0].verdict == "accept", done.report[0].reason
        ran = {digest for digest, _ in small.ran()}
    assert ran == {text_hash(BEFORE), text_hash(BEFORE + OTHER)}
    assert (root / MAIN).read_text("utf-8") == BEFORE + OTHER


async def test_a_pick_keeps_the_author_and_the_other_drafts_and_is_no_approval(
    root: Path,
) -> None:
    async with opened(enter(root), others=(OTHER, HARMFUL)) as small:
        before = small.latest()
        await small.service.decide(small.proposal, pick("c"), ANN)
        after = small.latest()
        assert after.draft == before.alternatives[1].draft
        assert _labels(small) == [("b", GOOD), ("c", OTHER)]
        assert after.candidate_revision == before.alternatives[1].candidate_revision
        assert after.hash != before.hash
        assert after.plan
        decisions = small.ws.ledger.proposals.decisions(before.id, 1, "approve")
        assert [(d.type, d.by, d.note) for d in decisions] == [
            ("edit", "ann", "picked alternative c")
        ]
        assert small.ws.ledger.proposals.decisions(before.id, 2, "approve") == []
        trail = str(small.card()["trail"])
        assert "picked alternative c" in trail


async def test_a_pick_can_be_taken_back_by_another_pick(root: Path) -> None:
    async with opened(enter(root), others=(OTHER,)) as small:
        first = small.latest()
        await small.service.decide(small.proposal, pick("b"), ANN)
        await small.service.decide(small.proposal, pick("b"), ANN)
        assert small.latest().revision == 3
        assert small.latest().candidate_revision == first.candidate_revision
        assert _labels(small) == [("b", OTHER)]


async def test_a_pick_through_the_graph_s_own_resume_is_the_same(root: Path) -> None:
    async with opened(enter(root), others=(OTHER,)) as small:
        shown = small.latest()
        standing = await small.driver.standing(shown.thread)
        (pending,) = standing.pending
        requests = pending.payload["action_requests"]
        assert isinstance(requests, list)
        args = dict(requests[0]["args"])
        assert args["alternative"] == "a"
        # A form sends all arguments back, with the one that a person changed.
        answer: JsonObject = {
            "decisions": [
                {"type": "edit",
                 "edited_action": {"name": "apply_proposal", "args": {**args, "alternative": "b"}}}
            ],
            "by": "ben",
        }  # fmt: skip
        await small.driver.resume(shown.thread, pending.id, answer, lambda _: None)
        assert small.latest().revision == 2
        assert small.latest().draft == shown.alternatives[0].draft
        (decision,) = small.ws.ledger.proposals.decisions(shown.id, 1, "approve")
        assert (decision.by, decision.via, decision.type) == ("ben", "langgraph", "edit")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (pick("c"), "r1 has no such draft; there is b"),
        (pick("zebra"), "r1 has no such draft"),
        (pick("b", **{f"text:{MAIN}": "other"}), "send it without changed texts"),
        (pick("b", proposal_hash="0" * 64), "made on another revision"),
        (pick("a"), "the edit changes nothing"),
    ],
)
async def test_a_pick_that_is_none_is_refused_and_nothing_is_recorded(
    root: Path, said: JsonObject, why: str
) -> None:
    async with opened(enter(root), others=(OTHER,)) as small:
        if why == "the edit changes nothing":
            said = pick("a", **{f"text:{MAIN}": BEFORE})
        with pytest.raises(PolicyRefused, match=why):
            await small.service.decide(small.proposal, said, ANN)
        assert small.latest().revision == 1
        assert small.ws.ledger.proposals.decisions(small.proposal, 1, "approve") == []


async def test_a_pick_of_what_was_not_seen_is_refused(root: Path) -> None:
    async with opened(enter(root), others=(OTHER,)) as small:
        old = small.latest().hash
        await small.service.decide(small.proposal, pick("b"), ANN)
        with pytest.raises(StaleBase):
            await small.service.decide(small.proposal, pick("b"), ANN, expected_hash=old)


async def test_the_policy_is_asked_again_when_a_draft_is_picked(root: Path) -> None:
    async with opened(enter(root), others=(HARMFUL,)) as small:
        change_settings(root, harness={"invariants": ["Never answer in Latin."]})
        stricter = Service(open_project(root / ".tracemend", PROJECT), small.driver, lambda _: None)
        with pytest.raises(PolicyRefused, match="invariant"):
            await stricter.decide(small.proposal, pick("b"), ANN)


async def test_another_person_may_approve_what_the_first_one_picked(root: Path) -> None:
    """A pick makes nobody an author: who picked may approve as well."""
    async with opened(enter(root), others=(OTHER,)) as small:
        await small.service.decide(small.proposal, pick("b"), ANN)
        assert small.latest().draft.author == "playbook:small"
        ben = Person(name="ben", via="cli", authenticated=True)
        done = await small.service.decide(small.proposal, {"type": "approve"}, ben)
        assert done.state in ("applied", "watching")
