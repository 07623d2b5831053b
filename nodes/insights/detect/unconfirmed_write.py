"""A change that was made without the yes that the agent's own instructions ask for.

Meaning: the system text says that the person's confirmation is needed before something is changed,
and the agent called a tool that changes something while the person's last words give none.
Evidence: those last words, at the model call that asked for the tool; the tool's span shows it.

Which tools: by the verb of their name (`writes.py`). A rule about "any action" or "the database"
covers all of them, a rule that names verbs ("before cancelling or refunding") covers those.
What is a yes: words of assent, in a few languages; a choice or the wish said again ("cancel it"),
when the agent had asked for it just before.

Known limits: a yes to another question passes for one; what a yes was given to is not compared
with what was done; instructions in other languages than English are not read; a person's yes that
only a tool's answer tells of is not seen.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.talk import Moment, moments, rules_of
from nodes.insights.detect.view import View
from nodes.insights.detect.writes import CHANGING, changing_verb, stem

KIND = "unconfirmed_write"
MAX_RULES = 100_000  # characters of a system text that are read
MAX_ASKED = 1_500  # characters at the end of the agent's question
_PREFILTER = ("confirm", "consent", "approval", "permission", "go-ahead")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z#*-])|\n\s*(?=[-*#\d\n])")
_CONSENT = re.compile(
    r"\bconfirm(?:ation|s|ed)?\b|\bconsent\b|\bapprov(?:al|es|ed)\b|\bpermission\b|\bgo-ahead\b",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:users?|customers?|clients?|callers?|guests?|members?|patients?|passengers?|person|"
    r"human|requesters?)\b|\btheir\b|\bthem\b",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"\b(?:before|prior to|without|until|unless|only (?:after|once|if|when)|first)\b", re.IGNORECASE
)
_MUST = re.compile(
    r"\b(?:must|always|never|required?|requires|explicit(?:ly)?|obtain|have to|has to|needs? to|"
    r"make sure|ensure|do not|don't|only|should)\b",
    re.IGNORECASE,
)
_ANYTHING = re.compile(
    r"\b(?:any|all|every|each|consequential|irreversible|write|sensitive)\b[^.]{0,40}"
    r"\b(?:actions?|changes?|updates?|modifications?|operations?|writes?|tool calls?)\b"
    r"|\bdatabase\b|\bmaking (?:any )?changes\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z]{3,}")
_YES = re.compile(
    r"\b(?:yes|yeah|yep|yup|sure|ok|okay|confirm(?:ed|ing)?|agreed?|approved?|proceed|go ahead|"
    r"go for it|do it|do so|please do|let's (?:do|get|go|move|proceed)|correct|exactly|"
    r"absolutely|certainly|definitely|of course|sounds (?:good|great|right|fine)|"
    r"that(?:'s| is| will be| would be)? (?:right|fine|good|great|perfect|okay|works)|"
    r"works for me|looks (?:good|right|correct)|"
    r"(?:i'm|i am|im) (?:fine|good|okay|ok|happy) with|fine with me|all good|be great|perfect|"
    r"oui|d'accord|s[ií]|claro|ja|genau|gerne|sim|hai|da)\b|\U0001f44d|[\u662f\u597d]|\u306f\u3044",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:not|don't|never|can't|cannot|won't|isn't|wouldn't) (?:\w+ ){0,2}?"
    r"(?:sure|ok|okay|right|correct|confirm\w*|proceed|agree|approve|go ahead|do (?:it|so)|fine)\b",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\b(?:no|nope|don't|do not|not yet|wait|hold on|stop|rather not|instead)\b", re.IGNORECASE
)
_ASKS = re.compile(
    r"\b(?:please|you|to) confirm\b|\bconfirm (?:if|whether|that|the|your|this)\b|"
    r"\byour (?:confirmation|approval)\b|\byou (?:like|want|wish) to (?:proceed|go ahead)\b|"
    r"\byou (?:like|want|wish) me to\b|\b(?:shall|should|may|can) i (?:proceed|go)\b|"
    r"\bshall i\b|\bdo you agree\b|\bis (?:that|this) (?:ok|okay|correct|right|fine)\b",
    re.IGNORECASE,
)
_TO_GO_ON = re.compile(r"\b(?:confirm|proceed)", re.IGNORECASE)
_CHOOSES = re.compile(
    r"\b(?:i'll|i will|i'd like to|i would like to|let me|we'll)"
    r" (?:go|take|choose|pick|have|use)\b"
    r"|\boption \w+|\b(?:first|second|third|last) option\b"
    r"|\bthe (?:first|second|third|last|other|latter|former|cheapest|cheaper) one\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What the instructions ask a yes for."""

    verbs: frozenset[str]
    """Stems of verbs that the rule names."""
    anything: bool
    """It speaks of any change."""


@lru_cache(maxsize=64)
def rule_of(text: str) -> Rule | None:
    """The rule in a system text that a person has to say yes first; None: there is none."""
    low = text[:MAX_RULES].lower()
    if not any(word in low for word in _PREFILTER):
        return None
    verbs: set[str] = set()
    anything = found = False
    for sentence in _SENTENCE.split(text[:MAX_RULES]):
        if not all(part.search(sentence) for part in (_CONSENT, _PERSON, _FIRST, _MUST)):
            continue
        named = {stem(word) for word in _WORD.findall(sentence)} & CHANGING
        general = _ANYTHING.search(sentence) is not None
        if named or general:
            found = True
            verbs |= named
            anything |= general
    return Rule(verbs=frozenset(verbs), anything=anything) if found else None


def says_yes(reply: str, asked: str, verb: str) -> bool:
    """Whether the person's words let the agent go on with what the verb names.

    Args:
        reply: the person's last words.
        asked: what the agent had said before.
        verb: stem of the tool's verb.
    """
    said, before = reply.replace("\u2019", "'"), asked[-MAX_ASKED:].replace("\u2019", "'")
    if _YES.search(_NEGATED.sub(" ", said)):
        return True
    if _NO.search(said):
        return False
    if _CHOOSES.search(said) and _TO_GO_ON.search(before):
        return True
    if not _ASKS.search(before):
        return False
    return "please" in said.lower() or verb in {stem(word) for word in _WORD.findall(said)}


def unconfirmed_writes(view: View, _found: Sequence[Symptom]) -> Iterator[Hit]:
    """Calls of changing tools without a yes, each tool once a turn."""
    for run in view.runs:
        rules = [rule for rule in map(rule_of, rules_of(run)) if rule is not None]
        if not rules:
            continue
        verbs = frozenset().union(*(rule.verbs for rule in rules))
        anything = any(rule.anything for rule in rules)
        granted: set[str] = set()
        for moment in moments(run):
            for hit in _hits(moment, verbs, granted, anything=anything):
                if hit.place not in granted:
                    yield hit
            granted -= {call.tool for call in moment.turn.tools if call.span.id not in view.failed}


def _hits(
    moment: Moment, verbs: frozenset[str], granted: set[str], *, anything: bool
) -> Iterator[Hit]:
    """Writes without a yes; tools that had one go to `granted`, for a retry after a failure."""
    reply = moment.reply
    if reply is None:
        return
    shown = {call.tool: call.span.id for call in moment.turn.tools}
    for tool in dict.fromkeys([*(name for name, _ in moment.turn.asked), *shown]):
        verb = changing_verb(tool, verbs)
        if verb is None or not (anything or verb in verbs):
            continue
        if says_yes(reply, moment.asked, verb):
            granted.add(tool)
            continue
        yield Hit(
            kind=KIND,
            span=moment.turn.call,
            message=f"{tool} was called; the person's last words were: {reply}",
            field=f"input of {moment.turn.call.id}",
            place=tool,
            template="called without the confirmation that the instructions ask for",
            shown_at=shown.get(tool),
        )
