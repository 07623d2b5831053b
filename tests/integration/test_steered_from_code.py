"""From traces to the ticket or the card: the whole graph, where the steering text is in code."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from contracts.json_types import Json
from graph.cli.main import app
from graph.installation import open_installation
from memory.workspace import Workspace
from nodes.handoff import ticket_text
from tests.run_worlds import Clock, make_project
from tests.silent_worlds import call
from tests.trace_worlds import START, line, root, tool, trace_id

LATE = ("TimeoutError", "504 the payment service did not answer in time")
RULES = (
    "You are the refund clerk of a small shop. Ask for the number of the order first, then queue "
    "the refund and tell the customer when the money arrives."
)
MAIN = (
    "# Shop assistant\n\nYou help customers with orders.\n\n## Tools\n\n- Look an order up first.\n"
)
APP = f'''"""The agent."""
from pathlib import Path

SYSTEM_PROMPT = """
{RULES}
"""
'''


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("TRACEMEND_HOME", str(tmp_path / "home"))
    made = make_project(
        tmp_path / "home", tmp_path / "agent", traces=[{"kind": "files", "path": "traces/"}],
        probe={"kind": "worker", "command": ["true"]},
    )  # fmt: skip
    clock = made.ledger.db.clock
    assert isinstance(clock, Clock)
    clock.now = datetime.fromtimestamp(START / 1e9, UTC) + timedelta(hours=6)
    put(made, {"agent/app.py": APP, "instructions/main.md": MAIN})
    yield made
    made.ledger.close()


def put(ws: Workspace, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = ws.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def record(
    ws: Workspace, system: str, attributes: dict[str, Json] | None = None, *, failing: int = 12
) -> None:
    """60 runs with this system message, of which so many time out at the payment."""
    (ws.root / "traces").mkdir()
    lines = []
    for number in range(60):
        bad = number < failing
        spans = [
            root(f"refund order A-{number}", trace=number),
            {**call(1, asks=[("payment_api", "{}")], system=system, user="refund", also=attributes),
             "traceId": trace_id(number)},
            tool(2, "payment_api", {"order": f"A-{1000 + number}"}, None if bad else {"paid": True},
                 trace=number, error=LATE if bad else None),
        ]  # fmt: skip
        lines.append(line(spans))
    (ws.root / "traces" / "day.otlp.jsonl").write_bytes(b"".join(lines))


async def improve(ws: Workspace) -> None:
    async with open_installation(ws.home) as installation:
        await installation.door("refunds").service.start({"kind": "improve"})


def ticket_body(ws: Workspace) -> dict[str, Any]:
    (one,) = ws.ledger.handoffs.listed()
    return dict(one.body)


async def test_a_cause_in_a_string_of_code_becomes_a_ticket_with_file_and_line(
    ws: Workspace,
) -> None:
    record(ws, f"Today is Monday.\n{RULES}")
    before = {file: file.read_bytes() for file in ws.root.rglob("*") if file.is_file()}
    await improve(ws)
    text = ticket_text(ticket_body(ws))
    assert "Steered by: `agent/app.py`, lines 4-6, `SYSTEM_PROMPT`" in text
    assert "was the system message of 12 of 12 failing runs" in text
    assert ws.ledger.proposals.open() is None
    assert {file: file.read_bytes() for file in before} == before


async def test_once_the_text_is_a_file_of_the_harness_an_edit_of_that_file_is_drafted(
    ws: Workspace,
) -> None:
    put(ws, {"agent/app.py": 'text = open("instructions/refund.md").read()\n',
             "instructions/refund.md": f"{RULES}\n"})  # fmt: skip
    record(ws, f"Today is Monday.\n{RULES}")
    await improve(ws)
    assert ws.ledger.handoffs.listed() == []
    opened = ws.ledger.proposals.open()
    assert opened is not None
    notes = " ".join(opened.proposal.draft.notes)
    assert "instructions/refund.md" in notes
    assert "its text is in the system message of 12 of 12 failing runs" in notes


async def test_a_managed_prompt_without_a_place_becomes_a_ticket_with_the_entry_to_add(
    ws: Workspace,
) -> None:
    put(ws, {"agent/app.py": 'text = client.get_prompt("support/refund")\n'})
    record(ws, RULES, {"langfuse.observation.prompt.name": "support/refund",
                         "langfuse.observation.prompt.version": 4})  # fmt: skip
    await improve(ws)
    body = ticket_body(ws)
    assert body["steered_by"]["prompt"] == {"name": "support/refund", "version": "4"}
    assert "managed prompt support/refund version 4" in body["why"]
    assert "harness:" in body["suggestion"]


def test_the_map_is_printed_and_nothing_of_a_text_is(ws: Workspace) -> None:
    put(ws, {"agent/load.py": 'rules = open("instructions/main.md").read()\n',
             "instructions/old.md": "- Be kind.\n", "agent/b\u202e.py": APP})  # fmt: skip
    done = CliRunner().invoke(app, ["prompts", "map", "--project", "refunds"])
    assert done.exit_code == 0, done.output
    assert "instructions/main.md  <- agent/load.py:1 (open)" in done.output
    assert "instructions/old.md  not loaded by anything found" in done.output
    assert "agent/app.py:4-6  SYSTEM_PROMPT" in done.output
    assert "refund clerk" not in done.output
    assert "\u202e" not in done.output


def test_the_map_as_a_document(ws: Workspace) -> None:
    done = CliRunner().invoke(app, ["prompts", "map", "--project", "refunds", "--json"])
    document = json.loads(done.stdout)
    assert document["schema"] == "tracemend.prompts-map/1"
    assert document["not_loaded"] == ["instructions/main.md"]
    assert document["in_code"] == [
        {"path": "agent/app.py", "line": 4, "end_line": 6, "name": "SYSTEM_PROMPT"}
    ]


def test_doctor_says_how_many_harness_files_nothing_loads(ws: Workspace) -> None:
    put(
        ws, {"agent/load.py": 'x = open("instructions/main.md")\n', "instructions/old.md": "- A.\n"}
    )
    done = CliRunner().invoke(app, ["doctor", "--project", "refunds"])
    (said,) = [line for line in done.output.split("\n") if "prompt map" in line]
    assert said == (
        "ok    prompt map: 2 harness files, 1 not loaded by anything found (2 source files read): "
        "instructions/old.md"
    )
