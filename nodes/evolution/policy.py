"""The static policy and the risk of an edit, both before a person sees it. Pure.

Every rule is listed, kept or not, so that a card shows what was looked at. A rule that does not
hold is refused whatever a person says; what only deserves a closer look is risk.
"""

import re
from collections.abc import Callable, Sequence

from connectors.review.check_words import WARNING
from contracts.harness import HarnessSnapshot
from contracts.proposals import Check, Draft, Risk
from nodes.evolution.change import TextChange, text_changes
from nodes.evolution.copies import (
    LIKE_REJECTED,
    NEAR_COPY,
    RejectedEdit,
    near_copies,
    nearest,
    rejected_words,
    trace_problems,
    trace_words,
)
from nodes.evolution.encoded import encoded_text
from nodes.evolution.guarded import guarded_problems
from nodes.evolution.hosts import new_hosts
from nodes.evolution.judged import Judged, judged
from nodes.evolution.letters import hidden_characters, mixed_letters
from nodes.evolution.markup import hidden_text
from nodes.evolution.messages import message_changes, message_words
from nodes.evolution.orders import command_problems, order_problems
from nodes.evolution.rights import rights_problems
from nodes.evolution.rules import (
    MAX_LINES,
    decoded,
    doubled_rules,
    invariant_problems,
    invariant_words,
    kept_placeholders,
    lines_changed,
    path_problems,
    secret_problems,
    size_problems,
    size_words,
    skill_file_problems,
    skill_words,
    token_growth,
)

__all__ = ["NEAR_COPY", "RejectedEdit", "check", "estimate_tokens", "refused", "risk_of", "warned"]

SMALL_LINES = 30
HIGH_WARNINGS = ("guarded-text", "rights", "orders", "commands")
"""Rules whose warnings make an edit high risk; those of the others make it medium."""
_AMOUNT = re.compile(
    r"[$€£¥]\s?\d|\b\d[\d.,]*\s?(?:%|percent|usd|eur|gbp|euros?|dollars?)", re.IGNORECASE
)

Rule = tuple[str, str, Judged]
"""Id of a rule, what to say where it holds, and what it says of the edit."""


def estimate_tokens(text: str) -> int:
    """About four bytes a token, rounded up; for callers without a tokenizer."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def check(
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    draft: Draft,
    *,
    include: Sequence[str],
    invariants: Sequence[str],
    trace_texts: Sequence[str] = (),
    rejected: Sequence[RejectedEdit] = (),
    fixed: Sequence[str] = (),
    count_tokens: Callable[[str], int] = estimate_tokens,
) -> tuple[Check, ...]:
    """All rules with how the edit stands to them, always in the same order.

    Args:
        before: the base of the edit.
        after: the harness with the edit.
        draft: who wrote it; a person may write long texts and repeat a rejected edit.
        include: patterns of the paths that may be edited.
        invariants: the operator's sentences that no edit may weaken.
        trace_texts: texts that came in from outside (users, tools), not the agent's own prompt.
        rejected: earlier edits for the same harness that a person turned down.
        fixed: patterns of paths where nothing can be added.
        count_tokens: the tokenizer to measure growth with.
    """
    changes = text_changes(before, after)
    person = draft.author.startswith("person:")
    known = _known(before)
    found: list[Rule] = [
        ("change", size_words(changes), judged(() if changes else ["the edit changes nothing"])),
        (
            "paths",
            "only allowed text files",
            path_problems(before, after, changes, include, fixed=fixed),
        ),
        ("placeholders", "all kept", kept_placeholders(changes)),
        ("messages", message_words(changes), message_changes(changes)),
        ("skill-file", skill_words(changes), skill_file_problems(changes)),
        ("size", size_words(changes), size_problems(changes, person=person)),
        token_growth(changes, count_tokens),
        ("secrets", "none added", secret_problems(changes, known)),
        ("trace-text", trace_words(trace_texts), trace_problems(changes, trace_texts, known)),
        *_words_of(changes, known, person=person),
        ("rule-there", "no rule is stated twice", doubled_rules(before, after, changes)),
        ("rejected", rejected_words(rejected), near_copies(changes, rejected, person=person)),
        (
            "invariants",
            invariant_words(invariants),
            invariant_problems(before, after, changes, invariants),
        ),
    ]
    return tuple(
        Check(rule=rule, ok=not told.refused, detail=_detail(told, fine))
        for rule, fine, told in found
    )


def _words_of(changes: Sequence[TextChange], known: str, *, person: bool) -> list[Rule]:
    """The rules that read what an edit says; some of them only warn."""
    return [
        ("rights", "no tool, permission or limit changes", rights_problems(changes)),
        ("orders", "none to drop rules or give things away", order_problems(changes)),
        ("commands", "none to run", command_problems(changes)),
        ("guarded-text", "no protecting sentence is touched", guarded_problems(changes)),
        ("hidden-characters", "none added", hidden_characters(changes)),
        ("mixed-letters", "none added", mixed_letters(changes)),
        ("hidden-text", "nothing that a page would not show", hidden_text(changes)),
        ("encoded", "none added", encoded_text(changes, known, person=person)),
        ("new-hosts", "none named", new_hosts(changes, known, person=person)),
    ]


def _known(before: HarnessSnapshot) -> str:
    return "\n".join(decoded(f.data) for f in before.files.values())


def _detail(told: Judged, fine: str) -> str:
    if told.refused:
        return "; ".join(told.refused)
    return WARNING + "; ".join(told.warned) if told.warned else fine


def refused(checks: Sequence[Check]) -> str | None:
    """The rules that do not hold, in one line; None when all do."""
    bad = [f"{c.rule}: {c.detail}" for c in checks if not c.ok]
    return " · ".join(bad) or None


def warned(checks: Sequence[Check]) -> tuple[str, ...]:
    """The rules that hold with a warning, each as `rule-id: what`."""
    return tuple(
        f"{c.rule}: {c.detail.removeprefix(WARNING)}"
        for c in checks
        if c.ok and c.detail.startswith(WARNING)
    )


def risk_of(
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    draft: Draft,
    *,
    rejected: Sequence[RejectedEdit] = (),
    agents: int = 1,
) -> tuple[Risk, tuple[str, ...]]:
    """The risk of an edit and its reasons, each as `rule-id: what`, the worst first.

    Args:
        before: the base of the edit.
        after: the harness with the edit.
        draft: who wrote it.
        rejected: earlier edits for the same harness that a person turned down.
        agents: how many agents read this harness.
    """
    changes = text_changes(before, after)
    warnings = _warnings(before, changes, person=draft.author.startswith("person:"))
    high = [*warnings[0], *_high(changes, rejected, agents)]
    medium = [*warnings[1], *_medium(changes)]
    if draft.model_written:
        medium.append(f"model-written: {draft.author.removeprefix('model:')} wrote the text")
    if high:
        return "high", (*high, *medium)
    if medium:
        return "medium", tuple(medium)
    lines = lines_changed(changes)
    return "low", (
        f"small: one file, {lines} line{'' if lines == 1 else 's'} added, nothing removed",
    )


def _warnings(
    before: HarnessSnapshot, changes: Sequence[TextChange], *, person: bool
) -> tuple[list[str], list[str]]:
    """What the rules warn of, as reasons of high and of medium risk."""
    rules = [
        ("placeholders", "", kept_placeholders(changes)),
        *_words_of(changes, _known(before), person=person),
    ]
    found: tuple[list[str], list[str]] = ([], [])
    for rule, _, told in sorted(rules, key=lambda one: one[0] != "guarded-text"):
        reasons = [f"{rule}: {sentence}" for sentence in (*told.refused, *told.warned)]
        found[rule not in HIGH_WARNINGS].extend(reasons)
    return found


def _high(
    changes: Sequence[TextChange], rejected: Sequence[RejectedEdit], agents: int
) -> list[str]:
    reasons: list[str] = []
    lines = lines_changed(changes)
    if lines > MAX_LINES:
        reasons.append(f"large: {lines} changed lines, over {MAX_LINES}")
    near = nearest(changes, rejected)
    if near and near[1] >= LIKE_REJECTED:
        reasons.append(
            f"like-rejected: {near[1]:.0%} the same as {near[0].proposal}, rejected before"
        )
    if agents > 1:
        reasons.append(f"shared: {agents} agents read this text")
    return reasons


def _medium(changes: Sequence[TextChange]) -> list[str]:
    reasons: list[str] = []
    lines = lines_changed(changes)
    removed = sum(len(change.lines[0]) for change in changes)
    if removed:
        reasons.append(f"removes: {removed} line{'' if removed == 1 else 's'} removed or changed")
    if len(changes) > 1:
        reasons.append(f"several-files: {len(changes)} files")
    if lines > SMALL_LINES:
        reasons.append(f"size: {lines} changed lines, over {SMALL_LINES}")
    amounts = [s for c in changes for s in c.statements if _AMOUNT.search(s.text)]
    if amounts:
        reasons.append(f"amount: states an amount or a share: {amounts[0].text[:80]!r}")
    return reasons
