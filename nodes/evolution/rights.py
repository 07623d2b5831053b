"""Edits that would widen what an agent may do. Text is edited here, never rights."""

import re
from collections.abc import Iterator, Sequence

from nodes.evolution.change import TextChange
from nodes.evolution.forbidding import unforbidden
from nodes.evolution.judged import Heard, Judged, by_phrase, judged
from nodes.evolution.said import said_by
from nodes.evolution.skill_file import FrontMatter, read_front_matter

TEXT_SUFFIXES = (
    ".md", ".markdown", ".mdx", ".mdc", ".txt", ".rst", ".prompt", ".j2", ".jinja", ".jinja2",
    ".mustache", ".hbs", ".tmpl",
)  # fmt: skip
"""Files that hold instructions. Everything else is settings or code, which are advised on only."""
_PROSE_KEYS = frozenset({"name", "description", "license", "version", "author", "metadata", "tags"})
_GUARD = (
    r"(?:ask(?:ing)?|approv\w+|confirm\w*|permissions?|consent|authori[sz]ation|sign-?off|review\w*"
    r"|verif\w+|check(?:s|ing)?(?!\s+(?:box|list|in|out)))"
)
_GUARD_DE = (
    r"(?:genehmigung\w*|freigabe\w*|zustimmung\w*|best[aä]tigung\w*|r[uü]ckfrage\w*|erlaubnis"
    r"|einwilligung|pr[uü]fung\w*|(?:nach)?zu\s?fragen|nachzufragen)"
)
_GUARD_FR = (
    r"(?:confirmation|autorisation|approbation|validation|accord|consentement|v[eé]rification)"
)
_GUARD_ES = (
    r"(?:confirmaci[oó]n|autorizaci[oó]n|aprobaci[oó]n|permiso|consentimiento|validaci[oó]n"
    r"|revisi[oó]n)"
)
_FEW = r"(?:[\w'-]+\s+){0,3}?"
_WEAKER = re.compile(
    rf"\b(?:without|instead of)\s+{_FEW}{_GUARD}\b"
    rf"|\b(?:skip|by-?pass|ignore|disable|omit|drop|waive|circumvent|dispense\s+with)\w*\s+{_FEW}"
    rf"{_GUARD}\b"
    rf"|\b(?:no\s+need|not\s+necessary|unnecessary)\s+(?:to|for)\s+{_FEW}{_GUARD}\b"
    rf"|\b(?:no|zero)\s+(?:\w+\s+){{0,2}}?{_GUARD}\s+(?:is\s+|are\s+)?(?:needed|required|necessary)\b"
    rf"|\b(?:do\s+not|don't|never|needn't|need\s+not|no\s+longer)\s+(?:ask|wait)\s+(?:for\s+)?{_FEW}"
    rf"{_GUARD}\b"
    rf"|\b{_GUARD}\s+(?:is|are)\s+(?:not\s+(?:needed|required|necessary)|optional|unnecessary"
    r"|no\s+longer\s+(?:needed|required|necessary)|waived)\b"
    r"|\bauto-?(?:approv\w+|confirm\w*|accept\w*)\b|\bautomatically\s+(?:approve|confirm|accept)\b"
    r"|\b(?:approve|accept)\s+(?:all|any|every|everything)\b"
    r"|\b(?:treat|count|take)\s+(?:[\w'-]+\s+){1,4}?as\s+(?:an?\s+)?(?:approv\w+|consent|yes"
    r"|confirm\w+)"
    r"|\bassume\s+(?:[\w'-]+\s+){0,4}?(?:approv\w+|agree\w*|consent\w*|confirm\w*)"
    rf"|\bohne\s+{_FEW}{_GUARD_DE}\b|\bkeine?\s+(?:\w+\s+)?{_GUARD_DE}\s+(?:ist\s+)?"
    rf"(?:n[oö]tig|erforderlich|notwendig)|\b[uü]berspring\w*\s+{_FEW}{_GUARD_DE}\b"
    rf"|\b{_GUARD_DE}\s+(?:ist|sind)\s+nicht\s+(?:n[oö]tig|erforderlich|notwendig)"
    rf"|\bsans\s+(?:demander\b|attendre\b|{_FEW}{_GUARD_FR}\b)"
    rf"|\baucune?\s+{_GUARD_FR}\s+n'est\s+(?:n[eé]cessaire|requise?)"
    rf"|\bsin\s+(?:pedir\b|preguntar\b|esperar\b|{_FEW}{_GUARD_ES}\b)"
    rf"|\bno\s+(?:hace\s+falta|es\s+necesari[oa]|se\s+requiere)\s+{_FEW}{_GUARD_ES}\b",
    re.IGNORECASE,
)
_WIDER = re.compile(
    r"\b(?:use|call|run|execute|invoke)\s+(?:any|every|all)\s+(?:of\s+the\s+)?(?:available\s+)?"
    r"(?:tools?|commands?|scripts?)\b"
    r"|\b(?:full|unlimited|unrestricted|root|admin\w*|complete)\s+(?:access|rights|permissions?"
    r"|privileges?)\b"
    r"|\b(?:grant|give)\s+(?:yourself|the\s+agent|itself)\s+(?:[\w'-]+\s+){0,4}?(?:access|rights?"
    r"|permissions?|tools?)\b"
    r"|\byou\s+(?:may|can)\s+now\s+(?:use|call|write|delete|access|approve|refund)\b"
    r"|\bsudo\b|\bbypassPermissions\b|\bdangerously[\w-]*|\byolo\s+mode\b|\b--no-verify\b"
    r"|\b(?:uneingeschr[aä]nkte\w*|voll\w*)\s+(?:zugriff|rechte)\b|\balle\s+(?:werkzeuge|tools)\b"
    r"|\bacc[eè]s\s+(?:complet|illimit[eé]|total)\b|\bacceso\s+(?:total|completo|ilimitado)\b",
    re.IGNORECASE,
)
_LIMITLESS = re.compile(
    r"\b(?:no|without(?:\s+an?y?)?)\s+(?:\w+\s+)?(?:limits?|caps?|budget|restrictions?)\b"
    r"|\bunlimited\s+(?:\w+\s+)?(?:budget|retries|calls?|refunds?|amounts?|spend\w*|tokens?)\b"
    r"|\b(?:raise|increase|lift|remove|double|extend|exceed|ignore|skip|disable)\s+"
    r"(?:[\w'-]+\s+){0,3}?(?:limits?|budgets?|caps?|quotas?|restrictions?|thresholds?|guardrails?)\b"
    r"|\b(?:limits?|budgets?|restrictions?|quotas?)\s+(?:do(?:es)?\s+not|don't|no\s+longer)\s+apply\b"
    r"|\bohne\s+(?:limit|grenze|begrenzung|einschr[aä]nkung\w*)\b|\bsans\s+(?:limite|restriction)s?\b"
    r"|\bsin\s+(?:l[ií]mites?|restricci\w+)\b",
    re.IGNORECASE,
)
_ENDLESS = re.compile(
    r"\b(?:as\s+(?:many|much|often)(?:\s+\w+)?\s+as\s+(?:needed|necessary|it\s+takes|you\s+(?:like"
    r"|want|need))|until\s+it\s+(?:works|succeeds)|(?:retry|repeat|try)\s+(?:forever|endlessly"
    r"|indefinitely)|keep\s+(?:re)?trying)\b",
    re.IGNORECASE,
)
_RULES = (
    (_WEAKER, "weakens an approval rule"),
    (_WIDER, "widens rights"),
    (_LIMITLESS, "lifts a limit"),
)


def rights_problems(changes: Sequence[TextChange]) -> Judged:
    """What in an edit changes tools, permissions, limits or approval."""
    texts = [c for c in changes if c.path.casefold().endswith(TEXT_SUFFIXES)]
    refused = [f"{c.path}: settings or code, not instructions" for c in changes if c not in texts]
    refused += [f"{change.path}: {text}" for change in texts for text in _front_matter(change)]
    told = by_phrase(_phrases(texts))
    return judged([*refused, *told.refused], told.warned)


def _phrases(changes: Sequence[TextChange]) -> Iterator[Heard]:
    gone = "\n".join(c.removed for c in changes).replace("\u2019", "'").casefold()
    for said in said_by(changes):
        for pattern, what in _RULES:
            match, sure = unforbidden(pattern, said.text)
            if match:
                yield said.heard(what, match, sure=sure and match.casefold() not in gone)
        endless, _ = unforbidden(_ENDLESS, said.text)
        if endless:
            yield said.heard("sets no end", endless, sure=False)


def _front_matter(change: TextChange) -> list[str]:
    front, was = read_front_matter(change.after), read_front_matter(change.before)
    if front.problem and not _as_before(front, was):
        return [f"front matter hides its keys: {front.problem}"]
    old, new = was.values, front.values
    return [
        f"tool or permission change in front matter: {key!r}"
        for key in sorted(set(old) | set(new))
        if key not in _PROSE_KEYS and old.get(key) != new.get(key)
    ]


def _as_before(front: FrontMatter, was: FrontMatter) -> bool:
    """Whether what cannot be read is what could not be read before, letter by letter."""
    return was.present and (front.problem, front.raw) == (was.problem, was.raw)
