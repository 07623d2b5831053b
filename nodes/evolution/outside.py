"""Look outside the harness for what steered the failing runs, and keep it for the ticket."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection

from connectors.repository.scanning import Bounds, scan
from contracts.findings import Finding
from contracts.harness import HarnessSnapshot
from memory.workspace import Workspace
from nodes.evolution.elsewhere import Elsewhere, by_code, by_prompt, worth_looking
from nodes.evolution.governing import Governs, notes_on
from nodes.evolution.loaders import PromptMap, prompt_map
from nodes.evolution.offers import Merged
from nodes.evolution.prompt import Brief
from nodes.handoff import ELSEWHERE
from nodes.insights.steered import Steered

SHORT_LOOK: Final = Bounds(files=1_000, total_bytes=4 << 20, seconds=5.0)
"""For a line of `doctor`."""


def map_of(ws: Workspace, snapshot: HarnessSnapshot, bounds: Bounds | None = None) -> PromptMap:
    """Who loads which prompt, over the folders of `drafting.repository`. Reads files, runs none."""
    scanned = scan(
        ws.settings.drafting.repository, root=ws.root, leave_out=(ws.home,), bounds=bounds
    )
    return prompt_map(scanned, snapshot.files)


def outside(
    ws: Workspace, snapshot: HarnessSnapshot, files: Sequence[Governs], steered: Steered
) -> Elsewhere | None:
    """Where the steering text is, when it is in no file of the harness; None: it may be in one."""
    if not worth_looking(files, steered):
        return None
    found = by_prompt(files, steered, _vendor(ws))
    if found is not None and found.sure:
        return found
    return by_code(files, steered, map_of(ws, snapshot)) or found


def _vendor(ws: Workspace) -> str | None:
    """The kind of place that holds the prompts of the backend that the traces come from."""
    kinds = {source.kind for source in ws.settings.traces}
    if kinds == {"langfuse"}:
        return "langfuse_prompts"
    return "langsmith_hub" if kinds == {"langsmith"} else None


def keep_outside(ws: Workspace, tx: Connection, finding: Finding, found: Elsewhere) -> None:
    """Keep it beside the finding's evidence, for its ticket."""
    kept = ws.ledger.knowledge.evidence(finding.id)
    ws.ledger.knowledge.put_evidence(tx, finding.id, {**kept, ELSEWHERE: found.to_json()})


def with_notes(one: Merged, brief: Brief, doubt: Elsewhere | None) -> Merged:
    """The draft, and beside its notes why these files and what is not sure about them."""
    base = brief.snapshot
    why = notes_on(base.changed(one.after), brief.governing, brief.steered, base.origin)
    unsure = (doubt.why,) if doubt is not None else ()
    notes = tuple(dict.fromkeys((*one.draft.notes, *why, *unsure)))
    return replace(one, draft=replace(one.draft, notes=notes))
