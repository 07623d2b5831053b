"""`tracemend playbooks`: one's own is listed, checked and tried, and nothing is written."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from configs.playbooks import EVIDENCE, load_playbooks
from contracts.errors import ConfigError, PolicyRefused, UsageError
from contracts.harness import HarnessSnapshot
from contracts.proposals import Operation, Proposal
from graph.cli.main import app
from memory.workspace import Workspace, open_project
from nodes.evolution.items import items_in
from nodes.evolution.items_kept import ours
from nodes.evolution.playbook_try import MADE, PLAIN, PLAIN_INCLUDE, Ground, made_finding, try_all
from tests.approval_worlds import Inbox, installation, wait_for
from tests.card_worlds import MAIN, finding, inserting
from tests.run_worlds import make_project

OWN = """id: stock-note
when: {cause: tool_timeout, remedy: [instructions]}
needs: {tool: evidence.tool}
why: Because of {tool}.
edit:
  - {op: insert_after, file: "{instructions}", text: "\\n## Waiting\\n\\n- Wait for `{tool}` once."}
"""
FOUND = finding()


@dataclass(frozen=True, slots=True)
class World:
    """A project with one finding and a playbook of its own."""

    ws: Workspace
    file: Path

    def run(self, *words: str) -> str:
        done = CliRunner().invoke(app, ["playbooks", *words, "--project", "refunds"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))

    def check(self, text: str) -> str:
        self.file.write_text(text)
        return self.run("check", str(self.file))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    home, root = tmp_path / "home", tmp_path / "agent"
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    ws = make_project(home, root, playbooks=["mine"])
    (root / "instructions").mkdir()
    (root / "instructions" / "main.md").write_text(MAIN)
    (root / "mine").mkdir()
    file = root / "mine" / "stock.yaml"
    file.write_text(OWN)
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.put_finding(tx, FOUND)
    yield World(ws, file)
    ws.ledger.close()


def tree(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_the_list_tells_packaged_ones_from_ones_own(world: World) -> None:
    rows = {row["id"]: row for row in world.json("list")["playbooks"]}
    assert len(rows) == len(load_playbooks()) + 1
    assert (rows["stock-note"]["from"], rows["stock-note"]["cause"]) == ("own", "tool_timeout")
    assert rows["argument-format"]["from"] == "packaged"
    assert "stock-note" in world.run("list")


def test_a_packaged_one_that_is_replaced_is_listed_as_ones_own(world: World) -> None:
    world.file.write_text(OWN.replace("stock-note", "argument-format"))
    rows = {row["id"]: row for row in world.json()["playbooks"]}
    assert rows["argument-format"]["from"] == "own"
    assert "takes the place of the packaged" in world.run("check", str(world.file))


def test_a_sound_playbook_is_shown_with_what_it_would_add_to_the_own_harness(world: World) -> None:
    before = tree(world.ws.root)
    said = world.check(OWN)
    assert said.startswith("stock-note: sound; tried on project refunds")
    assert "+## Waiting" in said
    assert "+- Wait for `stock_api` once." in said
    assert "--- a/instructions/main.md" in said
    assert tree(world.ws.root) == before


@pytest.mark.parametrize(
    ("old", "new", "kind", "problem"),
    [
        ("needs:", "neds:", ConfigError, "neds: unknown key; did you mean 'needs'? (stock.yaml)"),
        ("tool_timeout", "tool_timout", ConfigError, "when.cause: 'tool_timout' is none that a"),
        ("evidence.tool", "evidence.toool", ConfigError, "needs: evidence.toool: 'toool' is none"),
        ("why:", "where: {status: 'a{9}'}\nwhy:", ConfigError, "where.status: no made value"),
        ("{instructions}", "other.md", PolicyRefused, "stock-note: other.md: no such file"),
        ("once.", "without asking.", PolicyRefused, "rights: "),
    ],
)  # fmt: skip
def test_the_first_problem_is_said_in_one_line(
    world: World, old: str, new: str, kind: type[Exception], problem: str
) -> None:
    assert old in OWN
    with pytest.raises(kind) as raised:
        world.check(OWN.replace(old, new, 1))
    assert problem in str(raised.value)
    assert "stock.yaml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_remedy_that_the_cause_does_not_know_is_named(world: World) -> None:
    text = OWN.replace("tool_timeout", "empty_answer").replace("[instructions]", "[skill]")
    with pytest.raises(ConfigError, match="a fix of empty_answer belongs into instructions"):
        world.check(text)


def test_a_file_that_is_not_there_is_one_line(world: World) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml: cannot be read: No such file"):
        world.run("check", str(world.file.parent / "gone.yaml"))


def test_each_playbook_for_a_finding_is_tried_and_nothing_is_written(world: World) -> None:
    before = tree(world.ws.root)
    found = world.json("try", FOUND.id)
    assert (found["cause"], found["parameters"]) == (
        "tool_timeout", {"status": "504", "tool": "payment_api"}
    )  # fmt: skip
    tried = {one["playbook"]: one for one in found["tried"]}
    assert tried["tool-timeout-retry"]["problem"] is None
    assert any("tracemend i-" in line for line in tried["tool-timeout-retry"]["diff"])
    assert tried["stock-note"]["problem"] is None
    assert "is not for findings whose status" in tried["tool-silence-retry"]["problem"]
    assert "tool-timeout-retry: would be offered" in world.run("try", FOUND.id)
    assert tree(world.ws.root) == before


def test_an_unknown_finding_is_an_error(world: World) -> None:
    with pytest.raises(UsageError, match="f-nothere: no such finding"):
        world.run("try", "f-nothere")


def test_without_a_project_a_playbook_is_tried_on_a_plain_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEMEND_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(OWN)
    done = CliRunner().invoke(app, ["playbooks", "check", "a.yaml"])
    assert done.exit_code == 0, done.output
    assert "a plain harness; no project is near" in done.stdout
    assert CliRunner().invoke(app, ["playbooks"]).exit_code == 0


def test_the_example_of_the_documentation_is_sound(world: World) -> None:
    page = (Path(__file__).parents[3] / "docs" / "playbooks.md").read_text("utf-8")
    (example,) = re.findall(r"```yaml\n(id:.*?)```", page, re.DOTALL)
    assert "tool-timeout-retry: sound" in world.check(example)
    assert world.json("try", FOUND.id)["tried"][0]["problem"] is None


def test_every_packaged_playbook_passes_its_own_check() -> None:
    for book in load_playbooks():
        tried = {one.playbook: one for one in try_all([book], made_finding(book), Ground())}
        assert tried[book.id].problem is None, book.id


def test_a_made_finding_has_all_that_a_packaged_playbook_asks_for() -> None:
    asked = {
        str(source).removeprefix(EVIDENCE)
        for book in load_playbooks()
        for source in book.needs.values()
        if str(source).startswith(EVIDENCE)
    }
    assert asked <= set(MADE)
    assert PLAIN_INCLUDE
    assert PLAIN.files


@dataclass(frozen=True, slots=True)
class Released:
    """A project in which a proposal was applied, with the harness after it."""

    ws: Workspace
    proposal: Proposal
    after: HarnessSnapshot


def _released(inbox: Inbox, operations: Sequence[Operation]) -> Released:
    made = wait_for(inbox, operations, which="p-4k7q2m6xza")
    ws = open_project(inbox.home, "refunds")
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.set_state(tx, made, "watching")
    return Released(ws, made, ws.ledger.artifacts.snapshot(made.candidate_revision))


def test_what_a_release_added_is_known_with_what_became_of_it(tmp_path: Path) -> None:
    prompt, text = "prompts/desk.txt", "\n## Waiting\n\n- Wait once.\n"
    include = ["instructions/*.md", "prompts/*.txt"]
    inbox = installation(tmp_path, harness={"kind": "directory", "root": ".", "include": include})
    root = inbox.root("refunds")
    (root / "prompts").mkdir()
    (root / prompt).write_text("You help.\n")
    made = _released(inbox, (inserting(prompt, "You help.", text),))
    ws = made.ws
    found = ours(ws, made.after)
    (item,) = found.items
    assert (item.path, item.item.text) == (prompt, text.strip("\n"))
    assert items_in(made.after.files[prompt].data.decode()) == ()
    assert found.did_not_help() == ()
    assert found.notes()[0].startswith(f"{prompt} lines 3 to 5: {item.item.id}, added for")
    assert found.notes()[0].endswith("the failure is still there")
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.set_finding(tx, FOUND.id, "reopened")
    again = ours(ws, made.after)
    assert again.notes()[0].endswith("the failure came back after it")
    assert again.did_not_help() == again.items
    assert again.notes(without={prompt}) == ()
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.set_state(tx, made.proposal, "undone")
    assert ours(ws, made.after).items == ()
    ws.ledger.close()
