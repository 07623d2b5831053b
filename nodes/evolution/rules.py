"""The single rules of the policy that need no file of their own. Pure."""

import unicodedata
from collections.abc import Callable, Sequence

from configs.redaction import current_redactor
from connectors.review.check_words import WARNING
from connectors.review.clean import is_hidden
from contracts.harness import HarnessSnapshot
from nodes.evolution.change import TextChange
from nodes.evolution.judged import Judged, judged
from nodes.evolution.letters import hidden_in, looks_mixed
from nodes.evolution.paths import included, path_problem
from nodes.evolution.placeholders import placeholder_problems, placeholder_warnings
from nodes.evolution.said import MAX_READ
from nodes.evolution.skill_file import skill_problems
from nodes.evolution.statements import (
    excepts,
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
MAX_STATEMENTS = 400
"""Added statements that are compared one by one; longer edits break the rule of size."""


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


def path_problems(
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    changes: Sequence[TextChange],
    include: Sequence[str],
    *,
    fixed: Sequence[str] = (),
) -> Judged:
    """Paths that may not be edited, and changes that are no edit of text."""
    problems: list[str] = []
    twins = _twins(after)
    for change in changes:
        path = change.path
        if problem := path_problem(path):
            problems.append(f"{path!r}: {problem}")
        elif not included(path, include):
            problems.append(f"{path}: path not allowed; harness.include does not name it")
        if not change.there_before:
            problems += _new_path(path, twins, fixed)
        if not change.readable:
            problems.append(f"{path}: not UTF-8 text")
        elif not change.there_after:
            problems.append(f"{path}: a file may not be removed")
        elif change.there_before and change.before.strip() and not change.after.strip():
            problems.append(f"{path}: a file may not be emptied")
        new = after.files.get(path)
        if change.mode_changed:
            problems.append(f"{path}: its permission bits change")
        elif new is not None and path not in before.files and new.mode & 0o7133:
            problems.append(f"{path}: a new file is plain text of mode 644, not {new.mode:o}")
    return judged(problems)


def _new_path(path: str, twins: dict[str, list[str]], fixed: Sequence[str]) -> list[str]:
    """What is wrong with the name of a new file, beside what no file may be called."""
    problems: list[str] = []
    if hidden_in(path) or looks_mixed(path) or unicodedata.normalize("NFC", path) != path:
        problems.append(f"{path!r}: letters of its name do not show what they are")
    others = [one for one in twins[_same_name(path)] if one != path]
    if others:
        problems.append(f"{path}: one name with {others[0]} where case makes no difference")
    if included(path, fixed):
        problems.append(f"{path}: a prompt cannot be added where it cannot be taken away again")
    return problems


def _twins(after: HarnessSnapshot) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in after.files:
        found.setdefault(_same_name(path), []).append(path)
    return found


def _same_name(path: str) -> str:
    return unicodedata.normalize("NFKC", path).casefold()


def kept_placeholders(changes: Sequence[TextChange]) -> Judged:
    """Placeholders lost, changed or added."""
    refused: list[str] = []
    warned: list[str] = []
    for change in changes:
        if change.there_after:
            if change.there_before or change.path.startswith("prompts/"):
                strict = change.path.startswith("prompts/")
                refused += [
                    f"{change.path}: {problem}"
                    for problem in placeholder_problems(change.before, change.after, strict=strict)
                ]
            warned += [
                f"{change.path}: {problem}"
                for problem in placeholder_warnings(change.before, change.after)
            ]
    return judged(refused, warned)


def _is_skill(change: TextChange) -> bool:
    return change.path.rsplit("/", 1)[-1] == "SKILL.md" and change.there_after


def skill_file_problems(changes: Sequence[TextChange]) -> Judged:
    """Problems of a skill file that the edit brings; what was wrong before is a warning."""
    problems: list[str] = []
    for change in filter(_is_skill, changes):
        old = skill_problems(change.path, change.before) if change.there_before else {}
        new = skill_problems(change.path, change.after)
        problems += [f"{change.path}: {text}" for key, text in new.items() if key not in old]
    return judged(problems)


def skill_words(changes: Sequence[TextChange]) -> str:
    """How the touched skills stand; what was wrong before the edit is a warning."""
    skills = list(filter(_is_skill, changes))
    if not skills:
        return "no SKILL.md is touched"
    old = [p for c in skills for p in skill_problems(c.path, c.after).values()]
    return "well formed" if not old else f"{WARNING}there before: {'; '.join(old)}"


def size_problems(changes: Sequence[TextChange], *, person: bool) -> Judged:
    """Edits too large to be one."""
    problems: list[str] = []
    for change in changes:
        growth = len(_bytes(change.after)) - len(_bytes(change.before))
        if growth > MAX_GROWTH_BYTES:
            problems.append(f"{change.path}: grows by {growth} bytes, {MAX_GROWTH_BYTES} at most")
        written = max(len(change.added), sum(len(s.text) for s in change.statements))
        if written > MAX_READ:
            problems.append(f"{change.path}: writes {written} characters, {MAX_READ} at most")
    lines = lines_changed(changes)
    if lines > MAX_LINES and not person:
        problems.append(f"{lines} changed lines, {MAX_LINES} at most for a draft")
    return judged(problems)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def token_growth(
    changes: Sequence[TextChange], count_tokens: Callable[[str], int]
) -> tuple[str, str, Judged]:
    """The rule, what to say of it, and its problems."""
    growth = sum(count_tokens(c.after) - count_tokens(c.before) for c in changes)
    problems = []
    if growth > MAX_TOKENS:
        problems.append(f"adds {growth} tokens to the agent's text, {MAX_TOKENS} at most")
    return "tokens", f"{growth:+d} tokens in the agent's text", judged(problems)


def secret_problems(changes: Sequence[TextChange], known: str) -> Judged:
    """Secrets and personal data in added lines; what the base holds already is not added."""
    problems: list[str] = []
    for change in changes:
        added = "".join(c for c in change.added if c == "\n" or not is_hidden(c))
        found = current_redactor().find(added)
        names = {one.name for one in found if one.text not in known}
        problems += [f"{change.path}: adds what looks like a secret ({n})" for n in names]
    return judged(sorted(problems))


def doubled_rules(
    before: HarnessSnapshot, after: HarnessSnapshot, changes: Sequence[TextChange]
) -> Judged:
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
        added = change.statements[:MAX_STATEMENTS]
        new = set(change.statements)
        others = [
            (path, known)
            for path, stand in kept.items()
            for known in stand
            if path != change.path or known not in new
        ]
        hits = [(s, path, twin) for s in added for path, twin in others if same_rule(s, twin)]
        inside = [hit for hit in hits if hit[1] == change.path]
        doubled = {rule.line for rule, _, _ in hits}
        for rule, path, twin in inside or (hits if 2 * len(doubled) > len(added) else []):
            problems.append(
                f"{change.path} line {rule.line} says what {path} line {twin.line} says"
            )
    return judged(problems)


def invariant_problems(
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    changes: Sequence[TextChange],
    invariants: Sequence[str],
) -> Judged:
    """Invariants that are removed, that an added statement negates, or that it excepts from."""
    if not invariants:
        return Judged()
    old = [s for f in before.files.values() for s in statements(decoded(f.data))]
    new = [s for f in after.files.values() for s in statements(decoded(f.data))]
    added = [s for change in changes for s in change.statements]
    problems: list[str] = []
    for sentence in invariants:
        rule = statement(sentence)
        if holds(rule, old) and not holds(rule, new):
            problems.append(f"removes {sentence!r}")
        against = [s for s in added if opposes(rule, s)]
        problems += [f"{s.text!r} goes against {sentence!r}" for s in against[:3]]
        around = [s for s in added if s not in against and excepts(rule, s)]
        problems += [f"{s.text!r} makes an exception from {sentence!r}" for s in around[:3]]
    return judged(problems)


def invariant_words(invariants: Sequence[str]) -> str:
    """What was compared, for a card."""
    if not invariants:
        return "none are set"
    return f"none of {len(invariants)} is removed or negated (compared by words, not by meaning)"
