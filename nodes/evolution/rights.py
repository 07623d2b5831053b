"""Edits that would widen what an agent may do. Text is edited here, never rights."""

import re
from collections.abc import Sequence

from nodes.evolution.change import TextChange
from nodes.evolution.skill_file import read_front_matter

TEXT_SUFFIXES = (
    ".md", ".markdown", ".mdx", ".mdc", ".txt", ".rst", ".prompt", ".j2", ".jinja", ".jinja2",
    ".mustache", ".hbs", ".tmpl",
)  # fmt: skip
"""Files that hold instructions. Everything else is settings or code, which are advised on only."""
_PROSE_KEYS = frozenset({"name", "description", "license", "version", "author", "metadata", "tags"})
_GUARD = (
    r"ask(?:ing)?|approv\w+|confirm\w*|permission\w*|consent|sign-?off|review\w*|check(?:s|ing)?"
)
_WEAKER = re.compile(
    rf"\b(?:without|instead of)\s+(?:\w+\s+){{0,3}}?(?:{_GUARD})\b"
    rf"|\b(?:skip|bypass|ignore|disable|omit|drop|waive)\w*\s+(?:\w+\s+){{0,3}}?(?:{_GUARD})\b"
    rf"|\bno\s+need\s+(?:to|for)\s+(?:\w+\s+){{0,3}}?(?:{_GUARD})\b"
    rf"|\b(?:do\s+not|don't|never)\s+(?:ask|wait)\s+for\s+(?:\w+\s+){{0,3}}?(?:{_GUARD})\b"
    rf"|\b(?:{_GUARD})\s+(?:is|are)\s+(?:not\s+(?:needed|required|necessary)|optional)\b",
    re.IGNORECASE,
)
_WIDER = re.compile(
    r"\b(?:use|call|run|execute)\s+(?:any|every|all)\s+(?:tools?|commands?|scripts?)\b"
    r"|\b(?:full|unlimited|unrestricted|root|admin\w*)\s+(?:access|rights|permissions?)\b"
    r"|\b(?:ignore|disregard|forget)\s+(?:all\s+|any\s+)?(?:previous|prior|earlier|above)\b"
    r"|\bsudo\b|\bbypassPermissions\b|\bdangerously[\w-]*",
    re.IGNORECASE,
)
_FORBIDS = re.compile(
    r"\b(?:never|do\s+not|don't|must\s+not|mustn't|may\s+not|cannot|can't|not)\b[^.;:]{0,40}$",
    re.IGNORECASE,
)


def rights_problems(changes: Sequence[TextChange]) -> list[str]:
    """What in an edit changes tools, permissions, limits or approval."""
    problems: list[str] = []
    for change in changes:
        if not change.path.casefold().endswith(TEXT_SUFFIXES):
            problems.append(f"{change.path}: settings or code, not instructions")
            continue
        problems += [f"{change.path}: {text}" for text in _front_matter(change)]
        gone = change.removed.replace("\u2019", "'").casefold()
        for line in change.lines[1]:
            said = line.replace("\u2019", "'")
            for pattern, what in ((_WEAKER, "weakens an approval rule"), (_WIDER, "widens rights")):
                match = _unforbidden(pattern, said)
                if match and match.casefold() not in gone:
                    problems.append(f"{change.path}: {what}: {match!r}")
    return problems


def _unforbidden(pattern: re.Pattern[str], line: str) -> str | None:
    """The first match that its own clause does not forbid, as in `never skip the approval`."""
    for match in pattern.finditer(line):
        if not _FORBIDS.search(line[: match.start()]):
            return match[0]
    return None


def _front_matter(change: TextChange) -> list[str]:
    front = read_front_matter(change.after)
    old, new = read_front_matter(change.before).values, front.values
    broken = [f"front matter hides its keys: {front.problem}"] if front.problem else []
    return broken + [
        f"tool or permission change in front matter: {key!r}"
        for key in sorted(set(old) | set(new))
        if key not in _PROSE_KEYS and old.get(key) != new.get(key)
    ]
