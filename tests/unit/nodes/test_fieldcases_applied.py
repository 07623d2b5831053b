"""Cases rebuilt after public reports, through the real nodes: an edit applied, an edit undone.

A real folder, a real ledger, the real apply node; only the decision and the gate's report are put
straight into the ledger.
"""

import asyncio
import json
import shutil
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from langgraph.runtime import ExecutionInfo, Runtime

from contracts.context import RunContext
from contracts.proposals import Operation, OperationName
from memory.workspace import open_project
from nodes.apply import apply
from tests.apply_worlds import THREAD, WHICH, ApplyWorld
from tests.approval_worlds import installation, wait_for
from tests.card_worlds import FIELDCASES

INCLUDE = ["*.md", "skills/**"]
RELEASED = "# Desk\n\nBe brief.\nAsk for the order number.\n"


def _world(folder: Path, files: Path, operations: Sequence[Operation]) -> ApplyWorld:
    """A project with the case's files, and an approved and accepted edit of them."""
    inbox = installation(folder, harness={"kind": "directory", "include": INCLUDE})
    shutil.rmtree(inbox.root() / "instructions")
    shutil.copytree(files, inbox.root(), dirs_exist_ok=True)
    made = wait_for(inbox, operations, which=WHICH, thread=THREAD)
    ws = open_project(inbox.home, "refunds")
    before, after = (
        {path: file.data for path, file in ws.ledger.artifacts.snapshot(revision).files.items()}
        for revision in (made.base_revision, made.candidate_revision)
    )
    world = ApplyWorld(inbox=inbox, proposal=made, before=before, after=after)
    world.decide()
    world.accept()
    return world


def _case(folder: Path, case: str, edit: str = "proposal.json") -> ApplyWorld:
    spec = json.loads((FIELDCASES / case / edit).read_text("utf-8"))
    operations = [Operation(**one) for one in spec["operations"]]
    return _world(folder, FIELDCASES / case / "harness", operations)


def _do(world: ApplyWorld, monkeypatch: pytest.MonkeyPatch) -> str:
    """The node, in this process."""
    monkeypatch.setenv("TRACEMEND_HOME", str(world.inbox.home))
    info = ExecutionInfo(
        checkpoint_id="c", checkpoint_ns="", task_id="t", thread_id=THREAD
    )  # fmt: skip
    runtime = Runtime(context=RunContext(project="refunds"), execution_info=info)
    return asyncio.run(apply({"proposal": world.proposal.id}, runtime))["applied"]


def _sha(world: ApplyWorld, path: str) -> str:
    return sha256(world.place(path).read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "case", ["46-one-line-in-a-windows-file", "47-mark-at-the-start-of-the-file"]
)
def test_applied_bytes_are_exact_and_an_undo_gives_the_old_ones_back(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = json.loads((FIELDCASES / case / "expected.json").read_text("utf-8"))
    world = _case(tmp_path, case)
    modes = {path: world.place(path).stat().st_mode for path in world.before}
    assert _do(world, monkeypatch) == "done"
    for path, spec in expected["after"].items():
        data = world.place(path).read_bytes()
        assert (sha256(data).hexdigest(), len(data)) == (spec["sha256"], spec["bytes"])
    world.undo_card()
    assert _do(world, monkeypatch) == "done"
    assert world.harness() == world.before
    assert {path: world.place(path).stat().st_mode for path in world.before} == modes
    assert len(world.releases()) == 2
    assert world.audit_ok()


def test_case_52_the_one_anchor_that_is_unique_is_applied_as_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = "52-anchor-found-twice-or-nowhere"
    expected = json.loads((FIELDCASES / case / "expected.json").read_text("utf-8"))["edits"]["e"]
    world = _case(tmp_path, case, "edits/e.json")
    assert _do(world, monkeypatch) == "done"
    assert _sha(world, "AGENTS.md") == expected["after_sha256"]


def _released(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ApplyWorld:
    """Case 48: the release is out, as state B has it."""
    case = FIELDCASES / "48-undo-meets-a-hand-edit"
    start = folder / "start"
    start.mkdir()
    (start / "AGENTS.md").write_text(RELEASED, "utf-8")
    now = (case / "state_b" / "AGENTS.md").read_text("utf-8")
    operation = Operation(op="replace", path="AGENTS.md", anchor=RELEASED, text=now)
    world = _world(folder, start, [operation])
    assert _do(world, monkeypatch) == "done"
    released = json.loads((case / "release.json").read_text("utf-8"))
    assert _sha(world, "AGENTS.md") == released["after"]["AGENTS.md"]["sha256"]
    return world


def test_case_48_an_undo_gives_the_old_bytes_back_and_a_second_one_the_first_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = json.loads(
        (FIELDCASES / "48-undo-meets-a-hand-edit" / "expected.json").read_text("utf-8")
    )
    world = _released(tmp_path, monkeypatch)
    world.undo_card()
    assert _do(world, monkeypatch) == "done"
    assert _sha(world, "AGENTS.md") == expected["b"]["sha256"]
    releases = world.releases()
    assert _do(world, monkeypatch) == "done"
    assert world.releases() == releases


def test_case_48_an_undo_over_a_hand_edit_is_refused_says_the_file_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = FIELDCASES / "48-undo-meets-a-hand-edit"
    world = _released(tmp_path, monkeypatch)
    world.place("AGENTS.md").write_bytes((case / "state_a" / "AGENTS.md").read_bytes())
    world.undo_card()
    assert _do(world, monkeypatch) != "done"
    expected = json.loads((case / "expected.json").read_text("utf-8"))["a"]
    assert _sha(world, "AGENTS.md") == expected["sha256"]
    (effect,) = world.effects("undo")
    assert effect.state == "aborted"
    assert "AGENTS.md" in (effect.reason or "")
    assert world.audit_ok()


KINDS = {
    "unix": b"# Desk\n\nBe brief.\nAsk twice.\n",
    "windows": b"# Desk\r\n\r\nBe brief.\r\nAsk twice.\r\n",
    "mixed": b"# Desk\r\n\nBe brief.\nAsk twice.\r\n",
    "marked": b"\xef\xbb\xbf# Desk\n\nBe brief.\nAsk twice.\n",
    "marked windows": b"\xef\xbb\xbf# Desk\r\n\r\nBe brief.\r\nAsk twice.\r\n",
    "without a last end": b"# Desk\n\nBe brief.\nAsk twice.",
    "bare return": b"# Desk\rnote\n\nBe brief.\nAsk twice.\n",
    "front matter": b"---\ntitle: a\n---\n# Desk\n\nBe brief.\nAsk twice.\n",
    "other letters": "# Büro 事務\n\nBe brief.\nAsk twice.\n".encode(),
}
EDITS: dict[str, tuple[str, str]] = {
    "replace": ("Be brief.\nAsk", "Be kind.\nAsk"),
    "insert_after": ("Be brief.", "Be kind.\nBe quick.\n"),
    "remove": ("Be brief.", ""),
}


@pytest.mark.parametrize("how", EDITS)
def test_every_kind_of_file_is_edited_in_place_and_comes_back_by_undo(
    how: OperationName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends, marks, modes and untouched lines stay; the folder holds what the snapshot says."""
    start = tmp_path / "start"
    start.mkdir()
    paths = {f"{kind.replace(' ', '-')}.md": data for kind, data in KINDS.items()}
    for path, data in paths.items():
        (start / path).write_bytes(data)
        (start / path).chmod(0o640)
    anchor, text = EDITS[how]
    world = _world(
        tmp_path, start, [Operation(op=how, path=p, anchor=anchor, text=text) for p in paths]
    )
    assert _do(world, monkeypatch) == "done"
    touched = (b"Be brief.", b"Be kind.", b"Be quick.")
    for path, data in paths.items():
        now = world.place(path).read_bytes()
        assert now == world.after[path] != data
        old, new = (
            [ln for ln in d.split(b"\n") if not ln.startswith(touched)] for d in (data, now)
        )
        assert new == old, path
    world.undo_card()
    assert _do(world, monkeypatch) == "done"
    assert world.harness() == paths
    assert {world.place(path).stat().st_mode & 0o777 for path in paths} == {0o640}


def _untouched(data: bytes, touched: tuple[bytes, ...]) -> list[bytes]:
    return [line for line in data.split(b"\n") if not line.startswith(touched)]
