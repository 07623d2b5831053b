"""A text as the words that say what it is about. Pure."""

import re
from collections.abc import Iterator

MAX_CHARS = 8_000
"""Read of one text; what a failure is about is said long before that."""

_URL = re.compile(r"[a-z][a-z0-9+.-]{1,10}://\S+", re.IGNORECASE)
_ID = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,12})*\b", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W\d_]+|(?<![\w.])[1-5]\d\d(?![\w.])")
"""Letters in a row; of numbers only what may be a status, such as 504."""


def words_of(text: str) -> Iterator[str]:
    """Lower-case words in order; names in camel or snake case are split, addresses and ids dropped.

    Numbers are dropped as well, except three digits that may be a status.
    """
    plain = _ID.sub(" ", _URL.sub(" ", text[:MAX_CHARS]))
    for word in _WORD.findall(_HUMP.sub(" ", plain)):
        yield word.lower()
