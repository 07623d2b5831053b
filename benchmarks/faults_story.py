"""One story: a server is asked for something, is killed, and everything ends well, once."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import httpx

from benchmarks.faults_check import (
    Harness,
    applied_once,
    audited,
    closed,
    one_decision,
    one_incident,
    one_proposal,
    require,
    same_harness,
    undone_once,
    waits,
)
from benchmarks.faults_points import Point
from benchmarks.faults_server import Broken, Deadline, Servers
from benchmarks.faults_world import SECRET, Mode, Site
from contracts.proposals import Proposal
from memory.ledger import Ledger
from tests.story.worlds import PROJECT

ALERT_KEY = "story-1"
HOOK = f"/hooks/generic/{PROJECT}"

Said = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Story:
    """What a story works with. `before` is the harness as it was when nothing was applied."""

    site: Site
    servers: Servers
    before: Harness
    ledger: Ledger
    own_protocol: bool
    """Whether the threads' routes are ours, which refuse what comes too late."""

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        """The answer to a signed-in request, sent again until there is one."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.servers.ask("POST", path, headers={**self.site.bearer, **named}, body=body)


def alert(story: Story) -> str:
    """An alert is delivered until it is answered 202, and once more; its run comes to its card."""
    window = {"start": story.site.start.isoformat(), "end": story.site.end.isoformat()}
    body = {"title": "refunds fail", "group": "refunds", "window": window}
    headers = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": ALERT_KEY}
    first = story.servers.ask("POST", HOOK, headers=headers, body=body)
    require(first.status_code == 202, "an alert is answered 202", first.text)
    story.servers.kill_if_planned()
    story.servers.until("the card of the alert's run", lambda: _card_waits(story.ledger))
    again = story.servers.ask("POST", HOOK, headers=headers, body=body)
    require(again.status_code == 202, "the same alert once more is answered 202", again.text)
    thread = one_incident(story.ledger, str(first.json()["key"]))
    require(again.json()["key"] == first.json()["key"], "the same alert is the same")
    waits(story.site, story.ledger, story.before)
    require(len(_interrupts(story, thread)) == 1, "its thread waits at one interrupt")
    return thread


def _card_waits(ledger: Ledger) -> bool:
    runs = ledger.incidents.listed()
    quarantined = [run.problem for run in runs if run.state == "quarantined"]
    require(not quarantined, "no run is quarantined", quarantined)
    return bool(runs) and all(run.state == "waiting" for run in runs)


def _interrupts(story: Story, thread: str) -> list[Said]:
    path = f"/threads/{thread}/state"
    state = story.servers.ask("GET", path, headers=story.site.bearer)
    require(state.status_code == 200, "the thread's state is served", state.text)
    return cast("list[Said]", state.json()["interrupts"])


def decide(story: Story, said: Said) -> Said:
    """A person's answer is sent until it is answered, then by every door again; the decision."""
    proposal = one_proposal(story.ledger)
    path, stamp = f"/proposals/{proposal.id}/decision", f'"{proposal.hash}"'
    (pending,) = _interrupts(story, proposal.thread)
    first = story.post(path, said, If_Match=stamp, Idempotency_Key="answer-1")
    require(first.status_code == 200, "a decision is answered 200", first.text)
    decision: Said = first.json()["decision"]
    story.servers.kill_if_planned()
    again = story.post(path, said, If_Match=stamp, Idempotency_Key="answer-1")
    require(again.status_code == 200, "the same decision again is answered 200", again.text)
    require(_same(again.json()["decision"], decision), "with the first answer", again.text)
    late = {"type": "reject", "message": "other: too late"}
    other = story.post(path, late, If_Match=stamp, Idempotency_Key="answer-2")
    _refused_by_the_first(other, decision)
    if story.own_protocol:
        _resume_late(story, proposal, pending["id"], decision)
    one_decision(story.ledger, proposal, "approve", decision)
    return decision


def _resume_late(story: Story, proposal: Proposal, interrupt: str, decision: Said) -> None:
    """The door of LangGraph clients tells the first decision too."""
    answer = {"decisions": [{"type": "reject", "message": "other: too late"}]}
    body = {"assistant_id": PROJECT, "command": {"resume": {interrupt: answer}}}
    door = story.post(f"/threads/{proposal.thread}/runs/wait", body)
    require(door.status_code == 409, "a late resume is refused with 409", door.text)
    require(_same(door.json().get("decision"), decision), "with the first decision", door.text)


def _refused_by_the_first(other: httpx.Response, decision: Said) -> None:
    """Another answer to the same card gets the first one; after an edit its card is an old one."""
    if decision["type"] == "edit":
        require(other.status_code == 412, "an answer to an older card is stale", other.text)
        return
    require(other.status_code == 409, "another answer is refused with 409", other.text)
    require(_same(other.json()["decision"], decision), "with the first decision", other.text)


def _same(told: Said | None, decision: Said) -> bool:
    """Whether two doors told of the same decision, each in its own words."""
    shared = ("id", "type", "by", "via", "at", "proposal_hash")
    return told is not None and all(told[key] == decision[key] for key in shared)


def approve(story: Story) -> None:
    """Approved, proven by the gate, applied once."""
    proposal = one_proposal(story.ledger)
    decide(story, {"type": "approve"})
    story.servers.until("the release", lambda: closed(story.ledger))
    one_decision(story.ledger, proposal, "approve", {})
    applied_once(story.site, story.ledger, proposal)


def reject(story: Story) -> None:
    """Turned down: one lesson, no byte."""
    proposal = one_proposal(story.ledger)
    decide(story, {"type": "reject", "message": "wrong_fix: not this way"})
    story.servers.until("the end of the run", lambda: closed(story.ledger))
    state = story.ledger.proposals.latest(proposal.id).state
    require(state == "rejected", "the proposal is rejected", state)
    require(len(story.ledger.knowledge.lessons()) == 1, "one lesson")
    same_harness(story.site, story.before)
    audited(story.ledger)


def edit(story: Story) -> None:
    """Edited by the person: the next revision waits, once."""
    proposal = one_proposal(story.ledger)
    card = story.ledger.proposals.card(proposal.id, 1, "approve")
    require(card is not None, "a card to edit")
    assert card is not None
    asked = cast("list[Said]", card.payload["action_requests"])[0]
    key, text = next((k, v) for k, v in asked["args"].items() if k.startswith("text:"))
    args = {**asked["args"], key: f"{text.rstrip()}\n- Be brief.\n"}
    decide(story, {"type": "edit", "edited_action": {"name": asked["name"], "args": args}})
    story.servers.until("the next card", lambda: _next_card(story.ledger, proposal))
    waits(story.site, story.ledger, story.before, revision=2)
    one_decision(story.ledger, proposal, "approve", {})
    require(len(_interrupts(story, proposal.thread)) == 1, "its thread waits at one interrupt")


def _next_card(ledger: Ledger, proposal: Proposal) -> bool:
    newest = ledger.proposals.latest(proposal.id)
    return newest.state == "waiting" and newest.proposal.revision == 2 and _card_waits(ledger)


def undo(story: Story) -> None:
    """The release is taken back: every byte as before."""
    proposal, (release, *_) = one_proposal(story.ledger), story.ledger.effects.releases()
    path = f"/releases/{release.id}/undo"
    first = story.post(path, {}, Idempotency_Key="undo-1")
    require(first.status_code in (200, 202), "an undo is answered", first.text)
    story.servers.kill_if_planned()
    story.servers.until(
        "the undo",
        lambda: story.ledger.effects.undo_of(release.id) and closed(story.ledger),
    )
    again = story.post(path, {}, Idempotency_Key="undo-2")
    require(again.status_code == 200, "an undo of what is undone is answered 200", again.text)
    one_decision(story.ledger, proposal, "undo", {})
    undone_once(story.site, story.ledger, proposal, story.before)


def whole(story: Story) -> None:
    """From the alert to the undo."""
    alert(story)
    approve(story)
    undo(story)


class NotReached(Broken):
    """The story came to its end without all of its kills: another process did the work first."""


def tell(
    mode: Mode, site: Site, point: Point, *, before: Harness, seed: int, within_s: float
) -> int:
    """Tell one story on this site, which is used up by it; how often a server was killed.

    Raises:
        Broken: a promise was not kept, the point was not reached, or it took too long.
    """
    deadline = Deadline(within_s)
    servers = Servers(mode.starts(site), point, deadline, random.Random(seed))  # noqa: S311
    try:
        servers.ready()
        with site.looking() as ledger:
            story = Story(
                site=site, servers=servers, before=before, ledger=ledger,
                own_protocol=mode.own_protocol,
            )  # fmt: skip
            tellers = {
                "alert": alert, "approve": approve, "edit": edit, "reject": reject, "undo": undo,
                "whole": whole,
            }  # fmt: skip
            tellers[point.stage](story)
            if point.stage == "alert":
                reject(story)  # the interrupt was not lost: it can be answered
        servers.stop()
    finally:
        servers.sweep()
    if not point.by_clock and servers.kills < servers.planned:
        raise NotReached(f"killed {servers.kills} times of {servers.planned}: {point.id}")
    return servers.kills
