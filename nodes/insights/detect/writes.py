"""Tools that change something, told by the verb of their name or by the policy's own words.

A tool's name has a verb in nearly every catalogue (`cancel_order`, `createTicket`,
`orders.update`). A verb of reading before it makes the tool a reader (`get_update_history`), and so
does a word of what is only told (`order_status`, `return_policy`). Verbs that are nouns as often
(`order`, `book`) count at the beginning alone. A name without a known verb is neither.
"""

import re
from functools import lru_cache

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_STEM = re.compile(r"(?:ations?|ments?|ings?|ied|ies|ed|es|s|e|y|al)\Z")
_DOUBLED = re.compile(r"([bdglmnprt])\1\Z")
_CHANGING = (
    "add", "amend", "apply", "approve", "archive", "assign", "book", "buy", "cancel", "change",
    "charge", "close", "create", "delete", "deploy", "disable", "edit", "enable", "exchange",
    "grant", "insert", "issue", "merge", "modify", "order", "overwrite", "pay", "place", "post",
    "publish", "purchase", "refund", "reject", "remove", "rename", "replace", "reschedule",
    "reset", "return", "revoke", "schedule", "send", "set", "submit", "terminate", "transfer",
    "update", "upgrade", "upload", "withdraw", "write",
)  # fmt: skip
_READING = (
    "browse", "calculate", "check", "compute", "count", "describe", "fetch", "find", "get", "list",
    "load", "look", "lookup", "open", "query", "read", "retrieve", "search", "see", "show",
    "think", "transfer_to", "validate", "verify", "view", "visit",
)  # fmt: skip
_NOUNS = (
    "book", "charge", "exchange", "issue", "order", "place", "post", "refund", "return", "schedule",
    "set", "transfer", "upload", "change", "update", "upgrade",
)  # fmt: skip
_TOLD = (
    "detail", "details", "history", "info", "information", "log", "logs", "number", "option",
    "options", "policy", "price", "prices", "report", "rules", "status", "summary",
)  # fmt: skip
MAX_NAME = 120


def stem(word: str) -> str:
    """The word without its ending, so that `modifying`, `modify` and `modified` are one."""
    low = word.lower()
    cut = _STEM.sub("", low) if len(low) > 4 else low.removesuffix("s")
    cut = _DOUBLED.sub(r"\1", cut)
    return cut.removesuffix("y").removesuffix("i").removesuffix("e")


CHANGING = frozenset(map(stem, _CHANGING))
READING = frozenset(map(stem, _READING))
NOUNS = frozenset(map(stem, _NOUNS))
TOLD = frozenset(map(stem, _TOLD))


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Stems of the words of a tool's name, in order."""
    return tuple(stem(part) for part in _PARTS.findall(name[:MAX_NAME]))


def changing_verb(name: str, also: frozenset[str] = frozenset()) -> str | None:
    """The stem of the verb by which a tool changes something; None: it does not, or who knows.

    Args:
        name: the tool's.
        also: stems of further verbs, such as those of a stated policy.
    """
    words = words_of(name)
    handing_over = "transfer" in words and "to" in words
    noun = None
    for place, word in enumerate(words):
        if word in READING:
            return None
        if (word not in CHANGING and word not in also) or (handing_over and word == "transfer"):
            continue
        if word not in NOUNS:
            return word
        noun = word if place == 0 else noun
    if len(words) == 2 and words[1] in NOUNS - {"order"}:
        noun = words[1]  # `orders.update`, `address_change`
    return None if TOLD.intersection(words) else noun
