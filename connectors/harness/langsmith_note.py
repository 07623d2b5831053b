"""What a commit of ours says of itself, so that it is found again and told from others."""

import re
from datetime import UTC, datetime
from typing import Final

from connectors.harness.langsmith_calls import Row
from connectors.traces.langsmith.values import as_time_ns
from connectors.traces.raw import as_text
from contracts.harness import Effect, TargetChange
from contracts.json_types import Json

MAX_DESCRIPTION: Final = 1000
"""Characters that LangSmith keeps of a commit's description."""
SHOWN: Final = 12
"""Digits of a commit's hash in an origin; LangSmith finds a commit by eight or more."""
_KEY: Final = re.compile(r"^Tracemend-Effect: ([0-9a-f]{64})$", re.MULTILINE)
_BASE: Final = re.compile(r"^Tracemend-Base: ([0-9a-f]{8,64})$", re.MULTILINE)
_PARENT: Final = re.compile(r"^Tracemend-Parent: ([0-9a-f]{8,64})$", re.MULTILINE)


def note(effect: Effect, base: str, parent: str) -> str:
    """The description of a commit.

    Args:
        effect: what it is made for.
        base: hash of the commit that it is an edit of.
        parent: hash of the commit that it is to stand on; mostly the same.
    """
    about = effect.about
    lines = [f"Tracemend-Effect: {effect.key}", f"Tracemend-Base: {base}"]
    if parent != base:
        lines.append(f"Tracemend-Parent: {parent}")
    if about is None:
        return "\n".join(lines)
    told = [
        f"Tracemend-Finding: {about.finding}",
        f"Tracemend-Proposal: {about.proposal} r{about.revision}",
        f"Approved-by: {about.approver[:80]}",
        *([f"Tracemend-Gate-Report: {about.gate_report}"] if about.gate_report else []),
        *([f"Tracemend-Undoes: {about.undoes}"] if about.undoes else []),
    ]  # fmt: skip
    whole = [about.title[:200], "", *(" ".join(line.split()) for line in told), *lines]
    return "\n".join(whole)[:MAX_DESCRIPTION]


def key_of(description: Json) -> str | None:
    """Key of the effect that a commit was made for; None: none of ours."""
    found = _KEY.search(description) if isinstance(description, str) else None
    return found[1] if found else None


def base_of(description: Json) -> str | None:
    """Hash of the commit that a commit of ours is an edit of."""
    found = _BASE.search(description) if isinstance(description, str) else None
    return found[1] if found else None


def parent_of(description: Json) -> str | None:
    """Hash of the commit that a commit of ours was sent to stand on."""
    found = _PARENT.search(description) if isinstance(description, str) else None
    return found[1] if found else base_of(description)


def change_of(name: str, row: Row) -> TargetChange:
    """A commit as one entry of a history."""
    description = as_text(row.get("description"))
    first = next((line for line in description.splitlines() if line.strip()), "")
    return TargetChange(
        origin=f"{name}@{as_text(row.get('commit_hash'))[:SHOWN]}",
        at=_time(row.get("created_at")), by=as_text(row.get("full_name")) or None,
        message=first[:200], effect=key_of(description),
    )  # fmt: skip


def _time(value: Json) -> datetime | None:
    ns = as_time_ns(value)
    return datetime.fromtimestamp(ns / 1e9, UTC) if ns is not None else None
