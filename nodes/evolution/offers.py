"""Drafts that hold on a harness: from the draft before, from the editor model, from playbooks.

The first is the proposal, the others are its alternatives; near copies are one.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from configs.playbooks import Playbook, load_playbooks
from connectors.models.chat import open_model
from connectors.review.clean import one_line
from contracts.errors import PolicyRefused
from contracts.findings import Finding
from contracts.harness import HarnessSnapshot
from contracts.proposals import Check, Draft, Proposal
from memory.budget import count_tokens
from memory.workspace import Workspace
from nodes.evolution.alternatives import MAX_DRAFTS
from nodes.evolution.asked import InLedger
from nodes.evolution.change import text_changes
from nodes.evolution.draft import draft, why_none
from nodes.evolution.edits import apply_operations
from nodes.evolution.governing import governing_file
from nodes.evolution.items import without_comments
from nodes.evolution.model_draft import Written, model_drafts
from nodes.evolution.policy import NEAR_COPY, RejectedEdit, check, refused
from nodes.evolution.prompt import Brief
from nodes.evolution.provenance import provenanced
from nodes.evolution.revise import Revising
from nodes.evolution.statements import shingles, similarity


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The step that is to be done: the next revision of one proposal, on one base."""

    which: Revising
    step: str
    finding: Finding
    snapshot: HarnessSnapshot
    earlier: Proposal | None
    """The revision before, whose drafts are tried again on a base that moved."""
    rejected: tuple[RejectedEdit, ...]
    brief: Brief


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A draft merged into the harness that passes the policy."""

    draft: Draft
    after: HarnessSnapshot
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The drafts that hold, best first, or why there is none."""

    held: tuple[Merged, ...]
    why_none: str | None = None


async def offers(ws: Workspace, task: Task) -> Offers:
    """What there is to offer a person for the finding.

    After a base that moved the same drafts are tried first, on the new base. Then the editor model,
    where one is configured; then the playbooks, which also fill up what the model left of the
    alternatives that were asked for.
    """
    again = await asyncio.to_thread(_again, ws, task)
    if again:
        return Offers(held=again)
    name = ws.settings.models.editor
    if name is None:
        return await asyncio.to_thread(_by_playbooks, ws, task, (), MAX_DRAFTS)
    written = await _from_model(ws, task, name)
    asked = ws.settings.drafting.alternatives
    if not written.held:
        without = f"the editor model gave no valid edit ({_words(name, written)})"
        books = await asyncio.to_thread(_by_playbooks, ws, task, (), MAX_DRAFTS)
        if not books.held:
            return Offers(held=(), why_none=f"{_sentence(without)}. {books.why_none}")
        first = _noted(books.held[0], f"{without}; this is the playbook's", *_unpriced(written))
        return Offers(held=(first, *books.held[1:]))
    notes = list(_unpriced(written))
    if len(written.held) < asked:
        given = f"{len(written.held)} of {asked} ideas"
        notes.append(f"the editor model gave {given} ({_words(name, written)})")
    held = (_noted(written.held[0], *notes), *written.held[1:])
    return await asyncio.to_thread(_by_playbooks, ws, task, held, asked)


def merge(ws: Workspace, task: Task, candidate: Draft) -> Merged | str:
    """The draft merged into the harness, or the rule that it breaks."""
    spec = ws.settings.harness
    person = candidate.author.startswith("person:")
    if ws.settings.drafting.provenance and not person:
        marked = provenanced(
            task.snapshot, candidate.operations,
            signature=task.finding.signature, finding=task.finding.id,
        )  # fmt: skip
        candidate = replace(candidate, operations=marked)
    try:
        after = apply_operations(task.snapshot, candidate.operations)
    except PolicyRefused as error:
        return str(error)
    checks = check(
        task.snapshot, after, candidate, include=spec.include, invariants=spec.invariants,
        trace_texts=() if person else [line.quote for line in task.brief.evidence],
        rejected=task.rejected, count_tokens=lambda text: count_tokens(text).tokens,
        fixed=spec.fixed,
    )  # fmt: skip
    return refused(checks) or Merged(draft=candidate, after=after, checks=checks)


def copy_of(base: HarnessSnapshot, one: Merged, held: Sequence[Merged]) -> int | None:
    """Which of those held says nearly the same; None: it is another idea."""
    words = _idea(base, one.after)
    for number, other in enumerate(held):
        if one.after.revision == other.after.revision:
            return number
        if similarity(words, _idea(base, other.after)) >= NEAR_COPY:
            return number
    return None


def _idea(base: HarnessSnapshot, after: HarnessSnapshot) -> frozenset[str]:
    """The words of an edit, with the lines that it takes out told from those that it adds.

    Comments that name an item are no words of it: they differ from author to author.
    """
    changes = text_changes(base, after)
    gone = {f"-{words}" for change in changes for words in _triples(change.removed)}
    return _triples("\n".join(change.added for change in changes)) | gone


def _triples(text: str) -> frozenset[str]:
    return shingles(without_comments(text))


def _again(ws: Workspace, task: Task) -> tuple[Merged, ...]:
    """The earlier drafts on the new base; empty where the proposal's own does not hold there."""
    if task.earlier is None:
        return ()
    first, *others = task.earlier.draft, *(one.draft for one in task.earlier.alternatives)
    made = merge(ws, task, first)
    if isinstance(made, str):
        return ()
    held = [made]
    for other in others:
        also = merge(ws, task, other)
        if isinstance(also, Merged) and copy_of(task.snapshot, also, held) is None:
            held.append(also)
    return tuple(held)


async def _from_model(ws: Workspace, task: Task, name: str) -> Written[Merged]:
    def judge(candidate: Draft, held: Sequence[Merged]) -> Merged | str:
        made = merge(ws, task, candidate)
        if isinstance(made, str):
            return made
        same = copy_of(task.snapshot, made, held)
        if same is None:
            return made
        return f"it is nearly the same as edit {same + 1}; give another idea"

    model = await asyncio.to_thread(open_model, name, root=ws.root)
    record = InLedger(ws=ws, thread=task.which.thread, revision=task.which.revision, model=name)
    return await model_drafts(
        model, name, task.brief, judge, count=ws.settings.drafting.alternatives, record=record,
        tokens=ws.settings.budget.drafting_tokens,
    )  # fmt: skip


def _by_playbooks(ws: Workspace, task: Task, held: tuple[Merged, ...], most: int) -> Offers:
    """`held`, with playbooks' drafts that hold and say something else, up to `most`."""
    if len(held) >= most:
        return Offers(held=held)
    books, include = _playbooks(ws), ws.settings.harness.include
    found, problems = list(held), []
    main, known = governing_file(task.brief.governing), task.brief.known
    drafts = draft(task.finding, task.snapshot, books, include=include, main=main, known=known)
    for candidate in drafts:
        made = merge(ws, task, candidate)
        if isinstance(made, str):
            problems.append(made)
        elif copy_of(task.snapshot, made, found) is None:
            found.append(made)
        if len(found) == most:
            break
    if found:
        return Offers(held=tuple(found))
    why_not = (
        f"No draft passes the policy: {problems[0]}"
        if problems
        else why_none(task.finding, task.snapshot, books, include=include, main=main, known=known)
    )
    return Offers(held=(), why_none=why_not)


def _playbooks(ws: Workspace) -> tuple[Playbook, ...]:
    return load_playbooks([ws.root / folder for folder in ws.settings.playbooks])


def _noted(made: Merged, *notes: str) -> Merged:
    return replace(made, draft=replace(made.draft, notes=(*made.draft.notes, *notes)))


def _words(name: str, written: Written[Merged]) -> str:
    tries = f"{written.tries} tr{'y' if written.tries == 1 else 'ies'}"
    return f"{name}, {tries}: {one_line(written.problem or 'no answer', 160)}"


def _unpriced(written: Written[Merged]) -> tuple[str, ...]:
    """A note where money could not bound the calls."""
    if not written.unpriced:
        return ()
    answers = f"{written.unpriced} answer{'' if written.unpriced == 1 else 's'}"
    return (
        f"the cost of {answers} of the editor model is not known: tokens bound them, not money",
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
