"""A run that did not come to its end: never closed, out of steps, or cut off by a limit."""

from collections.abc import Iterator

from nodes.insights.detect import words
from nodes.insights.detect.faults import Fault, make_fault
from nodes.insights.detect.final import final_of
from nodes.insights.detect.view import View

KIND = "unfinished"
MAX_NOTICE = 160
"""Characters of a framework's own last words in place of an answer, such as LangChain's "Agent
stopped due to max iterations." and LangGraph's "Sorry, need more steps to process this request."
(documented)."""
CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens"})


def is_step_limit(fault: Fault) -> bool:
    """Whether the failure is a limit on steps that was used up."""
    named = (fault.type or "").lower()
    limited = "recursion" in named or "maxsteps" in named or "maxturns" in named
    return not fault.on_tool and (limited or words.says_step_limit(fault.message[:300]))


def _gives_up_for_steps(text: str) -> bool:
    words_said = text.strip()[: MAX_NOTICE + 1]
    if len(words_said) > MAX_NOTICE:
        return False
    low = words_said.lower()
    stopped = low.startswith(("agent stopped", "run stopped", "stopped", "sorry, need more steps"))
    return stopped and ("more steps" in low or words.says_step_limit(words_said))


def stops(view: View) -> Iterator[tuple[Fault, str]]:
    """(fault, code) of a root that was never closed, and of a last model call that was cut off."""
    root = view.trace.root
    if not root.virtual and root.ended_at is None:
        message = "the run was never closed: no end was recorded"
        yield make_fault(view, root, message, "ended_at"), "unclosed"
    final = final_of(view)
    if final is not None and _gives_up_for_steps(final.text):
        yield make_fault(view, final.span, final.text, "output"), "step_limit"
    model_calls = [span for span in view.trace.spans if span.kind == "llm"]
    last = model_calls[-1] if model_calls else None
    if last is not None and last.finish_reason in CUT_OFF:
        message = f"the last model call was cut off: {last.finish_reason}"
        yield make_fault(view, last, message, "finish_reason"), "length"
