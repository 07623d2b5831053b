"""A tool or service did not accept the login: a status that says so, or its words.

Meaning: a token, key or session is missing, has expired or was refused, so that only a person who
renews it (or gives the right) ends it. Evidence: the message, however deep the words stand in it.
Known limits: a status 403 that a firewall gives for other reasons is taken for this; words are
looked for in a few languages only.
"""

from nodes.insights.detect import words
from nodes.insights.detect.faults import Fault
from nodes.insights.detect.login_words import says_auth

KIND = "auth"
STATUSES = frozenset({401, 403, 407})
_OTHER = frozenset({"TypeError", "KeyError", "ValidationError", "JSONDecodeError"})


def claims(fault: Fault) -> bool:
    """Whether the fault is of this kind."""
    if fault.status is not None:
        return fault.status in STATUSES
    named = (fault.type or "").lower()
    if named in ("autherror", "unauthorized", "unauthorizederror") or "authentication" in named:
        return True
    plain = fault.type not in _OTHER and fault.exit_code is None
    return plain and says_auth(fault.message) and not words.says_malformed(fault.message)
