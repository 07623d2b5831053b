"""Sentences of the base that protect somebody, and what an edit does to them. Pure.

Taking one out, or changing it, is allowed: the finding may be that it does harm. It is high risk,
and the card says which sentence it is.
"""

import re
from collections.abc import Sequence

from nodes.evolution.change import TextChange
from nodes.evolution.judged import Judged, judged, quoted
from nodes.evolution.statements import Statement, similarity, statements

_GUARDED: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "safety",
        re.compile(
            r"\b(?:never|must\s+not|do\s+not|don't|may\s+not|forbidden|only\s+(?:if|when|after)"
            r"|approv\w+|confirm\w*|permission\w*|consent|escalat\w+|safe(?:ty|ly)?|legal\w*|harm\w*"
            r"|emergenc\w+|medical|human|supervisor|ask\s+(?:before|for|first)|verif\w+"
            r"|nie|niemals|darf\s+nicht|nur\s+(?:wenn|nach|mit)|verboten|genehmigung\w*|freigabe\w*"
            r"|zustimmung\w*|jamais|interdit\w*|seulement\s+(?:si|apr[eè]s)|autorisation\w*"
            r"|approbation\w*|nunca|prohibid\w+|s[oó]lo\s+(?:si|cuando|despu[eé]s)|autorizaci\w+"
            r"|aprobaci\w+)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "limit",
        re.compile(
            r"\b(?:at\s+most|no\s+more\s+than|not\s+more\s+than|up\s+to|maximum|max\.?\s+\d|limit\w*"
            r"|budget\w*|within\s+\d+|h[oö]chstens|maximal|bis\s+zu|au\s+plus|au\s+maximum|como"
            r"\s+m[aá]ximo|a\s+lo\s+sumo)\b",
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
_LIMIT = _GUARDED[1][1]
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")


def guarded_problems(changes: Sequence[TextChange]) -> Judged:
    """Protecting sentences that the edit takes out or changes, as warnings."""
    warned: list[str] = []
    for change in changes:
        added = change.statements
        for rule in gone(change):
            if raised := _raised(rule, added):
                warned.append(f"limit of {change.path} line {rule.line} is raised: {raised}")
            elif touched := [name for name, pattern in _GUARDED if pattern.search(rule.text)]:
                what = " and ".join(touched)
                warned.append(
                    f"{what} text of {change.path} line {rule.line} is removed or changed: "
                    f"{quoted(rule.text, 80)}"
                )
    return judged((), warned)


def gone(change: TextChange) -> list[Statement]:
    """Statements of the base that the edit removes or changes; a moved one is still there."""
    kept = {s.text for s in statements(change.after)}
    return [s for s in statements(change.before) if s.text not in kept]


def _raised(rule: Statement, added: Sequence[Statement]) -> str | None:
    """`from to` where the rule comes back with a larger number; None: it does not."""
    if not _LIMIT.search(rule.text):
        return None
    for other in added:
        was, now = _numbers(rule.text), _numbers(other.text)
        words = rule.words - rule.names, other.words - other.names
        if len(was) == len(now) and was != now and similarity(*words) >= 0.6:
            higher = [(a, b) for a, b in zip(was, now, strict=True) if b > a]
            if higher:
                return f"from {higher[0][0]:g} to {higher[0][1]:g}"
    return None


def _numbers(text: str) -> list[float]:
    found = []
    for number in _NUMBER.findall(text):
        whole = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", number)[:30]
        found.append(
            float(whole.replace(",", ".")) if whole.count(".") + whole.count(",") < 2 else 0
        )
    return found
