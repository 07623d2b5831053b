"""`tracemend probe check`: a real agent is run once, and what the probe saw is shown."""

import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from contracts.errors import ConfigError, ProbeError, UsageError
from graph.cli.main import app
from memory.workspace import Workspace
from tests.fakes.langgraph_server import LangGraphServer
from tests.fakes.serving import serve
from tests.run_worlds import PROJECT, make_project

WORKER = """
import json, sys
print(json.dumps({"op": "ready", "v": 1}), flush=True)
for line in sys.stdin:
    run = json.loads(line)
    if run["op"] == "stop":
        break
    text = open(run["harness"] + "/instructions/main.md").read()
    given = run["input"] if isinstance(run["input"], dict) else {}
    answer = {"id": run["id"], "output": f"{text}: {given.get('say', run['seed'])}"}
    answer.update(given.get("answer", {}))
    if "spans" in given:
        open("spans.jsonl", "w").write(json.dumps(given["spans"]))
        import os
        answer["spans"] = os.path.abspath("spans.jsonl")
    print(json.dumps(answer), flush=True)
"""
CASES = [
    {
        "id": "c-hidden", "input": {"say": "sealed words"}, "tags": ["sealed"],
        "assert": [{"contains": "Be"}],
    },
    {
        "id": "c-open", "input": {"say": "queued", "answer": {"usage": {"cost_usd": 0.02}}},
        "tags": ["training"], "assert": [{"contains": "queued"}, {"not_contains": "error"}],
    },
    {
        "id": "c-mixed", "input": {"say": "lost"}, "tags": ["training"],
        "assert": [
            {"contains": "queued"}, {"tool_called": {"name": "pay"}}, {"contains": "Be brief"},
        ],
    },
]  # fmt: skip


def spans(**resource: str) -> dict[str, Any]:
    """One failed tool call as an export request."""
    known = {"openinference.span.kind": "TOOL", "tool.name": "pay"}
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "pay",
        "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000",
        "attributes": _pairs(known), "status": {"code": 2, "message": "504 Gateway Timeout"},
    }  # fmt: skip
    scope = [{"spans": [span]}]
    return {"resourceSpans": [{"resource": {"attributes": _pairs(resource)}, "scopeSpans": scope}]}


def _pairs(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A project whose agent is a few lines of Python."""

    ws: Workspace

    def run(self, *words: str) -> Result:
        done = CliRunner().invoke(app, ["probe", "check", *words, "--project", PROJECT])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    def json(self, *words: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.run(*words, "--json").stdout)
        return document

    def given(self, value: object, *words: str) -> dict[str, Any]:
        return self.json("--input", json.dumps(value), *words)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    home, root = tmp_path / "home", tmp_path / "agent"
    monkeypatch.setenv("TRACEMEND_HOME", str(home))
    (root / "instructions").mkdir(parents=True)
    (root / "instructions" / "main.md").write_text("Be brief")
    (root / "worker.py").write_text(textwrap.dedent(WORKER))
    (root / "cases").mkdir()
    (root / "cases" / "a.yaml").write_text(yaml.safe_dump(CASES))
    probe = {"kind": "worker", "command": [sys.executable, "worker.py"]}
    ws = make_project(home, root, probe=probe, cases=["cases/*.yaml"])
    yield World(ws=ws)
    ws.ledger.close()


def test_a_passing_case_is_shown_with_what_was_seen_and_exits_0(world: World) -> None:
    done = world.run("c-open")
    assert done.exit_code == 0
    head, *lines = done.stdout.splitlines()
    assert head.startswith("worker probe, c-open, harness ")
    assert ": pass in " in head
    assert lines[:4] == [
        "output    Be brief: queued",
        "usage     unknown tokens in, unknown out, 0.02 USD",
        "spans     none",
        "assertion 1 (contains): holds",
    ]


def test_without_a_name_the_first_case_that_is_not_sealed_is_run(world: World) -> None:
    assert world.json()["case"] == "c-open"


def test_a_failing_case_exits_5_and_each_assertion_is_answered_by_itself(world: World) -> None:
    done = world.run("c-mixed", "--json")
    assert done.exit_code == 5
    document = json.loads(done.stdout)
    assert document["schema"] == "tracemend.probe-check/1"
    assert document["result"] == "fail"
    assert document["assertions"] == [
        {"kind": "contains", "answer": "no"},
        {"kind": "tool_called", "answer": "unknown"},
        {"kind": "contains", "answer": "yes"},
    ]
    assert any("assertion 2 (tool_called) is unknown" in hint for hint in document["hints"])


def test_a_run_that_could_not_be_observed_exits_6(world: World) -> None:
    done = world.run("--input", json.dumps({"answer": {"missing": "no model"}}))
    assert done.exit_code == 6
    assert "missing   no model" in done.stdout
    assert "could not be observed" in done.stdout


def test_an_input_without_a_case_passes_when_it_is_observed(world: World) -> None:
    document = world.given("hi")
    assert (document["case"], document["result"], document["output"]) == (
        None,
        "pass",
        "Be brief: 1",
    )
    assert document["assertions"] == []


def test_an_error_of_the_agent_is_a_fail_whose_assertions_were_not_asked(world: World) -> None:
    document = world.given({"answer": {"error": "ValueError: no order"}})
    assert (document["result"], document["error"]) == ("fail", "ValueError: no order")


def test_a_sealed_case_is_not_run_and_nothing_of_it_is_shown(world: World) -> None:
    with pytest.raises(UsageError, match="c-hidden is sealed") as told:
        world.run("c-hidden")
    assert "sealed words" not in str(told.value)
    with pytest.raises(UsageError, match="no case 'c-hiden'") as told:
        world.run("c-hiden")
    assert "c-hidden" not in str(told.value)
    with pytest.raises(UsageError, match="is it 'c-open'"):
        world.run("c-opne")


def test_what_the_agent_says_is_cleaned_masked_and_cut(world: World) -> None:
    key = "sk-proj-" + "a1B2c3D4" * 6
    loud = {"say": f"\x1b[31mred\u202e {key} " + "long " * 2000}
    done = world.run("--input", json.dumps(loud))
    for bad in ("\x1b", "\u202e", key):
        assert bad not in done.stdout
    assert "all of it with --json" in done.stdout
    assert len(done.stdout) < 5000
    assert key not in json.dumps(world.given(loud))


def test_spans_tools_and_symptoms_are_shown(world: World) -> None:
    ours = {"spans": spans(**{"deployment.environment.name": "tracemend-gate"})}
    document = world.given(ours)
    assert document["spans"] == {"tool": 1}
    assert document["tools"] == ["pay"]
    assert document["symptoms"][0]["signature"].startswith("tool_timeout:pay")
    assert document["marked"] is True
    assert not any("mark of our runs" in hint for hint in document["hints"])
    lines = world.run("--input", json.dumps(ours)).stdout
    assert "tools     pay" in lines
    assert "symptoms  tool_timeout:pay" in lines


HINTS = {
    "no cost": ({}, "no cost"),
    "no spans": ({}, "no spans"),
    "no mark": ({"spans": spans()}, "do not carry the mark of our runs"),
    "outage": ({"answer": {"error": "RateLimitError: slow down"}}, "provider outage"),
}


@pytest.mark.parametrize(("given", "hint"), HINTS.values(), ids=HINTS)
def test_what_would_stop_a_gate_is_said(world: World, given: object, hint: str) -> None:
    assert any(hint in said for said in world.given(given)["hints"])


def test_nothing_is_said_of_what_is_there(world: World) -> None:
    whole = {
        "answer": {"usage": {"cost_usd": 0.01}},
        "spans": spans(**{"tracemend.run_id": "x"}),
    }
    assert world.given(whole)["hints"] == []


def test_a_second_seed_tells_whether_answers_differ(world: World) -> None:
    assert any("two answers" in hint for hint in world.given("hi", "--twice")["hints"])
    same = world.given({"say": "same"}, "--twice")
    assert any("one answer" in hint for hint in same["hints"])


def test_mistakes_are_one_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"--input: no JSON .* '\"hi\"'"):
        world.run("--input", "hi")
    with pytest.raises(UsageError, match="give one of the two"):
        world.run("c-open", "--input", "1")
    (world.ws.root / "worker.py").write_text("raise SystemExit('no agent')")
    with pytest.raises(ProbeError, match="no agent"):
        world.run("c-open")


def test_a_remote_agent_is_checked_the_same_way(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = LangGraphServer(token="right")  # noqa: S106  of a test
    with serve(server.app) as url:
        probe = {
            "kind": "langgraph", "url": url, "assistant": "agent", "input_key": "messages",
            "output_key": "answer", "token_env": "AGENT_TOKEN",
        }  # fmt: skip
        home = tmp_path / "other"
        monkeypatch.setenv("TRACEMEND_HOME", str(home))
        make_project(home, world.ws.root, probe=probe).ledger.close()
        monkeypatch.delenv("AGENT_TOKEN", raising=False)
        with pytest.raises(ConfigError, match="the variable AGENT_TOKEN is not set"):
            world.run("--input", '"dear"')
        monkeypatch.setenv("AGENT_TOKEN", "right")
        document = world.given("dear")
    assert (document["kind"], document["output"]) == ("langgraph", "Be brief: dear")
    assert document["spans"] == {"agent": 1, "llm": 2, "tool": 1}
    assert document["tools"] == ["queue_refund"]
    assert document["hints"] == []
