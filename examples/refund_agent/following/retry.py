"""Read "call it again": which tool, on which status, how many times."""

import re
from dataclasses import dataclass

from examples.refund_agent.following.prose import NUMBER, Lexicon, Sentence, number_of

MOST = 10
"""However the instructions put it, no call is repeated more often."""
UNTIL_IT_WORKS = 5
"""What "until it succeeds" comes to."""

TIMEOUTS = frozenset({408, 504})
SERVER_ERRORS = frozenset(range(500, 600))


@dataclass(frozen=True, slots=True)
class Retry:
    """Repeat a failed call with the same arguments."""

    tool: str | None
    """None: any tool."""
    statuses: frozenset[int]
    """Empty: any failure."""
    times: int
    """Further calls after the first; 0 forbids what a wider rule allows."""
    counted: bool = True
    """Whether the text gave the number; if not, a following sentence may."""

    def covers(self, tool: str, statuses: frozenset[int]) -> bool:
        """Whether the rule speaks about this failure."""
        return self.tool in {None, tool} and (not self.statuses or bool(self.statuses & statuses))


_AGAIN = re.compile(
    r"""\b(?:
      re-?tr(?:y|ies|ied|ying)\b
    | re-?(?:send|issue|run|submit|invoke|attempt|do|call)(?:ing|s)?\b
    | (?:try|call|invoke|run|send|make|use|issue|submit|attempt|ask|repeat)(?:ing|s|ed)?\b
      [^,;.]{0,60}?\b(?:again|once\ more|anew|one\ more\ time|a\ second\ time|afresh)\b
    | (?:called|tried|sent|made|repeated|retried)\b[^,;.]{0,60}?\b(?:again|once\ more)\b
    | repeat(?:ing|ed|s)?\s+(?:the|that|this|it|your|its|such|a)\b
    | (?:be|is)\s+repeated\b
    | do(?:ing)?\s+(?:it|so|this|that)\s+(?:again|once\ more)\b
    | (?:make|send|issue|place|give)\b[^,;.]{0,30}?\bsame\ (?:call|request)\b
    | (?:make|allow|give|spend|use)\b[^,;.]{0,40}?\b(?:more|further|additional|extra|another)
      \s+(?:times?|attempts?|tries|try|calls?|retries|retry|chances?|goes|go)\b
    )""",
    re.I | re.X,
)
_NOT = re.compile(
    r"\b(?:do not|don't|does not|never|must not|should not|may not|cannot|without|rather than"
    r"|instead of|no need to|avoid|refrain from|stop|not to)\s+"
    r"(?:(?:ever|simply|just|blindly|automatically|immediately|then|even|be|to)\s+)*$",
    re.I,
)
_LOOKING_BACK = re.compile(
    r"\b(?:after|all|these|those|when|if|once|without)\s+"
    rf"(?:(?:the|all|these|those|your|{NUMBER}|failed|unsuccessful|further|you)\s+)*$",
    re.I,
)
_SOMEBODY = re.compile(r"\b(?:customers?|clients?|users?|callers?|persons?|them|they)\b", re.I)
_CLAUSE = re.compile(r"[,;:]|\b(?:before|until|because)\b", re.I)
_OTHER = re.compile(r"\b(?:any|every|all|no)?\s*(?:other|else)\b", re.I)

_STATUS = re.compile(
    r"(?<![\w-])(?P<code>[45]\d\d|[45]xx)s?(?![\w-]|\s*(?:euros?|eur|€|ms|seconds|characters|words)\b)",
    re.I,
)
_EXCEPT = re.compile(
    r"(?:,|\(|\bbut\b|\band\b)?\s*\b(?:not|never|except|unless|other than)\b[^,;.)]*", re.I
)
_WORDS = (
    (
        re.compile(r"\btim(?:e|es|ed|ing)[ -]?outs?\b|\bdoes not (?:answer|respond)\b", re.I),
        TIMEOUTS,
    ),
    (re.compile(r"\brate[ -]?limit|\btoo many requests\b", re.I), frozenset({429})),
    (re.compile(r"\bserver errors?\b|\bunavailable\b|\boverloaded\b", re.I), SERVER_ERRORS),
)

_UNIT = r"(?:times?|attempts?|retries|retry|tries|try|calls?|goes|repeats?|repetitions?)"
_TIMES = re.compile(
    rf"\b(?P<n>{NUMBER})\s+(?:(?:more|further|additional|extra|other|such|failed|unsuccessful)\s+)*"
    rf"{_UNIT}\b",
    re.I,
)
_ONLY_A_COUNT = re.compile(
    r"(?:do (?:this|so|it)|stop|give up|at most|up to|no more|never more|max\w*|(?:the )?limit"
    rf"|{NUMBER} (?:(?:more|further|such|of these|of those) )?{_UNIT})\b",
    re.I,
)
_LIMIT = re.compile(
    r"\b(?:max(?:imum)?(?: of)?|up to|at most|no more than|not more than|limit of):?\s+"
    rf"(?P<n>{NUMBER})\b"
    r"(?!\s*(?:seconds?|minutes?|ms|euros?|eur|words?|characters?)\b)",
    re.I,
)
_SINGLE = (
    (
        re.compile(
            r"\bonce\b(?!\s+(?:it|the|you|an?|all|this|that|every|`))|\b(?:one|another) more\b",
            re.I,
        ),
        1,
    ),
    (re.compile(r"\banother (?:try|attempt|call|chance|go)\b", re.I), 1),
    (re.compile(r"\btwice\b", re.I), 2),
    (re.compile(r"\bthrice\b", re.I), 3),
)
_ORDINAL = re.compile(
    r"\b(?P<n>second|third|fourth|fifth|sixth)\b(?=[^.;]*\b(?:time|attempt|try)\b)", re.I
)
_ORDINALS = ("second", "third", "fourth", "fifth", "sixth")
_FOREVER = re.compile(r"\buntil (?:it|the (?:call|tool|request)|that)\b", re.I)
_IN_ALL = re.compile(
    r"\b(?:in total|in all|altogether|overall|all told|including the first)\b", re.I
)
_ANY_TOOL = re.compile(r"\b(?:any|every|each|all|whichever|a|no)\s+(?:\w+\s+)?tools?\b", re.I)
_BOUND = re.compile(r"\b(?:more than|over)\b", re.I)


def read_retries(sentence: Sentence, lexicon: Lexicon) -> list[Retry]:
    """The retry rules of one sentence, one for each tool it speaks about."""
    text = sentence.text
    verb = next((m for m in _AGAIN.finditer(text) if _for_the_agent(text, m)), None)
    if verb is None:
        return []
    forbidden = _NOT.search(text[: verb.start()]) is not None
    if forbidden and _BOUND.search(text, verb.start()):
        forbidden = False  # "never more than twice" allows two
    if forbidden and _OTHER.search(text):
        return []  # "no other error is retried" takes nothing away from what was said
    times = 0 if forbidden else _times(text, verb)
    statuses = _statuses(text) or _nearest_statuses(sentence)
    counted = forbidden or times is not None
    return [
        Retry(tool, statuses, min(1 if times is None else times, MOST), counted)
        for tool in _tools(sentence, lexicon, verb)
    ]


def read_count(sentence: Sentence) -> int | None:
    """The number in a sentence that may complete a retry rule: "Stop after three attempts."."""
    if sentence.first and _ONLY_A_COUNT.match(sentence.text) is None:
        return None
    return _count(sentence.text, 0)


def _for_the_agent(text: str, verb: re.Match[str]) -> bool:
    """Not what somebody else does or did: "ask the customer to try again later"."""
    lead, rest = text[: verb.start()], text[verb.end() :]
    if _SOMEBODY.search(verb[0]) or _SOMEBODY.search(_CLAUSE.split(lead)[-1]):
        return False
    if verb[0].lower().startswith(("retr", "re-tr")) and _LOOKING_BACK.search(lead):
        return False  # "after three retries", "if retrying fails"
    return re.match(r"\s+(?:later|tomorrow|another day|by (?!you))\b", rest, re.I) is None


def _times(text: str, verb: re.Match[str]) -> int | None:
    found = _count(text, verb.start())
    return _count(text, 0) if found is None else found


def _count(text: str, start: int) -> int | None:
    part = text[start:]
    match = _TIMES.search(part) or _LIMIT.search(part)
    if match is not None:
        n = number_of(match["n"])
        return max(n - 1, 0) if _IN_ALL.search(part) else n
    for pattern, n in _SINGLE:
        if pattern.search(part):
            return n
    ordinals = [_ORDINALS.index(m["n"].lower()) + 1 for m in _ORDINAL.finditer(part)]
    if ordinals:
        return max(ordinals)
    return UNTIL_IT_WORKS if _FOREVER.search(part) else None


def _statuses(text: str) -> frozenset[int]:
    text = _EXCEPT.sub(" ", text) if _STATUS.search(_EXCEPT.sub(" ", text)) else text
    found: set[int] = set()
    for match in _STATUS.finditer(text):
        code = match["code"].lower()
        hundred = int(code[0]) * 100
        found |= set(range(hundred, hundred + 100)) if code.endswith("xx") else {int(code)}
    for pattern, statuses in _WORDS:
        if pattern.search(text):
            found |= statuses
    return frozenset(found)


def _nearest_statuses(sentence: Sentence) -> frozenset[int]:
    if re.search(r"\b(?:any|every|all|whatever) (?:errors?|failures?|status)", sentence.text, re.I):
        return frozenset()
    return next(
        (found for text in reversed(sentence.context) if (found := _statuses(text))), frozenset()
    )


def _tools(sentence: Sentence, lexicon: Lexicon, verb: re.Match[str]) -> list[str | None]:
    """What is called again: the verb's object, else what failed, else what the text is about."""
    text = sentence.text
    named = lexicon.named(text)
    into = [m for m in named if verb.start() <= m.start <= verb.end() + 12]
    earlier = [m for m in named if m.start < verb.start()]
    later = [
        m
        for m in named
        if m.start > verb.end()
        and re.search(
            r"\b(?:if|when|whenever|on|for|from|of|by|to|in case)\b", text[verb.end() : m.start]
        )
        and not re.search(r"\b(?:before|instead|call|then)\b", text[verb.end() : m.start])
    ]
    chosen: list[str | None] = [m.tool for m in (into[:1] or earlier or later)]
    if chosen:
        return list(dict.fromkeys(chosen))
    if _ANY_TOOL.search(text):
        return [None]
    for near in reversed(sentence.context):
        around = list(dict.fromkeys(m.tool for m in lexicon.named(near)))
        if around:
            return [*around]
    return [None]
