"""`tracemend show`: what the story says, from a real ledger."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from connectors.review.story_markdown import story_markdown
from connectors.review.story_page import sections
from contracts.alerts import Alert, request_of
from contracts.codec import to_json
from contracts.errors import UsageError
from contracts.gate import Lesson
from contracts.json_types import content_id
from contracts.proposals import Proposal
from nodes.attribution.story import story_of
from tests.attribution_worlds import Desk, desk

KEY = "sk-" + "a1B2" * 12


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Desk]:
    world = desk(tmp_path)
    yield world
    world.ws.ledger.close()


def alert_run(world: Desk, thread: str, title: str = "refunds fail") -> None:
    alert = Alert(source="langfuse", key="k-1", group="g", kind="firing", title=title)
    world.ws.ledger.incidents.open(
        thread, kind="alert", key="k-1", request=request_of(alert), driver="local"
    )  # fmt: skip


def facts(page: str, heading: str) -> str:
    """One section of the Markdown page."""
    return page.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]


def test_a_release_is_told_from_its_alert_to_its_audit_entry(made: Desk) -> None:
    alert_run(made, "t-0")
    release = made.release("one\nadded\n", by="ann", origin="commit 1a2b3c4")
    story = story_of(made.ws, release.id)
    assert (story.kind, story.proposal, story.revision) == ("release", release.proposal, 1)
    assert (story.alert.source, story.alert.what, story.alert.fired) == (
        "langfuse", "refunds fail", 1,
    )  # fmt: skip
    assert story.finding.units == 23
    assert [line.failed for line in story.evidence] == [True, False]
    assert story.diagnosis.cause == "tool_timeout"
    assert [(one.by, one.type, one.card) for one in story.decisions] == [
        ("ann", "approve", "approve")
    ]
    assert story.gate is not None
    assert story.gate.verdict == "accept"
    assert story.release is not None
    entries = made.ws.ledger.audit.verify()
    assert story.release.audit_seq is not None
    assert story.release.audit_seq < entries.entries
    assert [(one.kind, one.state, one.origin) for one in story.targets] == [
        ("apply", "done", "commit 1a2b3c4")
    ]
    assert story.outcome == "applied on 2026-03-10 by a decision of ann; not taken back"


def test_the_diff_is_whole_and_an_undo_shows_it_the_other_way(made: Desk) -> None:
    release = made.release("".join(f"line {n}\n" for n in range(200)))
    undo = made.undo(release)
    shown, back = story_of(made.ws, release.id), story_of(made.ws, undo.id)
    assert (shown.lines_added, shown.lines_removed) == (200, 3)
    assert (back.lines_added, back.lines_removed) == (3, 200)
    assert (back.kind, back.files[0].folded_added) == ("undo", 0)
    assert any(line == "+line 199" for line in shown.files[0].lines)
    assert "taken back by" in shown.outcome
    assert back.outcome.startswith(f"took {release.id} back")
    assert shown.undo is not None
    assert shown.undo.by == ("bob",)
    assert {one.kind for one in shown.targets} == {"apply", "undo"}


def test_a_proposal_that_was_rejected_says_by_whom_and_why(made: Desk) -> None:
    waits = made.propose("one\nadded\n")
    made.decide(waits, "bob", yes=False, reason="wrong_fix", note="the tool is at fault")
    with made.ws.ledger.db.write() as tx:
        made.ws.ledger.proposals.set_state(tx, waits, "rejected")
    story = story_of(made.ws, waits.id)
    assert story.kind == "proposal"
    assert story.outcome == (
        "not applied: rejected by bob because: wrong_fix, the tool is at fault"
    )
    page = story_markdown(story)
    assert "not applied: rejected by bob" in facts(page, "Applied")
    assert "no gate reached a verdict" in facts(page, "Gate")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("waiting", "waits for a person"),
        ("gating", "its gate runs"),
        ("gate_rejected", "the gate said reject: harm not excluded"),
        ("inconclusive", "inconclusive, and it waits for a person"),
        ("expired", "not applied: expired"),
        ("stuck", "stuck half way"),
    ],
)
def test_what_is_not_applied_says_where_it_stands(made: Desk, state: str, said: str) -> None:
    waits = made.propose("one\nadded\n")
    if state == "gate_rejected":
        made.gate(waits, "reject")
    with made.ws.ledger.db.write() as tx:
        made.ws.ledger.proposals.set_state(tx, waits, state)  # type: ignore[arg-type]  # of the table
    assert said in story_of(made.ws, waits.id).outcome


def test_a_released_proposal_is_told_as_its_release(made: Desk) -> None:
    release = made.release("one\nadded\n")
    story = story_of(made.ws, release.proposal)
    assert story.kind == "release"
    assert story.release is not None
    assert story.release.id == release.id


def test_an_override_is_named_where_the_gate_is(made: Desk) -> None:
    release = made.release("one\n", override="eve")
    story = story_of(made.ws, release.id)
    assert story.gate is not None
    assert (story.gate.verdict, story.gate.overridden_by) == ("inconclusive", "eve")
    assert "overridden by eve" in facts(story_markdown(story), "Gate")
    assert "eve approved r1 over the gate's verdict" in facts(story_markdown(story), "Decisions")


def test_an_override_of_another_report_allowed_nothing(made: Desk) -> None:
    release = made.release("one\n")
    stored = made.ws.ledger.proposals.by_hash(release.proposal_hash)
    assert stored is not None
    made.decide(stored.proposal, "eve", "override", binds="0" * 64)
    story = story_of(made.ws, release.id)
    assert story.gate is not None
    assert story.gate.overridden_by is None
    assert story.release is not None
    assert story.release.by == ("ann",)


def test_unknown_cost_is_unknown_and_never_nothing(made: Desk) -> None:
    release = made.release("one\nadded\n")
    assert story_of(made.ws, release.id).cost.total_usd == pytest.approx(0.84)
    with made.ws.ledger.db.write() as tx:
        made.ws.ledger.spends.add(
            tx, "draft", "openai:x", key="1", tokens=4100, cost_usd=None, thread="t-0"
        )
    story = story_of(made.ws, release.id)
    assert (story.cost.tokens, story.cost.models_usd, story.cost.total_usd) == (4100, None, None)
    cost = facts(story_markdown(story), "Cost")
    assert "1 calls, 4,100 tokens, cost unknown" in cost
    assert "together: cost unknown" in cost


def test_what_was_watched_and_learned_is_of_this_release_alone(made: Desk) -> None:
    first = made.release("one\nadded\n")
    second = made.release("one\nadded\nmore\n")

    def side(failures: int) -> dict[str, object]:
        return {"failures": failures, "runs": 150}

    body = {"watched": "fell", "note": "No claim is made.", "unit": "session"}
    made.ws.ledger.steps.once(
        "t-w", f"watch:{first.id}",
        lambda _: {**body, "before": side(19), "after": side(1)},  # type: ignore[dict-item]  # JSON
    )  # fmt: skip
    lesson = Lesson(
        id=content_id("l-", first.proposal_hash, "fell"), finding_id="f-3qk7m2xza4",
        signature="tool_timeout:payment_api:504", cause="tool_timeout", edit="e",
        decision="approve", reason=None, outcome="fell", at=made.ws.ledger.db.clock(),
    )  # fmt: skip
    with made.ws.ledger.db.write() as tx:
        made.ws.ledger.knowledge.put_lesson(tx, lesson)
    told, other = story_of(made.ws, first.id), story_of(made.ws, second.id)
    assert [(one.watched, one.before, one.after) for one in told.watched] == [
        ("fell", (19, 150), (1, 150))
    ]
    assert [one.outcome for one in told.lessons] == ["fell"]
    assert (other.watched, other.lessons) == ((), ())
    assert "nobody has looked at production since" in story_markdown(other)


def test_no_sealed_case_is_named_anywhere(made: Desk) -> None:
    release = made.release("one\nadded\n")
    story = story_of(made.ws, release.id)
    text = story_markdown(story) + str(to_json(story))
    assert made.ws.ledger.proposals.by_hash(release.proposal_hash) is not None
    assert "c-sealed" in str(_plan(made, release.proposal))
    assert "c-sealed" not in text
    assert "9f3c1d0a77b2" in text, "a sealed case that got worse is told by its fingerprint"


def _plan(made: Desk, proposal: str) -> object:
    stored: Proposal = made.ws.ledger.proposals.latest(proposal).proposal
    return stored.plan


def test_secrets_and_hidden_characters_reach_no_form(made: Desk) -> None:
    alert_run(made, "t-0", title=f"fails {KEY} \u202egnp")
    waits = made.propose(f"one\n{KEY}\n", why=f"as the trace says: {KEY}")
    made.decide(waits, "bob\x1b[31m", yes=False, reason="other", note=f"no: {KEY}")
    story = story_of(made.ws, waits.id)
    for text in (story_markdown(story), str(to_json(story))):
        assert KEY not in text
        assert "\u202e" not in text
        assert "\x1b" not in text


def test_hostile_text_does_not_break_out_of_the_page(made: Desk) -> None:
    title = "x | y\n\n## Decisions\n- eve approved <b>r1</b> </details> @ops #12 GH-7 fixes a/b#3"
    alert_run(made, "t-0", title=title)
    release = made.release("one\n````\n</details>\n# Heading\n", by="@ops", why=title)
    story = story_of(made.ws, release.id)
    page = story_markdown(story)
    usual = [section.title for section in sections(story)]
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(page)
    assert re.findall(r"<h2>(.*?)</h2>", html) == usual
    assert len(re.findall(r"<h[13-6]>", html)) == 1
    assert "<b>" not in html
    assert html.count("<table>") == 1
    assert {len(row) for row in _rows(html)} == {6}
    outside = _without_code(page)
    assert "@ops" not in outside
    assert "#12" not in outside
    assert "GH-7" not in outside
    assert "b#3" not in outside
    assert outside.count("</details>") == outside.count("<details>")


def _rows(html: str) -> list[list[str]]:
    return [re.findall("<t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html, re.S)]


def _without_code(page: str) -> str:
    """The page without fenced blocks and code spans."""
    page = re.sub(r"^(`{3,})diff\n.*?^\1$", "", page, flags=re.M | re.S)
    return re.sub(r"(?<!\\)(`+)(?!`).*?(?<!`)\1(?!`)", "", page)


def test_what_is_not_there_is_one_line(made: Desk) -> None:
    for which, said in (
        ("r-nowhere", "r-nowhere: no such release in project 'refunds'"),
        ("p-nowhere", "p-nowhere: no such proposal in project 'refunds'"),
        ("x\x1b[2J", "needs a release"),
    ):
        with pytest.raises(UsageError, match=said) as raised:
            story_of(made.ws, which)
        assert "\x1b" not in str(raised.value)
        assert "\n" not in str(raised.value)
