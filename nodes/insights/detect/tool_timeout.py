"""No answer in time."""

from nodes.insights.detect import words
from nodes.insights.detect.faults import Fault

KIND = "tool_timeout"
STATUSES = frozenset({408, 504, 524})


def claims(fault: Fault) -> bool:
    """Whether the fault is of this kind."""
    if fault.status is not None:
        return fault.status in STATUSES
    return "timeout" in (fault.type or "").lower() or words.says_timeout(fault.message)
