"""`tracemend cases` with what is elsewhere: vendors' datasets over HTTP, and recorded traffic."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory.workspace import open_project
from nodes.casebook import read_casebook
from tests.ask_worlds import NOW, ask_world
from tests.case_worlds import CaseWorld, case_world
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.serving import serve
from tests.langsmith_worlds import fake_of, serving
from tests.run_worlds import PROJECT, Clock

HIDDEN = "zebra crossing at midnight"
SEALED = f'- {{input: {{message: "{HIDDEN}"}}, tags: [sealed], assert: [{{contains: queued}}]}}\n'


def langfuse(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    url = stack.enter_context(serve(FakeLangfuse().app))
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET)
    return {"kind": "langfuse", "base_url": url}


def langsmith(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    served = serving(fake_of([]), stack)
    monkeypatch.setenv("LANGSMITH_API_KEY", served.fake.key)
    return {"kind": "langsmith", "base_url": served.url}


@pytest.mark.parametrize("vendor", [langfuse, langsmith], ids=["langfuse", "langsmith"])
def test_cases_go_to_a_vendor_once_and_come_back_as_they_were(
    vendor: Any, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        spec = vendor(stack, monkeypatch)
        world = stack.enter_context(case_world(tmp_path / "agent", home, traces=[spec]))
        world.write("cases/sealed.yaml", SEALED)
        name = f"{spec['kind']}:regressions"
        first = world.json("export", name)
        assert (first["added"], first["known"], first["held_back"]) == (2, 0, 1)
        second = world.json("export", name)
        assert (second["added"], second["known"]) == (0, 2)
        before = {case.id: case for case in read_casebook(world.ws).cases}
        for file in ("ours.yaml", "sealed.yaml"):
            (world.ws.root / "cases" / file).unlink()
        done = world.run("import", name)
        assert (done.code, done.out) == (0, "added 2 cases to cases/added.yaml\n")
        for case in read_casebook(world.ws).cases:
            assert replace(case, origin="") == replace(before[case.id], origin="")
        assert world.json("import", name)["added"] == []
        assert HIDDEN not in world.text("cases/added.yaml")


def test_a_vendor_that_cannot_be_reached_is_one_line_and_exit_6(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET)
    with ExitStack() as stack:
        url = stack.enter_context(serve(FakeLangfuse().app))
        spec = {"kind": "langfuse", "base_url": url}
        world = stack.enter_context(case_world(tmp_path / "agent", home, traces=[spec]))
        done = world.run("import", "langfuse:nowhere")
        assert (done.code, done.err.count("\n")) == (6, 1)
        assert "langfuse" in done.err


@pytest.fixture
def busy(tmp_path: Path, home: Path) -> Iterator[CaseWorld]:
    """A project with 40 runs today: 10 fail in `pay`, 4 in `label`, the rest ask for a label."""
    made = ask_world(tmp_path / "agent", home)
    made.ledger.close()
    file = made.root / "tracemend.yaml"
    settings = yaml.safe_load(file.read_text())
    (made.root / "instructions").mkdir()
    (made.root / "instructions/main.md").write_text("Be kind.\n")
    (made.root / "cases").mkdir()
    file.write_text(yaml.safe_dump({**settings, "cases": ["cases/*.yaml"]}))
    ws = open_project(home, PROJECT)
    ws.ledger.db.clock = Clock(NOW)
    yield CaseWorld(ws=ws)
    ws.ledger.close()


def test_ordinary_requests_are_drawn_and_sealed_once(busy: CaseWorld) -> None:
    first = busy.json("add", "--from-traces", "5", "--since", "24h", "--seed", "3")
    assert (first["schema"], first["asked"]) == ("tracemend.cases-add/1", 5)
    assert first["new"] == first["drawn"] == 1  # every clean run asks for the same
    sealed = read_casebook(busy.ws).tagged("sealed")
    assert [case.input for case in sealed] == [{"message": "send a parcel label"}]
    assert len(busy.ws.ledger.sealed.listed()) == 1
    second = busy.run("add", "--from-traces", "5", "--since", "24h", "--seed", "3")
    assert second.out.startswith("sealed 0 ordinary requests")
    assert "parcel" not in second.out + second.err
    assert list((busy.ws.root / "cases").iterdir()) == []


def test_a_check_holds_assertions_against_recorded_runs(busy: CaseWorld) -> None:
    text = (
        '- id: c-label\n  input: {message: "send a parcel label"}\n'
        "  assert: [{tool_called: label}, {tool_called: fly}, {not_empty: true}]\n"
    )
    busy.write("cases/ours.yaml", text)
    assert busy.run("check").code == 0
    done = busy.json("check", "--traces", code=2)
    assert [one["where"] for one in done["problems"]] == ["c-label"]
    assert "tool_called" in done["problems"][0]["what"]
    assert "clean runs" in done["problems"][0]["what"]
    twin = '- {id: c-two, input: {message: "something else"}, assert: [{contains: kind}]}\n'
    busy.write("cases/twins.yaml", twin + twin.replace("c-two", "c-three").replace("else", "new"))
    said = [one["where"] for one in busy.json("check", "--traces", code=2)["remarks"]]
    assert "c-two and 1 more" in said  # what holds for many is one line
    late = busy.run("check", "--since", "3d")
    assert (late.code, late.err) == (2, "tracemend: --since goes with --traces\n")
