"""`tracemend history` and `tracemend show` as commands, with good and bad input."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from contracts.errors import TracemendError
from graph.cli.main import app
from memory.workspace import HOME_VARIABLE
from tests.approval_worlds import installation
from tests.attribution_worlds import MAIN, Desk, desk


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    world = desk(tmp_path)
    monkeypatch.setenv(HOME_VARIABLE, str(world.inbox.home))
    monkeypatch.chdir(world.ws.root)
    yield world
    world.ws.ledger.close()


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, list(words))


def refused(*words: str) -> TracemendError:
    """The error that `tracemend` turns into one line and its exit code."""
    error = run(*words).exception
    assert isinstance(error, TracemendError), error
    return error


def test_history_as_a_table_and_as_a_document(made: Desk) -> None:
    release = made.release("one\nadded\n")
    shown = run("history", MAIN)
    assert shown.exit_code == 0
    assert f"{release.id} 2026-03-10 ann" in shown.stdout
    document = json.loads(run("history", f"./{MAIN}", "--json").stdout)
    assert document["schema"] == "tracemend.history/1"
    assert next(iter(document)) == "schema"
    assert [line["release"] for line in document["lines"]] == [None, release.id]
    assert document["releases"][release.id]["approvers"] == ["ann"]


def test_history_reads_and_changes_nothing(made: Desk) -> None:
    made.release("one\nadded\n")
    before, head = made.files(), made.ws.ledger.audit.verify().head
    run("history", MAIN)
    run("show", made.ws.ledger.effects.releases()[0].id)
    assert (made.files(), made.ws.ledger.audit.verify().head) == (before, head)


def test_wrong_files_and_releases_are_one_line_each(made: Desk) -> None:
    made.release("one\nadded\n")
    assert "did you mean" in str(refused("history", "instructions/mian.md"))
    assert "no such release" in str(refused("history", MAIN, "--at", "r-nope"))
    assert "no such release" in str(refused("show", "r-nope"))
    assert "needs a release" in str(refused("show", "../etc/passwd"))
    assert refused("show", "r-nope").exit_code == 2


def test_show_writes_the_form_that_the_file_or_the_option_names(made: Desk, tmp_path: Path) -> None:
    release = made.release("one\nadded\n")
    out = tmp_path / "pages"
    for words, name, begins in (
        ((), "story.md", "# r-"),
        ((), "story.json", '{\n  "schema": "tracemend.show/1"'),
        ((), "story.txt", release.id),
        (("--markdown",), "story", "# r-"),
    ):
        done = run("show", release.id, *words, "--output", str(out / name))
        assert done.exit_code == 0, done.output
        assert done.stdout == ""
        assert (out / name).read_text("utf-8").startswith(begins), name
    document = json.loads((out / "story.json").read_text("utf-8"))
    assert document["release"]["id"] == release.id
    assert run("show", release.id, "--json").stdout == (out / "story.json").read_text("utf-8")


def test_show_refuses_two_forms_and_a_file_it_cannot_write(made: Desk, tmp_path: Path) -> None:
    release = made.release("one\nadded\n")
    assert "choose one" in str(refused("show", release.id, "--markdown", "--json"))
    (tmp_path / "file").write_text("x")
    error = refused("show", release.id, "--output", str(tmp_path / "file" / "story.md"))
    assert "--output" in str(error)
    assert "cannot be written" in str(error)


def test_another_projects_release_answers_like_none(made: Desk, tmp_path: Path) -> None:
    release = made.release("one\nadded\n")
    other = installation(tmp_path, "billing")
    assert other.home == made.inbox.home
    theirs = str(refused("show", release.id, "--project", "billing"))
    nobodys = str(refused("show", "r-nobodys00", "--project", "billing"))
    assert theirs.replace(release.id, "X") == nobodys.replace("r-nobodys00", "X")
    assert "no such release" in str(
        refused("history", MAIN, "--at", release.id, "--project", "billing")
    )
    assert "no such proposal" in str(refused("show", release.proposal, "--project", "billing"))
