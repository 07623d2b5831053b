"""Edits made after public reports: the policy's verdict on each, and the bytes they leave."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from connectors.review.diff import unified
from contracts.errors import PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import Draft, Operation, OperationName
from nodes.evolution.edits import apply_operations
from nodes.evolution.policy import check, refused, risk_of
from nodes.evolution.skill_file import read_front_matter

CASES = Path(__file__).resolve().parents[2] / "data" / "fieldcases"
EVERYTHING = ("**",)


def _folder(number: str) -> Path:
    return next(CASES.glob(f"{number}-*"))


def _harness(number: str) -> HarnessSnapshot:
    root = _folder(number) / "harness"
    return HarnessSnapshot(
        files={
            path.relative_to(root).as_posix(): HarnessFile(data=path.read_bytes())
            for path in root.rglob("*")
            if path.is_file()
        }
    )


def _expected(number: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_folder(number) / "expected.json").read_text("utf-8"))
    return found


def _operations(file: Path) -> tuple[Operation, ...]:
    names = {"insert": "insert_after"}
    return tuple(
        Operation(
            op=cast("OperationName", names.get(o["op"], o["op"])), path=o.get("path") or o["file"],
            text=o["text"], anchor=o.get("anchor"),
        )
        for o in json.loads(file.read_text("utf-8"))["operations"]
    )  # fmt: skip


def _draft(operations: tuple[Operation, ...]) -> Draft:
    return Draft(operations=operations, why="", falsifier="", author="model:x")


def _verdict(number: str, name: str, include: tuple[str, ...]) -> str | None:
    """Why the edit is refused; None: it passes."""
    before = _harness(number)
    operations = _operations(_folder(number) / "edits" / f"{name}.json")
    try:
        after = apply_operations(before, operations)
    except PolicyRefused as error:
        return str(error)
    checks = check(before, after, _draft(operations), include=include, invariants=())
    return refused(checks)


INCLUDE = {"37": ("AGENTS.md", "skills/**")}
EDITS = [(number, name) for number in ("34", "36", "37", "52") for name in "abcdef"]


@pytest.mark.parametrize(("number", "name"), EDITS)
def test_the_verdict_is_the_reported_one(number: str, name: str) -> None:
    edits = _expected(number)["edits"]
    if name not in edits:
        pytest.skip(f"case {number} has no edit {name}")
    why = _verdict(number, name, INCLUDE.get(number, EVERYTHING))
    if edits[name]["verdict"] == "pass":
        assert why is None
        return
    if why is None:  # equally good in the case's own words
        assert "high risk" in edits[name]["or"]
        before = _harness(number)
        operations = _operations(_folder(number) / "edits" / f"{name}.json")
        risk, _ = risk_of(before, apply_operations(before, operations), _draft(operations))
        assert risk == "high"


@pytest.mark.parametrize("name", "abcd")
def test_an_anchor_that_is_not_one_place_says_why(name: str) -> None:
    assert _expected("52")["edits"][name]["reason"] in str(_verdict("52", name, EVERYTHING))


def test_a_lost_placeholder_is_named() -> None:
    for name in ("a", "b"):
        why = str(_verdict("34", name, EVERYTHING))
        assert _expected("34")["edits"][name]["name"] in why


def test_a_rule_that_stands_there_is_not_said_again() -> None:
    assert "rule-there" in str(_verdict("40", "again", EVERYTHING))


@pytest.mark.parametrize("number", ["46", "47"])
def test_bytes_outside_the_change_stay(number: str) -> None:
    """CRLF, one LF line, a bare CR, a byte order mark: the result is the reported one, exactly."""
    before = _harness(number)
    operations = _operations(_folder(number) / "proposal.json")
    after = apply_operations(before, operations)
    for path, wanted in _expected(number)["after"].items():
        assert after.files[path].sha256 == wanted["sha256"]
        assert len(after.files[path].data) == wanted["bytes"]
        diff = unified(path, before.files[path].data, after.files[path].data)
        assert diff.stats is not None
        assert (diff.stats.added, diff.stats.removed) == (1, 1)
    assert (
        refused(check(before, after, _draft(operations), include=EVERYTHING, invariants=())) is None
    )


def test_the_unique_anchor_gives_the_reported_bytes() -> None:
    before = _harness("52")
    after = apply_operations(before, _operations(_folder("52") / "edits" / "e.json"))
    assert after.files["AGENTS.md"].sha256 == _expected("52")["edits"]["e"]["after_sha256"]


def test_front_matter_is_read_behind_a_byte_order_mark() -> None:
    text = _harness("47").files["skills/menu/SKILL.md"].data.decode("utf-8")
    read = read_front_matter(text)
    wanted = _expected("47")["parsed_before"]
    assert {key: read.values.get(key) for key in wanted} == wanted
