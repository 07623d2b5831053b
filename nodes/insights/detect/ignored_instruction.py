"""What the instructions ask for in every answer is missing: fixed words, or the form of JSON.

Meaning: the instructions say that every answer ends, begins or comes with certain words, which they
give outright, and the final answer lacks them; or that answers are JSON and nothing else, and the
answer holds no object or list at all. The rule is there already: saying it again will not
help. Evidence: the rule and its line. Known limits: only rules with "every", "each", "always" or
"all" and the literal words in quotes or behind a colon; rules with a condition are not judged, nor
are answers that say what could not be done. JSON that is there and broken is `malformed_output`.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from contracts.findings import Symptom
from nodes.insights.detect import claims
from nodes.insights.detect.final import final_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.system_text import Asked, instructions
from nodes.insights.detect.view import View

KIND = "ignored_instruction"
_RULE = re.compile(
    r"\b(?:end|finish|close|conclude|begin|start|open|sign)\b[^:\"'`\u201c\n]{0,80}\b(?:with|by)\b"
    r"[^:\"'`\u201c\n]{0,60}(?:"
    r"(?::\s*)?[\"'`\u201c](?P<quoted>[^\"`\u201d\n]{3,80}?)[\"'`\u201d](?!\w)"
    r"|:\s+(?P<bare>[^\"'`\n]{3,80})\Z)",
    re.IGNORECASE,
)
_EVERY = re.compile(r"\b(?:every|each|always|all)\b", re.IGNORECASE)
_CONDITION = re.compile(
    r"\b(?:if|when|unless|where|after|once|in case|for (?:refunds|errors))\b|[<{\[]", re.IGNORECASE
)
_JSON = re.compile(
    r"\b(?:answer|respond|reply|return|output|write)\w*\b[^.\n]{0,60}\b(?:only|nothing but|always"
    r"|never anything (?:but|except))\b[^.\n]{0,40}\bJSON\b"
    r"|\b(?:always|only|every (?:answer|reply|response))\b[^.\n]{0,20}"
    r"\b(?:answer|respond|reply|return|output)?\w*\b[^.\n]{0,20}\b(?:in|with|as|is|be)\b"
    r"[^.\n]{0,24}\bJSON\b",
    re.IGNORECASE,
)
_WHERE = re.compile(
    r"\b(?:if|when|unless|where|after|once|tools?|arguments?|action|calls?)\b", re.IGNORECASE
)
_ANSWER = re.compile(
    r"\b(?:answers?|repl(?:y|ies)|responses?|messages?|mails?|e-?mails?|letters?|reports?|texts?"
    r"|outputs?|posts?)\b",
    re.IGNORECASE,
)


def ignored_instruction(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """At most one hit: the first fixed text that the final answer lacks."""
    if any(symptom.counts for symptom in symptoms):
        return
    final = final_of(view)
    if final is None or final.span.kind != "llm" or claims.admits(final.text):
        return
    rules = instructions(final.span)
    form = json_rule(rules)
    if form is not None and not {"{", "["} & set(final.text):
        yield Hit(
            kind=KIND,
            span=final.span,
            message=f"line {form.line} of the instructions asks for JSON and the answer holds none:"
            f' "{form.text[:140]}"',
            field="output",
            code="json",
            template="every answer must be JSON and this one holds none",
            facts={"rule": form.text, "rule_line": form.line},
        )
        return
    said = _plain(final.text)
    for asked, literal in required(rules):
        if _plain(literal) not in said:
            yield Hit(
                kind=KIND,
                span=final.span,
                message=f"line {asked.line} of the instructions asks for it and the answer lacks"
                f' it: "{asked.text[:140]}"',
                field="output",
                template="a fixed text that every answer must hold is missing",
                facts={"rule": asked.text, "rule_line": asked.line, "literal": literal},
            )
            return


@lru_cache(maxsize=256)
def json_rule(text: str) -> Asked | None:
    """The line that asks for JSON in every answer, without a condition."""
    if "json" not in text.lower():
        return None
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip().lstrip("-*# ")
        match = _JSON.search(plain)
        if match is not None and not _WHERE.search(plain[: match.end()]):
            return Asked(line=number, text=plain)
    return None


@lru_cache(maxsize=256)
def required(text: str) -> tuple[tuple[Asked, str], ...]:
    """(rule, literal) of every fixed text that the instructions ask for in every answer."""
    if " with" not in text and " by" not in text:
        return ()
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip().lstrip("-*# ")
        if not _EVERY.search(plain) or _CONDITION.search(plain) or not _ANSWER.search(plain):
            continue
        match = _RULE.search(plain)
        if match is not None:  # "end every mail with a greeting" names no words
            literal = (match["quoted"] or match["bare"]).strip()
            found.append((Asked(line=number, text=plain), literal))
    return tuple(found)


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("\u2019", "'").split()).rstrip(".!")
