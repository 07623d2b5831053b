"""`tracemend ask` and `tracemend memory`: what they print, their documents and exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from contracts.errors import ConfigError, UsageError
from graph.cli.main import app
from memory import semantic
from memory.workspace import Workspace
from tests.ask_worlds import ask_world
from tests.ledger_worlds import everything
from tests.semantic_worlds import about

QUESTION = "why do refunds fail today?"
SCRIPT = "analyst.jsonl"


@pytest.fixture
def ws(tmp_path: Path, home: Path) -> Iterator[Workspace]:
    made = ask_world(tmp_path / "agent", home, models={"analyst": f"scripted:{SCRIPT}"})
    yield made
    made.ledger.close()
    semantic._seen.clear()


def _script(ws: Workspace, *answers: object) -> None:
    text = "".join(json.dumps(answer) + "\n" for answer in answers)
    (ws.root / SCRIPT).write_text(text, "utf-8")


def _run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_facts_for_a_person_and_nothing_is_changed(ws: Workspace) -> None:
    before = everything(ws.ledger.db, "refunds")
    done = _run("ask", QUESTION, "--facts", "--project", "refunds")
    assert done.exit_code == 0
    assert "(today): 40 traces, complete" in done.output
    assert "10 of 40 traces, 25.0% (95 % interval 12.7% to 41.2%)" in done.output
    assert "10 of 10 sampled failing runs speak of refunds" in done.output
    assert everything(ws.ledger.db, "refunds") == before


def test_the_document_of_ask(ws: Workspace) -> None:
    document = json.loads(_run("ask", QUESTION, "--facts", "--json", "--project", "refunds").output)
    assert list(document)[:3] == ["schema", "project", "question"]
    assert document["schema"] == "tracemend.ask/1"
    assert document["about"][0]["units"] == 10
    assert document["window"]["words"] == "today"
    assert (document["answer"], document["problem"]) == (None, None)


def test_the_analyst_is_asked_and_what_nothing_counted_is_marked(ws: Workspace) -> None:
    # The script calls the first tool it is given, which lists the findings; then it answers.
    _script(ws, {"answer": {}}, {"text": "10 of 40 runs fail.\nThat is 77 more.", "tokens": [9, 1]})
    done = _run("ask", QUESTION, "--project", "refunds")
    assert done.exit_code == 0
    assert "10 of 40 runs fail.\nThat is 77 more.\n" in done.output
    assert "NOT in anything that was counted: number 77" in done.output
    assert "tokens (ask/1)" in done.output


def test_a_model_that_fails_costs_no_fact(ws: Workspace) -> None:
    _script(ws, {"error": "503 overloaded"})
    done = _run("ask", QUESTION, "--json", "--project", "refunds")
    assert done.exit_code == 0
    document = json.loads(done.output)
    assert document["answer"]["problem"] == "the call failed: ScriptedError: 503 overloaded"
    assert document["about"][0]["units"] == 10


def test_traces_read_in_part_are_exit_6_and_said(ws: Workspace) -> None:
    broken = ws.root / "traces" / "day0.otlp.jsonl"
    broken.write_bytes(broken.read_bytes()[:-40])
    done = _run("ask", QUESTION, "--facts", "--project", "refunds")
    assert done.exit_code == 6
    assert "Read in part" in done.output


def test_no_source_is_one_line(tmp_path: Path, home: Path) -> None:
    ws = ask_world(tmp_path / "other", home)
    (ws.root / "tracemend.yaml").write_text("version: 1\nproject: refunds\n", "utf-8")
    with pytest.raises(ConfigError, match="traces: none configured"):
        _run("ask", QUESTION, "--project", "refunds")
    ws.ledger.close()


def test_memory_is_told_searched_and_forgotten(ws: Workspace) -> None:
    with ws.ledger.db.write() as tx:
        for number in range(6):
            ws.ledger.knowledge.put_lesson(tx, about(number))
    status = json.loads(_run("memory", "status", "--json", "--project", "refunds").output)
    assert status["kinds"][0] == {
        "kind": "lesson", "documents": 6, "vectors": 0, "stale": 6, "indexed": None,
    }  # fmt: skip
    again = json.loads(_run("memory", "reindex", "--json", "--project", "refunds").output)
    assert again["kinds"][0]["vectors"] == 6
    found = json.loads(
        _run("memory", "search", "payment api silent", "--json", "--project", "refunds").output
    )
    assert found["tried"][0]["lesson"] == "l-00000"
    assert found["tried"][0]["likeness"] > 0.2
    shown = _run("memory", "search", "payment api silent", "--project", "refunds")
    assert "for tool_timeout:payment_api:504 [f-payment_api]" in shown.output
    done = _run("memory", "forget", "l-00000", "--as", "ann", "--project", "refunds")
    assert done.output == "l-00000 is forgotten\n"
    with pytest.raises(UsageError, match="l-00000: no such lesson"):
        _run("memory", "forget", "l-00000", "--project", "refunds")
    assert any(e["event"] == "lesson.forgotten" for e in _audit(ws))


def _audit(ws: Workspace) -> list[dict[str, object]]:
    return [dict(row) for row in everything(ws.ledger.db, "refunds")["audit"]]
