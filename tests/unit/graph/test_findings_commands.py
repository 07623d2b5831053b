"""`tracemend findings`, `handoffs` and `profile` as a person and a script use them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from contracts.errors import TracemendError, UsageError
from contracts.findings import Contrast, Merge, Signature
from contracts.json_types import Json, JsonObject
from graph.cli.main import app
from memory.workspace import Workspace
from nodes.handoff import file_ticket
from tests.finding_worlds import found, keep, later, state_of
from tests.ledger_worlds import lesson
from tests.run_worlds import make_project
from tests.trace_worlds import line, root, tool

SPOILED: JsonObject = {
    "trace_id": "t1", "span_id": "s1", "direct": 3, "indirect": 1, "later": 4, "answered": True,
    "path": ["pay (s1)", "model (s2)"], "traceable": True, "share": 1.0,
    "sentence": "3 of 4 later steps were given its output; the answer rests on it",
}  # fmt: skip
PAY = later(
    found("tool_error:pay:500", 10, 100),
    contrasts=(
        Contrast(
            factor="prompt", value="refund v14", failing=(10, 10), passing=(3, 90), p_holm=1e-6,
            sentence="only since prompt refund v14 (10 of 10 failing, 3 of 90 passing units)",
        ),
    ),
    merged=(Merge(signature=Signature("tool_error:pay_v0:500"), units=2, by="ann", why="same"),),
)  # fmt: skip
OLD = found("tool_error:pay_v1:500", 4, 100)


@dataclass(frozen=True, slots=True)
class World:
    """A project with two findings, and the commands on it."""

    ws: Workspace

    def run(self, *words: str) -> str:
        done = CliRunner().invoke(app, [*words, "--project", "refunds"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    home = tmp_path / "home"
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    ws = make_project(home, tmp_path / "agent")
    keep(ws.ledger, PAY, OLD)
    with ws.ledger.db.write() as tx:
        kept = dict(ws.ledger.knowledge.evidence(PAY.id))
        wordings: list[Json] = [{"mark": "abc234", "template": "<n> Gateway", "kept": 4}]
        more: dict[str, Json] = {**kept, "reach": [SPOILED], "wordings": wordings}
        ws.ledger.knowledge.put_evidence(tx, PAY.id, more)
    yield World(ws)
    ws.ledger.close()


def test_the_list_is_worst_first_with_rate_change_contrast_and_standing(world: World) -> None:
    lines = world.run("findings").splitlines()
    assert lines[0] == f"{PAY.id}  pay fails"
    assert lines[1].startswith("  10 of 100, rate 0.100 [0.049, 0.176], new, high;")
    assert lines[2] == "  only since prompt refund v14 (10 of 10 failing, 3 of 90 passing units)"
    assert lines[3] == "  open, actionable  (tool_error:pay:500)"
    assert lines[4].startswith(OLD.id)
    document = world.json("findings")
    assert next(iter(document)) == "schema"
    assert document["schema"] == "tracemend.findings/1"
    assert [one["id"] for one in document["findings"]] == [PAY.id, OLD.id]


def test_show_tells_evidence_cause_falsifier_reach_and_what_was_tried(world: World) -> None:
    from dataclasses import replace

    told = replace(lesson("1"), signature=PAY.signature, reason="wrong_fix: no")
    with world.ws.ledger.db.write() as tx:
        world.ws.ledger.knowledge.put_lesson(tx, told)
        file_ticket(world.ws.ledger, tx, PAY, "not text")
    text = world.run("findings", "show", PAY.id)
    for part in (
        "trace t1, span s1", "“504 Gateway Timeout", "wrong if", "It answers when it is called",
        "3 of 4 later steps were given its output", "pay (s1) → model (s2)", "~abc234",
        "tool_error:pay_v0:500, 2 units: same", "(wrong_fix: no), applied", "not sent",
    ):  # fmt: skip
        assert part in text
    document = world.json("findings", "show", PAY.signature)["finding"]
    assert document["evidence"][0]["span_id"] == "s1"
    assert document["handoff"]["state"] == "open"
    assert document["tried"][0]["outcome"] == "applied"


def test_merge_split_rename_close_and_reopen_stand_under_the_name_given(world: World) -> None:
    said = world.json("findings", "merge", OLD.id, PAY.id, "--as", "ann")
    assert (said["choice"]["by"], said["choice"]["into"]) == ("ann", PAY.signature)
    assert [one["id"] for one in world.json("findings")["findings"]] == [PAY.id]
    hidden = world.json("findings", "list", "--all")["findings"][1]
    assert hidden["merged_into"] == {"signature": PAY.signature, "by": "ann"}
    assert "put into tool_error:pay:500 by ann" in world.run("findings", "list", "--all")
    world.run("findings", "split", OLD.id, "--as", "bob")
    assert state_of(world.ws, OLD) == "reopened"
    world.run("findings", "rename", OLD.id, "the old payment tool", "--as", "bob")
    assert "the old payment tool" in world.run("findings")
    world.run("findings", "close", PAY.id, "--reason", "the provider knows", "--as", "ann")
    closed = world.run("findings", "list", "--all")
    assert "closed, by ann: the provider knows; until its rate is above 10 of 100" in closed
    world.run("findings", "reopen", PAY.id, "--as", "ann")
    assert state_of(world.ws, PAY) == "reopened"
    kinds = {one["kind"] for one in world.json("findings", "choices")["choices"]}
    assert kinds == {"split", "rename", "reopen"}


def test_a_choice_is_revoked_by_its_id_and_said_again_it_stands_already(world: World) -> None:
    said = world.json("findings", "rename", PAY.id, "mine")["choice"]["id"]
    assert not world.json("findings", "rename", PAY.id, "mine")["first"]
    assert world.json("findings", "revoke", said)["revoked"]
    assert "mine" not in world.run("findings")
    with pytest.raises(UsageError, match=r"no such choice stands"):
        world.run("findings", "revoke", said)


def test_one_wording_can_be_split_off_by_its_mark(world: World) -> None:
    said = world.json("findings", "split", PAY.id, "--wording", "~abc234")["choice"]
    assert (said["signature"], said["from"]) == ("tool_error:pay:500~abc234", PAY.signature)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("show", "f-nobody"), "f-nobody: no finding of this id or signature"),
        (("merge", "{pay}", "{pay}"), "cannot be merged into itself"),
        (("split", "{pay}"), "is in no other finding"),
        (("split", "{pay}", "--wording", "x"), "needs six letters and digits"),
        (("reopen", "{pay}"), "is open, not closed"),
        (("close", "{pay}", "--reason", " "), "--reason: needs 1 to 500 printable characters"),
        (("rename", "{pay}", "a" * 201), "--title: needs 1 to 200 printable characters"),
        (("rename", "{pay}", "x", "--as", "tracemend"), "not `tracemend`"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    world: World, words: tuple[str, ...], why: str
) -> None:
    before = world.ws.ledger.choices.listed()
    with pytest.raises(UsageError) as refused:
        world.run("findings", *(word.format(pay=PAY.id) for word in words))
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2
    assert world.ws.ledger.choices.listed() == before


def test_a_circle_of_merges_is_refused_and_nothing_is_written(world: World) -> None:
    world.run("findings", "merge", OLD.id, PAY.id)
    with pytest.raises(UsageError, match="would go round in a circle"):
        world.run("findings", "merge", PAY.id, OLD.id)
    assert len(world.ws.ledger.choices.listed()) == 1


def test_a_finding_that_a_window_did_not_show_says_so(world: World) -> None:
    with world.ws.ledger.db.write() as tx:
        world.ws.ledger.knowledge.put_unseen(tx, [OLD.id])
    lines = world.run("findings").splitlines()
    assert lines[0].startswith(OLD.id)  # what is seen now comes first
    assert "open, not seen in the latest analysis, since 2026-03-10; seen last 2026-03-10" in (
        "\n".join(lines)
    )


def test_handoffs_are_listed_shown_closed_and_not_sent_without_an_address(world: World) -> None:
    assert "no hand-off" in world.run("handoffs")
    with world.ws.ledger.db.write() as tx:
        file_ticket(world.ws.ledger, tx, PAY, "not text")
    assert "open since 2026-03-10; not sent" in world.run("handoffs")
    assert world.run("handoffs", "show", PAY.id).startswith("**pay fails** (high)")
    with pytest.raises(TracemendError, match=r"handoffs\.webhook: needs an address"):
        world.run("handoffs", "send", PAY.id)
    closed = world.run("handoffs", "close", PAY.id, "--reason", "fixed in 2.3", "--as", "ann")
    assert "closed 2026-03-10: fixed in 2.3, by ann" in closed
    document = world.json("handoffs")
    assert document["schema"] == "tracemend.handoffs/1"
    (one,) = document["handoffs"]
    assert (one["state"], one["closed"]["by"]) == ("closed", "ann")


def test_a_profile_of_files_needs_no_project_and_one_of_a_project_its_window(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "a.otlp.jsonl"
    spans = [root(trace=1), tool(1, "pay", {"n": 1}, "ok", trace=1)]
    file.write_bytes(line(spans))
    done = CliRunner().invoke(app, ["profile", "--traces", str(file), "--json"])
    document = json.loads(done.stdout)
    assert next(iter(document)) == "schema"
    assert document["schema"] == "tracemend.profile/1"
    assert [row["name"] for row in document["tools"]] == ["pay"]
    assert "BY TOOL" in CliRunner().invoke(app, ["profile", "--traces", str(file)]).stdout
    with pytest.raises(TracemendError, match="traces: none configured"):
        world.run("profile")


def test_a_file_that_breaks_off_is_profiled_as_far_as_it_goes_with_exit_code_6(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.otlp.jsonl"
    whole = line([root(trace=1), tool(1, "pay", {"n": 1}, "ok", trace=1)])
    file.write_bytes(whole + whole[: len(whole) // 2])
    done = CliRunner().invoke(app, ["profile", "--traces", str(file)])
    assert done.exit_code == 6
    assert "partial" in done.stdout
