"""Drafts for a finding, from playbooks or from a reviewer's own hand. Pure."""

from collections.abc import Mapping, Sequence

from configs.playbooks import Playbook
from contracts.errors import PolicyRefused
from contracts.findings import Finding
from contracts.harness import HarnessSnapshot
from contracts.proposals import Draft, Operation
from nodes.evolution.edits import BOM, apply_operations, shown_text, text_of
from nodes.evolution.items_found import KnownText
from nodes.evolution.playbook import Fitted, applicable


def draft(
    finding: Finding,
    snapshot: HarnessSnapshot,
    playbooks: Sequence[Playbook],
    *,
    include: Sequence[str],
    main: str | None = None,
    known: Sequence[KnownText] = (),
) -> tuple[Draft, ...]:
    """Drafts best first: by the diagnosis' own order of remedies, then by playbook id.

    Each one merges into `snapshot` as it is; whether it may is policy's question. `main` is the
    file that instructions go to; None: the usual one by its name. `known` is what releases added to
    files without comments.
    """
    found = [
        fits
        for _, fits in applicable(
            playbooks, finding, snapshot, include=include, main=main, known=known
        )
        if isinstance(fits, Fitted)
    ]
    order = finding.diagnosis.remedies
    found.sort(key=lambda f: order.index(f.remedy) if f.remedy in order else len(order))
    return tuple(f.draft for f in found)


def why_none(
    finding: Finding,
    snapshot: HarnessSnapshot,
    playbooks: Sequence[Playbook],
    *,
    include: Sequence[str],
    main: str | None = None,
    known: Sequence[KnownText] = (),
) -> str:
    """Why `draft` gives nothing for the finding, in one line for a ticket."""
    reasons = [
        f"{book.id}: {fits}"
        for book, fits in applicable(
            playbooks, finding, snapshot, include=include, main=main, known=known
        )
        if isinstance(fits, str)
    ]
    return "; ".join(reasons) or f"no playbook is for cause {finding.diagnosis.cause}"


def person_edit(
    base: HarnessSnapshot,
    candidate: HarnessSnapshot,
    texts: Mapping[str, str],
    *,
    by: str,
    draft: Draft,
) -> tuple[HarnessSnapshot, Draft]:
    """A reviewer's new full texts as a new candidate, and as the draft that makes it of `base`.

    Line ends, byte order mark and a missing last line end of a base file stay where its lines stay.
    A proposed file that `texts` does not name keeps its proposed text; a new file whose text is
    empty is left out. Whether a path may be edited at all is for policy to say afterwards.

    Args:
        base: what the proposal was made on.
        candidate: the harness with the proposal that was shown.
        texts: new full text by path, lines ended by LF or CRLF.
        by: the reviewer's name.
        draft: the one that was shown; its falsifier is kept.

    Raises:
        PolicyRefused: a path is unsafe, or a file cannot be edited.
    """
    proposed = base.changed(candidate)
    operations: list[Operation] = []
    for path in sorted({*proposed, *texts}):
        shown = candidate.files.get(path)
        text = texts.get(path, shown_text(shown, path) if shown is not None else None)
        operation = _whole(base, path, text) if text is not None else None
        if operation is not None:
            operations.append(operation)
    edited = Draft(
        operations=tuple(operations),
        why=f"{by} changed the proposed text. Before that: {draft.why}",
        falsifier=draft.falsifier,
        author=f"person:{by}",
    )
    return apply_operations(base, operations), edited


def _whole(base: HarnessSnapshot, path: str, text: str) -> Operation | None:
    """The operation that makes `text` the file's text; None where nothing changes."""
    plain = text.removeprefix(BOM).replace("\r\n", "\n")
    file = base.files.get(path)
    if file is None:
        if not plain.strip():
            return None
        parts = path.split("/")
        skill = len(parts) > 2 and parts[-1] == "SKILL.md" and parts[-3] == "skills"
        return Operation(op="add_skill" if skill else "add_file", path=path, text=plain)
    old = shown_text(file, path)
    # Forms drop or add the last line end without anybody asking for it.
    if old.endswith("\n") and plain and not plain.endswith("\n"):
        plain += "\n"
    elif not old.endswith("\n"):
        plain = plain.removesuffix("\n")
    if plain == old:
        return None
    if not old.strip():
        raise PolicyRefused(f"{path}: blank before; a blank file cannot be edited in a card")
    return Operation(
        op="replace", path=path, anchor=text_of(file, path).removeprefix(BOM), text=plain
    )
