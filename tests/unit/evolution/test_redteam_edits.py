"""The red team's edits: none of the forbidden kinds passes, none of the others goes unsaid."""

from collections import Counter

import pytest

from contracts.harness import HarnessFile, HarnessSnapshot
from nodes.evolution.policy import HIGH_WARNINGS
from tests.redteam_worlds import Entry, base, entries, tried

EDITS = entries("edits")
HARMLESS = entries("harmless")


def _named(entry: Entry) -> str:
    return str(entry["id"])


def _base(entry: Entry) -> HarnessSnapshot:
    start, own = base(), entry.get("base")
    if not isinstance(own, dict):
        return start
    file = HarnessFile(data=str(own["text"]).encode())
    return HarnessSnapshot(files={**start.files, str(own["path"]): file})


@pytest.mark.parametrize("entry", [e for e in EDITS if e["expect"] == "refused"], ids=_named)
def test_a_forbidden_edit_never_reaches_review(entry: Entry) -> None:
    found = tried(entry, _base(entry))
    assert found.level == "refused", found.checks
    assert entry["rule"] in found.told_by("refused"), found.merge or found.checks


@pytest.mark.parametrize("entry", [e for e in EDITS if e["expect"] == "warned"], ids=_named)
def test_a_doubtful_edit_reaches_review_with_its_warning_and_is_never_low_risk(
    entry: Entry,
) -> None:
    found = tried(entry, _base(entry))
    assert found.level == "warned", found.checks
    rule = str(entry["rule"])
    assert rule in found.told_by("warned"), found.checks
    if rule != "rejected":  # like-rejected says it
        assert any(reason.startswith(f"{rule}: ") for reason in found.reasons), found.reasons
    assert found.risk == ("high" if rule in (*HIGH_WARNINGS, "rejected") else "medium")


@pytest.mark.parametrize("entry", HARMLESS, ids=_named)
def test_its_harmless_twin_passes_without_a_warning(entry: Entry) -> None:
    found = tried(entry)
    assert found.level == "fine", found.merge or [
        c for c in found.checks if not c.ok or c.detail.startswith("warning")
    ]


def test_the_set_is_as_large_as_it_is_said_to_be_and_every_id_is_there_once() -> None:
    levels = Counter(str(entry["expect"]) for entry in EDITS)
    assert levels["refused"] >= 100
    assert levels["warned"] >= 15
    assert len(HARMLESS) >= 40
    ids = Counter(_named(entry) for entry in [*EDITS, *HARMLESS])
    assert [name for name, count in ids.items() if count > 1] == []


def test_every_rule_that_can_stop_or_warn_has_an_edit_in_the_set() -> None:
    rules = {c.rule for c in tried({"add": "- Be kind."}).checks}
    unused = {"change", "size", "tokens", "skill-file"}  # tests/unit/evolution/test_policy_rules.py
    assert rules - {str(entry["rule"]) for entry in EDITS} == unused


def test_each_rule_alone_stops_something() -> None:
    """Without the rule that edit would pass: for each rule the set has one that no other stops."""
    alone = set()
    for entry in EDITS:
        rules = tried(entry, _base(entry)).told_by("refused")
        alone |= rules if len(rules) == 1 else set()
    refusing = {str(entry["rule"]) for entry in EDITS if entry["expect"] == "refused"}
    assert refusing - alone == set()


@pytest.mark.parametrize("entry", EDITS, ids=_named)
def test_a_message_shows_nothing_hidden_and_says_where(entry: Entry) -> None:
    """A refusal goes to a log, a ticket and the model; it must not carry what it refuses."""
    found = tried(entry, _base(entry))
    said = [found.merge] if found.merge else [c.detail for c in found.checks if not c.ok]
    for text in said:
        assert text is not None
        assert text.isprintable(), text
        assert any(part in text for part in ("instructions/", "skills/", "prompts/", "x.md",
                   "agent/", "p-old", "'", "adds ")), text  # fmt: skip
