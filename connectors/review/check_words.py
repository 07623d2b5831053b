"""How a check of the policy stands, in one word for every skin. Pure."""

from typing import Final

from contracts.proposals import Check

WARNING: Final = "warning: "
"""Begins the detail of a check that holds and still wants a reviewer's eye."""


def check_word(check: Check) -> str:
    """`ok`, `look` where it holds with a warning, `NOT OK`."""
    if not check.ok:
        return "NOT OK"
    return "look" if check.detail.startswith(WARNING) else "ok"
