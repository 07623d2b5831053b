"""A tool that failed in any other way."""

from nodes.insights.detect.faults import Fault

KIND = "tool_error"


def claims(fault: Fault) -> bool:
    """Whether the fault is of this kind."""
    return fault.on_tool
