"""Whether a sentence forbids what it names, as in `never skip the approval`. Pure, by words."""

import re

_REACH = 90
"""Characters before a phrase in which what forbids it may stand."""
_FORBIDS = re.compile(
    r"\b(?:never|do\s+not|don't|must\s+not|mustn't|may\s+not|should\s+not|shouldn't|cannot|can't"
    r"|not|nobody|no\s+one|nothing|none|neither|refuse|avoid|forbid\w*|prohibit\w*|reject\w*|stop"
    r"|instead\s+of|rather\s+than"
    r"|nie|niemals|nicht|kein\w*|verboten|darf\s+nicht|ne|n'\w+|jamais|aucun\w*|interdit\w*"
    r"|nunca|jam[aá]s|ning[uú]n\w*|prohibid\w*|no\s+(?!,)\w+)\b"
    r"(?P<between>[^.;:!?]{0,60})$",
    re.IGNORECASE,
)
_NO_BAN = re.compile(
    r"\b(?:never\s+mind|do\s+not\s+(?:worry|hesitate|be\s+afraid)|don't\s+(?:worry|hesitate"
    r"|be\s+afraid)|no\s+(?:worries|problem|matter|doubt|longer)|not\s+only|cannot\s+but"
    r"|why\s+not|if\s+not|not\s+sure|nicht\s+nur|kein\s+problem|keine\s+sorge|no\s+dudes"
    r"|n'h[eé]site\w*\s+pas)\b",
    re.IGNORECASE,
)
_TURNS = re.compile(
    r",?\s*\b(?:but|instead|just|then|simply|rather|sondern|aber|mais|plut[oô]t|sino|pero)\b"
    r"|[.;:!?]\s", re.IGNORECASE
)  # fmt: skip
_LOOSE = re.compile(r"\b(?:and|und|et|y)\b", re.IGNORECASE)
_AFTER = re.compile(
    r"^[^.;!?]{0,60}?\b(?:(?:is|are|be|was)\s+(?:strictly\s+)?(?:forbidden|prohibited|refused"
    r"|not\s+(?:allowed|permitted|possible))|(?:may\s+)?violat\w+|nicht|niemals|verboten|(?:is|are)\s+never"
    r"|est\s+interdit\w*|sont\s+interdit\w*|est[aá]\s+prohibid\w*)\b",
    re.IGNORECASE,
)


def unforbidden(pattern: re.Pattern[str], text: str) -> tuple[str | None, bool]:
    """The first match that its own clause does not forbid, and whether that is sure.

    Not sure where an `and` stands between the ban and the phrase: `never guess and skip the check`
    can be read both ways. A sure one goes before one that is not. None: nothing matches.
    """
    unsure: str | None = None
    for match in pattern.finditer(text):
        standing = _standing(text, match)
        if standing == "open":
            return match[0], True
        if standing == "unsure" and unsure is None:
            unsure = match[0]
    return unsure, False


def _standing(text: str, match: re.Match[str]) -> str:
    before = text[max(0, match.start() - _REACH) : match.start()]
    before = _NO_BAN.sub(" ", before)
    turn = list(_TURNS.finditer(before))
    clause = before[turn[-1].end() :] if turn else before
    ban = _FORBIDS.search(clause)
    if ban:
        return "unsure" if _LOOSE.search(ban["between"]) else "forbidden"
    after = text[match.end() : match.end() + _REACH]
    return "forbidden" if _AFTER.search(after) else "open"
