"""The agent tells a person that something was done, and no tool that could do it was called.

Meaning: a sentence in the perfect ("has been cancelled", "I've sent") about a change, in an answer
to a person, while the run's tools are recorded and none that could do it was called without
failing before the sentence.
Evidence: the sentence, at the model call that said it.

Verbs that are near each other are one family (`update`, `modify`, `change`, `upgrade` ...): a tool
of the family backs the claim; money moves with any change.
Questions, conditions, plans and what somebody else did ("you have cancelled", "by the airline") are
left out, as is what a tool's answer or the person's own words already say was done.

Known limits: English only; a claim backed by the right verb on the wrong thing passes; runs whose
tools are not recorded, or in which a tool of an opaque name, code or another agent ran, are not
looked at.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.runs import Run
from nodes.insights.detect.talk import moments
from nodes.insights.detect.view import ToolCall, View
from nodes.insights.detect.writes import CHANGING, READING, changing_verb, stem, words_of

KIND = "claimed_action"
MAX_SAID = 8_000  # characters of an answer that are read
_PREFILTER = ("been", "i've", "i have", "successfully")
_FAMILIES = (
    ("update", "modify", "change", "edit", "amend", "upgrade", "downgrade", "reschedule", "replace",
     "set", "switch", "add", "apply", "adjust", "write", "rebook", "move", "save"),
    ("cancel", "delete", "remove", "terminate", "revoke", "close", "withdraw", "void"),
    ("refund", "return", "credit", "reimburse", "issue", "charge", "pay", "process", "exchange"),
    ("book", "create", "place", "order", "purchase", "buy", "reserve", "schedule", "submit", "open",
     "file", "register", "add", "issue", "post", "insert"),
    ("send", "email", "mail", "notify", "message", "post", "publish", "forward"),
    ("transfer", "escalate", "hand", "forward", "connect", "assign"),
)  # fmt: skip
_MONEY = frozenset(map(stem, ("refund", "credit", "charge", "issue")))
"""What any change may bring about by itself: a cancelled order is refunded."""
FAMILIES = tuple(frozenset(map(stem, family)) for family in _FAMILIES)
_VERBS = (
    "cancell?ed", "deleted", "removed", "updated", "modified", "changed", "upgraded", "downgraded",
    "rescheduled", "rebooked", "booked", "created", "placed", "purchased", "submitted", "refunded",
    "exchanged", "issued", "sent", "emailed", "transferred", "escalated", "added", "charged",
    "credited",
)  # fmt: skip
_DONE = "|".join(_VERBS)
_CLAIM = re.compile(
    rf"\b(?:(?:has|have) (?:now |already |just )?been (?:now )?(?:successfully )?({_DONE})"
    rf"|(?:I've|I have|we've|we have) (?:now |just |also )?(?:successfully )?({_DONE})"
    rf"|(?:was|were|is|are) (?:now )?successfully ({_DONE}))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?=[^\s]))+[.!?]?")
_NOT_A_CLAIM = re.compile(
    r"\?|\b(?:if|once|when|after|until|unless|whether|not|never|cannot|can't|would|will|could|"
    r"should|might|may|need(?:s)? to|by the|has already|have already|originally|previously|"
    r"you have|you've)\b",
    re.IGNORECASE,
)


def claimed_actions(view: View, found: Sequence[Symptom]) -> Iterator[Hit]:
    """The first claim of each family in a run that nothing backs."""
    for run in view.runs:
        yield from _in_run(view, run)


@dataclass(slots=True)
class _Backed:
    """What the tools that worked so far could have done, and what they answered."""

    verbs: set[str] = field(default_factory=set)
    answers: list[str] = field(default_factory=list)

    def add(self, call: ToolCall) -> None:
        self.answers.append(call.answer.text[:MAX_SAID].lower())
        self.verbs |= set(words_of(call.tool))
        if changing_verb(call.tool) is not None:
            self.verbs |= _MONEY

    def has(self, verb: str, family: frozenset[str]) -> bool:
        return bool(family & self.verbs) or any(verb in answer for answer in self.answers)


def _in_run(view: View, run: Run) -> Iterator[Hit]:
    if not run.offered:
        return
    backed, told = _Backed(), set[frozenset[str]]()
    for moment in moments(run):
        turn = moment.turn
        worked = [call for call in turn.tools if call.span.id not in view.failed]
        if turn.agents or turn.code or any(opaque(call.tool) for call in worked):
            return
        for call in worked:
            backed.add(call)
        said = turn.said[:MAX_SAID].replace("\u2019", "'")
        for start, sentence, verb in claims(said):
            family = frozenset({verb}).union(*(one for one in FAMILIES if verb in one))
            if family in told or backed.has(verb, family) or _heard(sentence, moment.reply):
                continue
            told.add(family)
            yield Hit(
                kind=KIND,
                span=turn.call,
                message=sentence,
                field="output",
                start=start,
                code=verb,
                template="said to be done, and no tool for it was called",
            )


def opaque(tool: str) -> bool:
    """Whether the name of a tool does not tell what it does, so that it may have done anything."""
    words = words_of(tool)
    return not (set(words) & (READING | CHANGING))


def _heard(sentence: str, reply: str | None) -> bool:
    """Whether the agent only says again what the person said."""
    claim = _CLAIM.search(sentence)
    return claim is not None and claim[0].lower() in (reply or "").lower()


def claims(said: str) -> Iterator[tuple[int, str, str]]:
    """(offset, sentence, stem of the verb) of each thing that is said to be done."""
    if not any(word in said.lower() for word in _PREFILTER):
        return
    for match in _SENTENCE.finditer(said):
        sentence = match[0].strip()
        claim = _CLAIM.search(sentence)
        if claim is not None and not _NOT_A_CLAIM.search(sentence):
            verb = next(group for group in claim.groups() if group)
            yield match.start(), sentence, stem(verb)
