"""Refused for too many requests."""

from nodes.insights.detect import words
from nodes.insights.detect.faults import Fault

KIND = "rate_limit"


def claims(fault: Fault) -> bool:
    """Whether the fault is of this kind."""
    if fault.status is not None:
        shared = fault.status == 403 or fault.status >= 500  # some hosts refuse haste by these
        return fault.status == 429 or (shared and words.says_rate_limit(fault.message))
    named = (fault.type or "").lower()
    return (
        "ratelimit" in named or "toomanyrequests" in named or words.says_rate_limit(fault.message)
    )
