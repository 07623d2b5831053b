"""Pairs of messages that grouping never saw: look-alikes with two causes, and one cause reworded.

Printed by `python -m benchmarks.planted`. The planted corpus has one pair of each sort; these tell
how far that carries. Nothing may be fitted on them: whoever changes grouping adds new ones here.
"""

from collections.abc import Sequence

from nodes.insights.signature import split_templates, template_of

Pair = tuple[str, str]

LOOK_ALIKES: tuple[Pair, ...] = (
    ("card 12 declined: the limit of the day is reached",
     "card 12 declined: the limit of the month is reached"),
    ("cannot open invoice 7: its owner left the team",
     "cannot open invoice 7: its owner blocked the team"),
    ("shipment 9 held: weight above the maximum of the carrier",
     "shipment 9 held: value above the maximum of the carrier"),
    ("user 5 may not edit page 3", "user 5 may not delete page 3"),
    ("file 3 rejected: signature too old", "file 3 rejected: signature too short"),
    ("connection to primary database lost", "connection to replica database lost"),
    ("the account 4 is expired", "the account 4 is locked"),
    ("payment 8 failed: card is not active", "payment 8 failed: card is active in another shop"),
)  # fmt: skip
REWORDED: tuple[Pair, ...] = (
    ("order id must start with a capital letter",
     "order id has to begin with an upper case letter"),
    ("amount must not be negative, got -3", "-3 is negative: amounts cannot be below zero"),
    ("unknown currency 'XX'", "currency 'XX' is not known"),
    ("missing field customer", "field customer is required"),
    ("date must be given as YYYY-MM-DD", "'3 May' is not a date of the form YYYY-MM-DD"),
    ("could not reach the stock service within 30 s",
     "the stock service was not reached after 30 s"),
)  # fmt: skip
LATER_LOOK_ALIKES: tuple[Pair, ...] = (
    ("index 3 rebuilt too early", "index 3 rebuilt too late"),
    ("parcel 4 returned by the sender", "parcel 4 returned by the customs"),
    ("token of tenant 2 was issued by the wrong server",
     "token of tenant 2 was issued for the wrong audience"),
    ("upload 5 stopped: the virus scan failed", "upload 5 stopped: the size check failed"),
    ("cannot book seat 12: the flight has left", "cannot book seat 12: the flight has no seats"),
    ("lookup of 9 failed over IPv4", "lookup of 9 failed over IPv6"),
)  # fmt: skip
"""Written after the rule of one recurring other word, which the pairs above asked for."""
VALUES: tuple[Pair, ...] = (
    ("customer Miller has no address", "customer Jones has no address"),
    ("table orders is being copied", "table invoices is being copied"),
    ("the desk in Rome has no forms", "the desk in Oslo has no forms"),
)  # fmt: skip
"""One cause with two values, each as frequent as a cause of its own: what that rule costs."""
UNITS = (10, 7)
"""Failing units of each message."""


def joined(pair: Pair) -> bool:
    """Whether both messages of one step are one finding."""
    counts = {template_of(text): units for text, units in zip(pair, UNITS, strict=True)}
    return len(set(split_templates(counts).values())) == 1


def lines(
    look_alikes: Sequence[Pair] = LOOK_ALIKES, reworded: Sequence[Pair] = REWORDED
) -> list[str]:
    """What became of the pairs, a line each sort, and those that went wrong."""
    merged = [pair for pair in look_alikes if joined(pair)]
    later = [pair for pair in LATER_LOOK_ALIKES if joined(pair)]
    cut = [pair for pair in VALUES if not joined(pair)]
    split = [pair for pair in reworded if not joined(pair)]
    out = [
        f"look-alikes kept apart: {len(look_alikes) - len(merged)} of {len(look_alikes)}",
        f"reworded causes joined: {len(reworded) - len(split)} of {len(reworded)}",
        f"later look-alikes kept apart: {len(LATER_LOOK_ALIKES) - len(later)}"
        f" of {len(LATER_LOOK_ALIKES)}",
        f"two frequent values of one message joined: {len(VALUES) - len(cut)} of {len(VALUES)}",
    ]
    return out + [f"    {a!r} / {b!r}" for a, b in (*merged, *split, *later, *cut)]
