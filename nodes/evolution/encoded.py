"""Text that is written so that a person cannot read it and a program can. Pure."""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence

from nodes.evolution.change import TextChange
from nodes.evolution.judged import Judged, judged

LONGEST = 40
"""Characters of code in a row; keys, hashes of commits and ids of traces are no longer."""
_RUN = re.compile(rf"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{{{LONGEST + 1},}}={{0,2}}")
_SHORT = re.compile(
    rf"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{{24,{LONGEST}}}={{0,2}}(?![A-Za-z0-9+/_=-])"
)
"""Shorter runs count where they say words; by chance none of this length does."""
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]+")
_SPACED = re.compile(r"(?<![\w])(?:[0-9a-fA-F]{2}[ :,-]{1,2}){15,}[0-9a-fA-F]{2}\b")
_ESCAPES = re.compile(
    r"(?:\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|%[0-9a-fA-F]{2}|&#x?[0-9a-fA-F]{1,6};){8,}"
)
_CHANGES = re.compile(r"(?<=[a-z])[A-Z]|(?<=[A-Za-z])[0-9]|(?<=[0-9])[A-Za-z]")
RANDOM = 0.28
"""Changes of letter case and digit a character: camel case has about .17, base64 of text .3 up."""


def encoded_text(changes: Sequence[TextChange], known: str, *, person: bool) -> Judged:
    """Long runs of code that an edit adds; a person's are warned of."""
    problems = [
        f"{change.path}: {what} of {len(run)} characters ({run[:12]!r} …); write what it says"
        for change in changes
        for what, run in _runs(change.added)
        if run not in known
    ]
    return judged(() if person else problems, problems if person else ())


def _runs(text: str) -> Iterator[tuple[str, str]]:
    for found in _SHORT.finditer(text):
        if " " in (decoded_code(found[0]) or ""):
            yield "encoded text", found[0]
    for found in _RUN.finditer(text):
        if _HEX.fullmatch(found[0]) and any(c.isdigit() for c in found[0]):
            yield "hexadecimal code", found[0]
        elif _random(found[0]) or decoded_code(found[0]) is not None:
            yield "encoded text", found[0]
    for pattern in (_SPACED, _ESCAPES):
        for found in pattern.finditer(text):
            yield "escaped text", found[0]


def _random(run: str) -> bool:
    return sum(1 for _ in _CHANGES.finditer(run)) >= RANDOM * len(run)


def decoded_code(run: str) -> str | None:
    """What a run of base64 or base32 says, where that is text; None: it says nothing."""
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    for decode, size in ((base64.b64decode, 4), (base64.b32decode, 8)):
        try:
            data = decode(bare + "=" * (-len(bare) % size))
        except (binascii.Error, ValueError):
            continue
        if data and sum(32 <= byte < 127 or byte in b"\n\t" for byte in data) >= 0.95 * len(data):
            return data.decode("ascii", "replace")
    return None
