"""Read rules about which tool comes before, in place of, or not at all."""

import itertools
import re
from dataclasses import dataclass

from examples.refund_agent.following.prose import Lexicon, Mention, Sentence


@dataclass(frozen=True, slots=True)
class Before:
    """`first` has to be tried in this run before `then` is called."""

    first: str
    then: str


@dataclass(frozen=True, slots=True)
class Fallback:
    """Where a call failed for good, call `instead`."""

    tool: str | None
    """None: any tool."""
    instead: str


@dataclass(frozen=True, slots=True)
class Forbid:
    """Never call the tool."""

    tool: str | None
    """None: no tool at all."""


_FAILED = re.compile(
    r"\b(?:fail\w*|errors?|[45]\d\d|time[sd]? out|unsuccessful\w*|in vain|no success|no luck"
    r"|last resort|exhausted|used up|gave? up|give up|does(?: not|n't) (?:work|succeed|answer|help)"
    r"|without success|still (?:refuse[sd]?|down|unavailable)|otherwise|fall(?:s|ing)? back"
    r"|has not worked|did(?: not|n't) (?:work|help|succeed))\b",
    re.I,
)
_DO = (
    r"\b(?:call(?:ing)?|use|using|invoke|run|try|go (?:on )?(?:to|with)|fall(?:ing)? back (?:to|on)"
    r"|switch(?:ing)? to|turn to|hand (?:it |this |the \w+ )?(?:over )?to|with|via|through|by)\s+"
    r"(?:the |a |an )?(?:tool )?[`'\"*]*$"
)
_HANDING_OVER = re.compile(_DO, re.I)
_SUBSTITUTE = re.compile(
    r"\b(?:fallback|substitute|replacement|alternative|stand-in)\s+(?:for|of|to)\b", re.I
)
_PRONOUN = r"\b{verb} (?:it|this|that|them)\b"

_FIRST_THEN = re.compile(
    r"\b(?:before|prior to|ahead of|precedes?|and only then|(?:and )?then)\b", re.I
)
_THEN_FIRST = re.compile(
    r"\b(?:after|once|until|unless|without|requires?|needs?|depends on|preceded by|follows"
    r"|only when|only if)\b",
    re.I,
)
_AT_FIRST = re.compile(
    r"\s*[`'\"*]*\s*(?:tool\s+)?(?:first|beforehand|in advance|up front)\b", re.I
)

_NO_TOOL = re.compile(
    r"\b(?:never|do not|don't|must not|may not|should not|stop|avoid|refrain from|without)\s+"
    r"(?:ever\s+)?(?:call|calling|us(?:e|ing)|invok(?:e|ing)|run|running|touch|touching)\s+"
    r"(?:(?:any|all|the|your|these|of|external)\s+)*[`'\"*]*(?P<what>tools?|functions?|$)",
    re.I,
)
_DEPENDS = re.compile(
    r"\b(?:if|when|unless|until|before|without|after|again|more than|except|twice|for|instead"
    r"|with|while|during|once)\b",
    re.I,
)


def read_fallbacks(sentence: Sentence, lexicon: Lexicon) -> list[Fallback]:
    """Rules such as "if it still fails, queue it with `queue_refund` instead"."""
    text = sentence.text
    named = lexicon.named(text)
    for left, right in itertools.pairwise(named):
        if _SUBSTITUTE.search(text[left.end : right.start]):
            return [Fallback(right.tool, left.tool)]
    failed = _FAILED.search(text) or re.search(r"\binstead\b|\brather than giv", text, re.I)
    if failed is None:
        return []
    mentions = lexicon.mentioned(text) + _by_pronoun(text, lexicon)
    to = next((m for m in reversed(mentions) if _is_handed_over(text, m)), None)
    if to is None:
        return []
    from_ = [m.tool for m in mentions if m.start < to.start and m.tool != to.tool]
    from_ = from_ or [m.tool for m in mentions if m.tool != to.tool]
    from_ = from_ or _around(sentence, lexicon, to.tool)
    tools: list[str | None] = [*dict.fromkeys(from_)] if from_ else [None]
    return [Fallback(tool, to.tool) for tool in tools]


def _is_handed_over(text: str, mention: Mention) -> bool:
    """Whether the mention is what to do, and neither what failed nor what to do again."""
    before = text[: mention.start]
    if re.match(r"[`'\"*]*[^,;.]{0,20}\bagain\b", text[mention.end :], re.I):
        return False
    if re.search(
        r"\b(?:instead of|rather than|if|when|not|never|before|until|to be)\s+"
        r"(?:\w+ing\s+|\w+\s+)?[`'\"*]*$",
        before,
        re.I,
    ):
        return False
    return mention.act or _HANDING_OVER.search(before) is not None


def _by_pronoun(text: str, lexicon: Lexicon) -> list[Mention]:
    """Tools named by their verb alone ("queue it"), where no other tool has that verb."""
    found = []
    for tool in lexicon.tools:
        verb = tool.split("_")[0]
        if "_" not in tool or sum(t.startswith(f"{verb}_") for t in lexicon.tools) > 1:
            continue
        match = re.search(_PRONOUN.format(verb=re.escape(verb)), text, re.I)
        if match:
            found.append(Mention(tool, match.start(), match.end(), act=True))
    return found


def _around(sentence: Sentence, lexicon: Lexicon, but: str) -> list[str]:
    for near in reversed(sentence.context):
        found = [m.tool for m in lexicon.named(near) if m.tool != but]
        if found:
            return found
    return []


def read_befores(sentence: Sentence, lexicon: Lexicon) -> list[Before]:
    """Rules such as "call A before B", "B only after A", "for B, call A first", "A, then B"."""
    text = sentence.text
    if _FAILED.search(text) and not re.search(r"\b(?:never|not|always|must|before)\b", text, re.I):
        return []
    mentions: list[Mention] = []
    for mention in lexicon.mentioned(text):
        if all(mention.tool != other.tool for other in mentions):
            mentions.append(mention)
    if len(mentions) == 1:
        return _with_context(sentence, lexicon, mentions[0])
    pairs = []
    for left, right in itertools.pairwise(mentions):
        order = _order(text, left, right)
        if order is not None and not _FAILED.search(text[left.end : right.start]):
            pairs.append(Before(*order))
    return pairs


def _order(text: str, left: Mention, right: Mention) -> tuple[str, str] | None:
    """(first, then) of two neighbouring mentions, or None where the text does not order them."""
    lead, between = text[: left.start], text[left.end : right.start]
    given, turned = (left.tool, right.tool), (right.tool, left.tool)
    if _AT_FIRST.match(text[right.end :]):
        return turned
    if _AT_FIRST.match(between):
        return given
    for pattern, order in ((_THEN_FIRST, turned), (_FIRST_THEN, given)):
        if pattern.search(between):
            return order
    clause = re.split(r"[,;]", lead)[-1]
    if _FIRST_THEN.search(clause):
        return turned  # "Before B, call A."
    return given if _THEN_FIRST.search(clause) else None  # "Once A has answered, call B."


def _with_context(sentence: Sentence, lexicon: Lexicon, only: Mention) -> list[Before]:
    """One tool and "first" or "before it", where the text around is about the other tool."""
    text = sentence.text
    cue = _AT_FIRST.match(text[only.end :]) or re.search(
        r"\b(?:before|prior to) (?:it|this|that|the call)\b|^\s*(?:first|always first),? ",
        text,
        re.I,
    )
    around = _around(sentence, lexicon, only.tool) if cue else []
    return [Before(only.tool, around[-1])] if around else []


def read_forbidden(sentence: Sentence, lexicon: Lexicon) -> list[Forbid]:
    """Rules such as "never call tools" or "do not use `payment_api`", without any condition."""
    text = sentence.text
    general = next((m for m in _NO_TOOL.finditer(text) if m["what"]), None)
    if general is not None:
        return [] if _DEPENDS.search(text[general.end() :]) else [Forbid(None)]
    found = []
    for mention in lexicon.named(text):
        ban = _NO_TOOL.search(text[: mention.start])
        if ban is None:
            continue
        if not _DEPENDS.search(text[mention.end :]) and not _DEPENDS.search(text[: ban.start()]):
            found.append(Forbid(mention.tool))
    return found
