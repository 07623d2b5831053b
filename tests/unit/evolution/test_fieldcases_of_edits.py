"""Cases rebuilt after public reports: edits that must pass, and edits that must be refused."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from connectors.review.diff import unified
from contracts.errors import AnchorError, PolicyRefused
from contracts.harness import HarnessSnapshot
from contracts.proposals import Draft, Operation
from nodes.evolution.edits import apply_operations
from nodes.evolution.policy import check, refused, risk_of
from nodes.evolution.skill_file import read_front_matter
from tests.card_worlds import FIELDCASES, edit, folder


def _draft(file: Path, *, secret: str = "") -> Draft:
    spec = json.loads(file.read_text("utf-8").replace("@@CANARY@@", secret))
    return edit(*(Operation(**operation) for operation in spec["operations"]))


def _refusal(case: str, name: str, *, secret: str = "") -> str | None:
    """Why an edit is refused, by its anchors or by the policy; None: it passes."""
    before = folder(FIELDCASES / case / "harness")
    draft = _draft(FIELDCASES / case / "edits" / f"{name}.json", secret=secret)
    try:
        after = apply_operations(before, draft.operations)
    except PolicyRefused as error:
        return str(error)
    return refused(check(before, after, draft, include=["**"], invariants=[]))


REFUSED = [
    ("34-one-brace-lost", "a", "`{{customer.name}}` became `{customer.name}`"),
    ("34-one-brace-lost", "b", "placeholder lost: `{{date}}`"),
    ("36-front-matter-traps", "a", "front matter does not parse"),
    ("36-front-matter-traps", "c", "description longer than 1024 characters (1060)"),
    ("36-front-matter-traps", "e", "name 'notes-to-tasks' differs from its folder 'note-tasks'"),
    ("37-wider-rights-by-edit", "a", "config.yaml: settings or code, not instructions"),
    ("37-wider-rights-by-edit", "b", "change in front matter: 'allowed-tools'"),
    ("37-wider-rights-by-edit", "c", "weakens an approval rule: 'without asking'"),
    ("40-the-rule-is-already-there", "again", "AGENTS.md line 11 says what AGENTS.md line 9 says"),
    ("52-anchor-found-twice-or-nowhere", "a", "anchor found 2 times"),
    ("52-anchor-found-twice-or-nowhere", "b", "anchor of blanks"),
    ("52-anchor-found-twice-or-nowhere", "c", "anchor not found"),
    ("52-anchor-found-twice-or-nowhere", "d", "empty anchor"),
]
PASSING = [
    ("34-one-brace-lost", "c"),
    ("36-front-matter-traps", "b"),
    ("36-front-matter-traps", "d"),
    ("36-front-matter-traps", "f"),
    ("37-wider-rights-by-edit", "d"),
    ("52-anchor-found-twice-or-nowhere", "e"),
]


@pytest.mark.parametrize(("case", "name", "reason"), REFUSED)
def test_a_bad_edit_is_refused_and_says_why(case: str, name: str, reason: str) -> None:
    assert reason in (_refusal(case, name) or "passed")


@pytest.mark.parametrize(("case", "name"), PASSING)
def test_a_good_edit_passes(case: str, name: str) -> None:
    assert _refusal(case, name) is None


@pytest.mark.parametrize("case", sorted({case for case, _, _ in REFUSED} | {c for c, _ in PASSING}))
def test_the_tables_above_hold_every_edit_of_a_case(case: str) -> None:
    expected = json.loads((FIELDCASES / case / "expected.json").read_text("utf-8"))["edits"]
    verdicts = {name: "refuse" for c, name, _ in REFUSED if c == case}
    verdicts |= {name: "pass" for c, name in PASSING if c == case}
    assert verdicts == {name: spec["verdict"] for name, spec in expected.items()}


def test_a_key_on_its_way_into_an_instruction_is_refused_without_being_repeated() -> None:
    case = "39-key-on-its-way-into-a-lesson"
    parts = json.loads((FIELDCASES / case / "expected.json").read_text("utf-8"))["canary_parts"]
    reason = _refusal(case, "bad", secret="".join(parts)) or "passed"
    assert "adds what looks like a secret (api key)" in reason
    assert parts[-1] not in reason


def test_a_refused_anchor_leaves_the_snapshot_as_it_was() -> None:
    case = FIELDCASES / "52-anchor-found-twice-or-nowhere"
    before = folder(case / "harness")
    with pytest.raises(AnchorError, match="anchor found 2 times"):
        apply_operations(before, _draft(case / "edits" / "a.json").operations)
    assert before == folder(case / "harness")


@pytest.mark.parametrize(
    "case", ["46-one-line-in-a-windows-file", "47-mark-at-the-start-of-the-file"]
)
def test_only_the_bytes_of_the_edit_change(case: str) -> None:
    before = folder(FIELDCASES / case / "harness")
    draft = _draft(FIELDCASES / case / "proposal.json")
    after = apply_operations(before, draft.operations)
    expected = json.loads((FIELDCASES / case / "expected.json").read_text("utf-8"))
    for path, spec in expected["after"].items():
        data = after.files[path].data
        assert (sha256(data).hexdigest(), len(data)) == (spec["sha256"], spec["bytes"])
        stats = unified(path, before.files[path].data, data).stats
        assert stats is not None
        assert (stats.added, stats.removed) == (1, 1)
    assert refused(check(before, after, draft, include=["**"], invariants=[])) is None


def test_the_edit_with_a_unique_anchor_gives_the_expected_bytes() -> None:
    case = FIELDCASES / "52-anchor-found-twice-or-nowhere"
    after = _after(case, "e")
    expected = json.loads((case / "expected.json").read_text("utf-8"))["edits"]["e"]
    assert after.files["AGENTS.md"].sha256 == expected["after_sha256"]


def test_a_mark_at_the_start_does_not_hide_the_front_matter() -> None:
    case = FIELDCASES / "47-mark-at-the-start-of-the-file"
    text = (case / "harness" / "skills" / "menu" / "SKILL.md").read_text("utf-8")
    expected = json.loads((case / "expected.json").read_text("utf-8"))["parsed_before"]
    assert text.startswith("\ufeff")
    assert dict(read_front_matter(text).values) == expected


def test_skipping_an_approval_is_high_risk_as_well() -> None:
    case = FIELDCASES / "37-wider-rights-by-edit"
    draft = _draft(case / "edits" / "c.json")
    risk, reasons = risk_of(folder(case / "harness"), _after(case, "c"), draft)
    assert risk == "high"
    assert reasons[0].startswith("guarded-text: safety text of AGENTS.md line 3")


def _after(case: Path, name: str) -> HarnessSnapshot:
    draft = _draft(case / "edits" / f"{name}.json")
    return apply_operations(folder(case / "harness"), draft.operations)
