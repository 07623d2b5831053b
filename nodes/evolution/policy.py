"""The static policy and the risk of an edit, both before a person sees it. Pure.

Every rule is listed, kept or not, so that a card shows what was looked at. A rule that does not
hold is refused whatever a person says; what only deserves a closer look is risk.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contracts.harness import HarnessSnapshot
from contracts.proposals import Check, Draft, Risk
from nodes.evolution.change import TextChange, text_changes
from nodes.evolution.rights import rights_problems
from nodes.evolution.rules import (
    MAX_LINES,
    added_statements,
    decoded,
    doubled_rules,
    hidden_problems,
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
    trace_problems,
    trace_words,
)
from nodes.evolution.statements import Statement, shingles, similarity, statement, statements

NEAR_COPY = 0.8
"""Share of word triples from which two edits count as one."""


SMALL_LINES = 30
LIKE_REJECTED = 0.5
"""Share of word triples from which an edit resembles a rejected one; policy refuses from .8."""

_GUARDED: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "safety",
        re.compile(
            r"\b(?:never|must\s+not|do\s+not|don't|may\s+not|forbidden|only\s+(?:if|when|after)"
            r"|approv\w+|confirm\w*|permission\w*|consent|escalat\w+|safe(?:ty|ly)?|legal\w*|harm\w*"
            r"|emergenc\w+|medical|human|supervisor|ask\s+(?:before|for|first)|verif\w+)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "money",
        re.compile(
            r"[$€£¥]|\b(?:refund\w*|pay|paid|payment\w*|pric\w+|charg\w+|discount\w*|credit\w*|fees?"
            r"|invoic\w+|amounts?|costs?|money|voucher\w*|compensat\w+|usd|eur|gbp|euros?|dollars?)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "personal-data",
        re.compile(
            r"\b(?:personal|privacy|private|gdpr|passwords?|e-?mail\w*|phone\w*|address\w*|birth\w*"
            r"|passport\w*|identity|ssn|card\s+numbers?|bank|iban|customer\s+data|credentials?)\b",
            re.IGNORECASE,
        ),
    ),
)
_AMOUNT = re.compile(
    r"[$€£¥]\s?\d|\b\d[\d.,]*\s?(?:%|percent|usd|eur|gbp|euros?|dollars?)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedEdit:
    """An edit that a person turned down: `text` is what `added_text` gave for it."""

    proposal: str
    text: str
    reason: str | None = None


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
        count_tokens: the tokenizer to measure growth with.
    """
    changes = text_changes(before, after)
    person = draft.author.startswith("person:")
    known = "\n".join(decoded(f.data) for f in before.files.values())
    found: list[tuple[str, str, list[str]]] = [
        ("change", size_words(changes), [] if changes else ["the edit changes nothing"]),
        ("paths", "only allowed text files", path_problems(changes, include)),
        ("placeholders", "all kept", kept_placeholders(changes)),
        ("skill-file", skill_words(changes), skill_file_problems(changes)),
        ("size", size_words(changes), size_problems(changes, person=person)),
        token_growth(changes, count_tokens),
        ("secrets", "none added", secret_problems(changes, known)),
        ("trace-text", trace_words(trace_texts), trace_problems(changes, trace_texts, known)),
        ("rights", "no tool, permission or limit changes", rights_problems(changes)),
        ("hidden-characters", "none added", hidden_problems(changes)),
        (
            "rule-there",
            "no rule is stated twice",
            doubled_rules(before, after, changes),
        ),
        ("rejected", _rejected_words(rejected), [] if person else _near_copies(changes, rejected)),
        ("invariants", invariant_words(invariants), invariant_problems(before, after, invariants)),
    ]
    return tuple(
        Check(rule=rule, ok=not problems, detail="; ".join(problems) or fine)
        for rule, fine, problems in found
    )


def refused(checks: Sequence[Check]) -> str | None:
    """The rules that do not hold, in one line; None when all do."""
    bad = [f"{c.rule}: {c.detail}" for c in checks if not c.ok]
    return " · ".join(bad) or None


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
    high = [*_guarded(changes), *_high(changes, rejected, agents)]
    medium = _medium(changes)
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


def _gone(change: TextChange) -> list[Statement]:
    """Statements of the base that the edit removes or changes; a moved one is still there."""
    kept = {s.text for s in statements(change.after)}
    return [s for s in statements(change.before) if s.text not in kept]


def _guarded(changes: Sequence[TextChange]) -> list[str]:
    reasons: list[str] = []
    for change in changes:
        for rule in _gone(change):
            touched = [name for name, pattern in _GUARDED if pattern.search(rule.text)]
            if touched:
                words = rule.text if len(rule.text) <= 80 else rule.text[:79] + "…"
                what = " and ".join(touched)
                reasons.append(
                    f"guarded-text: {what} text of {change.path} line {rule.line} is removed or "
                    f"changed: {words!r}"
                )
    return reasons


def _high(
    changes: Sequence[TextChange], rejected: Sequence[RejectedEdit], agents: int
) -> list[str]:
    reasons: list[str] = []
    lines = lines_changed(changes)
    if lines > MAX_LINES:
        reasons.append(f"large: {lines} changed lines, over {MAX_LINES}")
    near = _nearest(changes, rejected)
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
    amounts = [s for c in changes for s in added_statements(c) if _AMOUNT.search(s.text)]
    if amounts:
        reasons.append(f"amount: states an amount or a share: {amounts[0].text[:80]!r}")
    return reasons


def _near_copies(changes: Sequence[TextChange], rejected: Sequence[RejectedEdit]) -> list[str]:
    """Why the edit may not be offered again; empty when it may."""
    near = _nearest(changes, rejected)
    if near is None or near[1] < NEAR_COPY:
        return []
    edit, share = near
    why = f" ({edit.reason})" if edit.reason else ""
    return [f"near copy of {edit.proposal}, which a person rejected{why}: {share:.0%} the same"]


def _nearest(
    changes: Sequence[TextChange], rejected: Sequence[RejectedEdit]
) -> tuple[RejectedEdit, float] | None:
    """The rejected edit most like this one, with the share of word triples they have in common.

    One playbook gives alike texts for different tools, so edits about other names do not count.
    """
    text = "\n".join(change.added for change in changes)
    added, names = shingles(text), _names(text)
    scored = [
        (edit, similarity(added, shingles(edit.text)))
        for edit in rejected
        if names == (there := _names(edit.text)) or similarity(names, there) >= 0.5
    ]
    return max(scored, key=lambda pair: pair[1]) if scored else None


def _names(text: str) -> frozenset[str]:
    """Identifiers of a text; bare numbers are alike everywhere and tell no tools apart."""
    return frozenset(name for name in statement(text).names if not name.isdigit())


def _rejected_words(rejected: Sequence[RejectedEdit]) -> str:
    """What was compared, for a card."""
    if not rejected:
        return "nothing was rejected before"
    return f"unlike the {len(rejected)} rejected before"
