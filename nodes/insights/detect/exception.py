"""A step that is no tool and failed, such as code, a graph node or a model call."""

from nodes.insights.detect.faults import Fault

KIND = "exception"


def claims(fault: Fault) -> bool:
    """Whether the fault is of this kind: what no more specific detector claims."""
    return not fault.on_tool
