"""The single rules of the policy: each gives a sentence for all that is wrong, else nothing."""

from collections import Counter
from collections.abc import Callable, Sequence

from configs.redaction import current_redactor
from connectors.review.clean import is_hidden
from contracts.harness import HarnessSnapshot
from nodes.evolution.change import TextChange, text_changes
from nodes.evolution.edits import BOM
from nodes.evolution.paths import included, path_problem
from nodes.evolution.placeholders import placeholder_problems
from nodes.evolution.skill_file import skill_problems
from nodes.evolution.statements import (
    Statement,
    holds,
    opposes,
    same_rule,
    statement,
    statements,
)

MAX_GROWTH_BYTES = 32 * 1024
"""Growth of one file; more than this is no small edit of an instruction file."""
MAX_LINES = 150
"""Changed lines of a draft. A person may write more, which is high risk."""
MAX_TOKENS = 2000
"""Tokens that every later run of the agent pays for."""
TRACE_RUN = 40
"""Characters in a row that a draft may share with a trace: names and codes are shorter."""


def lines_changed(changes: Sequence[TextChange]) -> int:
    """Lines added and removed, together."""
    return sum(len(lines) for change in changes for lines in change.lines)


def decoded(data: bytes) -> str:
    """Text of a file for comparing; bytes that are no UTF-8 are replaced."""
    return data.decode("utf-8", "replace")


def size_words(changes: Sequence[TextChange]) -> str:
    """What changes, in a few words."""
    files = f"{len(changes)} file" + ("" if len(changes) == 1 else "s")
    lines = lines_changed(changes)
    return f"{lines} changed line{'' if lines == 1 else 's'} in {files}"


def path_problems(changes: Sequence[TextChange], include: Sequence[str]) -> list[str]:
    """Paths that may not be edited, and changes that are no edit of text."""
    problems: list[str] = []
    for change in changes:
        if problem := path_problem(change.path):
            problems.append(f"{change.path!r}: {problem}")
        elif not included(change.path, include):
            problems.append(f"{change.path}: path not allowed; harness.include does not name it")
        if not change.readable:
            problems.append(f"{change.path}: not UTF-8 text")
        elif not change.there_after:
            problems.append(f"{change.path}: a file may not be removed")
        elif change.there_before and change.before.strip() and not change.after.strip():
            problems.append(f"{change.path}: a file may not be emptied")
        if change.mode_changed:
            problems.append(f"{change.path}: its permission bits change")
    return problems


def kept_placeholders(changes: Sequence[TextChange]) -> list[str]:
    """Placeholders lost, changed or added in files that were there."""
    return [
        f"{change.path}: {problem}"
        for change in changes
        if change.there_before and change.there_after
        for problem in placeholder_problems(change.before, change.after)
    ]


def _is_skill(change: TextChange) -> bool:
    return change.path.rsplit("/", 1)[-1] == "SKILL.md" and change.there_after


def skill_file_problems(changes: Sequence[TextChange]) -> list[str]:
    """Problems of a skill file that the edit brings."""
    problems: list[str] = []
    for change in filter(_is_skill, changes):
        old = skill_problems(change.path, change.before) if change.there_before else {}
        new = skill_problems(change.path, change.after)
        problems += [f"{change.path}: {text}" for key, text in new.items() if key not in old]
    return problems


def skill_words(changes: Sequence[TextChange]) -> str:
    """How the touched skills stand; what was wrong before the edit is a warning."""
    skills = list(filter(_is_skill, changes))
    if not skills:
        return "no SKILL.md is touched"
    old = [p for c in skills for p in skill_problems(c.path, c.after).values()]
    return "well formed" if not old else f"warning, there before: {'; '.join(old)}"


def size_problems(changes: Sequence[TextChange], *, person: bool) -> list[str]:
    """Edits too large to be one."""
    problems: list[str] = []
    for change in changes:
        growth = len(change.after.encode()) - len(change.before.encode())
        if growth > MAX_GROWTH_BYTES:
            problems.append(f"{change.path}: grows by {growth} bytes, {MAX_GROWTH_BYTES} at most")
    lines = lines_changed(changes)
    if lines > MAX_LINES and not person:
        problems.append(f"{lines} changed lines, {MAX_LINES} at most for a draft")
    return problems


def token_growth(
    changes: Sequence[TextChange], count_tokens: Callable[[str], int]
) -> tuple[str, str, list[str]]:
    """The rule, what to say of it, and its problems."""
    growth = sum(count_tokens(c.after) - count_tokens(c.before) for c in changes)
    problems = []
    if growth > MAX_TOKENS:
        problems.append(f"adds {growth} tokens to the agent's text, {MAX_TOKENS} at most")
    return "tokens", f"{growth:+d} tokens in the agent's text", problems


def secret_problems(changes: Sequence[TextChange], known: str) -> list[str]:
    """Secrets and personal data in added lines; what the base holds already is not added."""
    problems: list[str] = []
    for change in changes:
        added = "".join(c for c in change.added if not is_hidden(c))
        found = current_redactor().find(added)
        names = {one.name for one in found if one.text not in known}
        problems += [f"{change.path}: adds what looks like a secret ({n})" for n in names]
    return sorted(problems)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def trace_problems(
    changes: Sequence[TextChange], trace_texts: Sequence[str], known: str
) -> list[str]:
    """Texts copied from traces; what the harness holds already is not copied."""
    problems: list[str] = []
    base = _folded(known)
    for change in changes:
        added = _folded(change.added)
        runs = {added[i : i + TRACE_RUN] for i in range(len(added) - TRACE_RUN + 1)}
        runs = {run for run in runs if run not in base}
        if runs and any(_shares(runs, _folded(text)) for text in trace_texts):
            problems.append(
                f"{change.path}: {TRACE_RUN} characters or more are copied from a trace"
            )
    return problems


def _shares(runs: set[str], text: str) -> bool:
    return any(text[i : i + TRACE_RUN] in runs for i in range(len(text) - TRACE_RUN + 1))


def trace_words(trace_texts: Sequence[str]) -> str:
    """What was compared, for a card."""
    if not trace_texts:
        return "no trace text to compare with"
    return f"no run of {TRACE_RUN} characters from {len(trace_texts)} trace texts"


def hidden_problems(changes: Sequence[TextChange]) -> list[str]:
    """Hidden characters that the edit adds; a byte order mark at the start may stay."""
    problems: list[str] = []
    for change in changes:
        old, new = change.before, change.after
        if new.startswith(BOM) and (old.startswith(BOM) or not change.there_before):
            new = new.removeprefix(BOM)
        old = old.removeprefix(BOM).replace("\r\n", "\n")
        new = new.replace("\r\n", "\n")
        codes = [
            f"U+{ord(char):04X}"
            for char in sorted(set(new))
            if is_hidden(char) and _count(new, char) > _count(old, char)
        ]
        if codes:
            problems.append(f"{change.path}: hidden characters added: {', '.join(codes)}")
    return problems


def _count(text: str, char: str) -> int:
    """How often a hidden character occurs where it hides something.

    Joiners between letters outside ASCII are spelling in several scripts and are not counted.
    """
    if char not in "\u200c\u200d":
        return text.count(char)
    spots = [i for i, c in enumerate(text) if c == char]
    return sum(text[i - 1 : i].isascii() or text[i + 1 : i + 2].isascii() for i in spots)


def doubled_rules(
    before: HarnessSnapshot, after: HarnessSnapshot, changes: Sequence[TextChange]
) -> list[str]:
    """Added rules that the harness states already: any in the same file, else most of them.

    Most, since two skills may share a sentence such as what to do when all else fails.
    """
    kept = {
        path: statements(decoded(after.files[path].data))
        for path in before.files
        if path in after.files
    }
    problems: list[str] = []
    for change in changes:
        added = added_statements(change)
        others = [
            (path, known)
            for path, stand in kept.items()
            for known in stand
            if path != change.path or known not in added
        ]
        hits = [(s, path, twin) for s in added for path, twin in others if same_rule(s, twin)]
        inside = [hit for hit in hits if hit[1] == change.path]
        doubled = {rule.line for rule, _, _ in hits}
        for rule, path, twin in inside or (hits if 2 * len(doubled) > len(added) else []):
            problems.append(
                f"{change.path} line {rule.line} says what {path} line {twin.line} says"
            )
    return problems


def added_statements(change: TextChange) -> list[Statement]:
    """Statements that the edit adds, a second copy of one that stands there included."""
    there = Counter(s.text for s in statements(change.before))
    added: list[Statement] = []
    for found in statements(change.after):
        there[found.text] -= 1
        if there[found.text] < 0:
            added.append(found)
    return added


def invariant_problems(
    before: HarnessSnapshot, after: HarnessSnapshot, invariants: Sequence[str]
) -> list[str]:
    """Invariants that are removed, or that an added statement negates."""
    old = [s for f in before.files.values() for s in statements(decoded(f.data))]
    new = [s for f in after.files.values() for s in statements(decoded(f.data))]
    added = [s for change in text_changes(before, after) for s in added_statements(change)]
    problems: list[str] = []
    for sentence in invariants:
        rule = statement(sentence)
        if holds(rule, old) and not holds(rule, new):
            problems.append(f"removes {sentence!r}")
        against = [s for s in added if opposes(rule, s)]
        problems += [f"{s.text!r} goes against {sentence!r}" for s in against[:3]]
    return problems


def invariant_words(invariants: Sequence[str]) -> str:
    """What was compared, for a card."""
    if not invariants:
        return "none are set"
    return f"none of {len(invariants)} is removed or negated (compared by words, not by meaning)"
