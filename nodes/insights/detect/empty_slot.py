"""The answer tells of what an empty part of its instructions was to hold.

Meaning: the prompt has a part for lessons, memories, documents or results that was not filled in,
and speaks of it as if it were; the model obeys and makes it up. The fix is in the text.
Evidence: the empty part and its line, and the sentence of the answer that recalls something, or
tells of the past or of a source with a figure that stands nowhere in what the model was given.
Known limits: parts are known by the words of their labels, in a few languages; sentences with a
"no" or "not" are believed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contracts.findings import Symptom
from contracts.traces import Span
from nodes.insights.detect import claims
from nodes.insights.detect.final import final_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.system_text import instructions
from nodes.insights.detect.unsupported_claim import KIND
from nodes.insights.detect.view import View

CODE = "empty_slot"
MAX_LABEL = 60
MAX_FIGURES = 8  # of one sentence
_HOLDS = re.compile(
    r"\b(?:lessons?|memor(?:y|ies)|history|past|previous|earlier|prior|reflections?|experiences?"
    r"|examples?|context|documents?|sources?|notes?|results?|records?|feedback|knowledge|facts"
    r"|findings|profile|preferences|retrieved|references|excerpts|passages"
    r"|lehren|verlauf|erinnerungen|fr\u00fchere?|dokumente|quellen|ergebnisse|le\u00e7ons"
    r"|historique|m\u00e9moires?|pr\u00e9c\u00e9dente?s?|lecciones|historial|memorias|anteriores)\b",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"\b(?:(?:my|our|your|his|her|their|the) (?:\d{4}|last|past|previous|earlier|prior|first|older)"
    r"|last (?:time|year|month|week|season|quarter)|in the past|previous(?:ly)?|earlier|before"
    r"|lessons?|learn(?:ed|t)|remember\w*|recall\w*|mistakes?|histor(?:y|ical\w*)"
    r"|back in|years? ago"
    r"|in \d{4}|since \d{4}|according to|based on|as (?:noted|stated|shown|discussed|mentioned)"
    r"|the (?:documents?|records?|notes?|sources?|results?|context|excerpts?) (?:say|show|state)\w*"
    r"|fr\u00fcher\w*|letzte[nsr]?|damals|gelernt|laut|pr\u00e9c\u00e9dent\w*|l'an dernier|selon"
    r"|appris|anterior\w*|aprend\w+|seg\u00fan|pasad[oa])\b",
    re.IGNORECASE,
)
_NONE = re.compile(
    r"\A(?:\(?none\)?|null|n/?a|\[\]|\{\}|\(?empty\)?|-|\u2013|undefined|nan"
    r"|\{\{?\s*[\w.]+\s*\}?\}|<%[^%]*%>|\$\{?\w+\}?)\.?\Z",
    re.IGNORECASE,
)
_RECALLS = re.compile(
    r"\b(?:i (?:still )?(?:remember|recall)|as (?:you|we) (?:told|said|discussed|agreed|mentioned)"
    r"|(?:our|your|my) (?:last|previous|earlier|past) (?:\w+ )?(?:chat|talk|session|conversation"
    r"|call|visit|order|report|mistake|review|analysis|trip|meeting)s?"
    r"|last time (?:i|we|you)|in (?:the|my|our|your) past)\b",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:no|not|none|never|nothing|without|empty|yet|any)\b|n't\b", re.IGNORECASE
)
_TAGS = re.compile(r"<([A-Za-z][\w-]{2,40})>\s*</\1>")
_HEADING = re.compile(r"\A(?:#{1,6}\s+\S|\*\*[^*]+\*\*:?\Z|[A-Z][\w '/()-]{1,58}:\Z|<[A-Za-z/])")
_SPECIFIC = re.compile(r"\b(?:19|20)\d{2}\b|\b\d+(?:[.,]\d+)?\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A part of the instructions that holds nothing."""

    line: int
    label: str


def empty_slot(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """At most one hit: the answer of a model call whose own instructions have an empty part."""
    final = final_of(view)
    if final is None or final.span.kind != "llm":
        return
    slots = list(empty_slots(_asked(final.span)))
    if not slots:
        return
    told = "\n".join(message.content for message in final.span.messages_in)
    for sentence in claims.sentences(final.text):
        recalls = _RECALLS.search(sentence) is not None
        if not (recalls or _TELLS.search(sentence)) or _DENIES.search(sentence):
            continue
        figures = [match[0] for match in _SPECIFIC.finditer(sentence)][:MAX_FIGURES]
        if recalls or any(figure not in told for figure in figures):
            yield _hit(final.span, slots[0], sentence, final.text)
            return


def _asked(call: Span) -> str:
    """The instructions; where there are none, the first message."""
    return instructions(call) or (call.messages_in[0].content if call.messages_in else "")


def _hit(call: Span, slot: Slot, sentence: str, answer: str) -> Hit:
    return Hit(
        kind=KIND,
        span=call,
        message=f'line {slot.line} of the instructions, "{slot.label}", holds nothing; the answer'
        f' tells of it: "{sentence[:120]}"',
        field="output",
        start=max(0, answer.find(sentence[:40])),
        code=CODE,
        template="tells of what an empty part of the instructions was to hold",
        facts={"slot": slot.label, "slot_line": slot.line, "claim": sentence},
    )


def empty_slots(text: str) -> Iterator[Slot]:
    """Parts for material of the past or of sources that nothing was filled into."""
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        for match in _TAGS.finditer(line):
            if _HOLDS.search(match[1].replace("_", " ").replace("-", " ")):
                yield Slot(line=number, label=match[0])
        label, _, rest = line.partition(":")
        if line.startswith("#"):
            label, rest = line.lstrip("#").strip(), ""
        elif ":" not in line and not _HEADING.match(line):
            continue
        label = label.strip("*# ")
        if not label or len(label) > MAX_LABEL or not _HOLDS.search(label):
            continue
        inline = rest.strip("* ")
        body = inline or next((follows for follows in lines[number:] if follows), "")
        if not body or _NONE.match(body) or (not inline and _HEADING.match(body)):
            yield Slot(line=number, label=label)
