"""Agents that write code: the step that ran it is red, the model call that wrote it failed."""

import re
from dataclasses import replace

from nodes.insights.detect.faults import Fault
from nodes.insights.detect.view import View

_CODE = re.compile(
    r"\A(?:[\w.]+: )?(?:Error in (?:code )?pars|Code (?:parsing|execution) failed|SyntaxError\b|"
    r"Error in generating model output)",
    re.IGNORECASE,
)


def code_culprit(view: View, fault: Fault) -> Fault:
    """The fault at the model call that wrote the failing code, where that is how it came about."""
    if fault.span.kind not in ("chain", "agent") or not _CODE.match(fault.message[:200]):
        return fault
    writers = [span for span in view.children.get(fault.span.id, ()) if span.kind == "llm"]
    if len(writers) != 1 or writers[0].id in view.failed:
        return fault
    view.failed.add(writers[0].id)
    shown = fault.span.id
    return replace(fault, span=writers[0], field=f"error of {shown}", shown_at=shown)
