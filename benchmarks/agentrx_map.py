"""The one table from our kinds to AgentRx's failure categories.

Where several categories fit, the one that AgentRx's description puts first is taken. Kinds that say
nothing of the agent's or its tools' conduct (an evaluator's score) have no category.
"""

from collections.abc import Mapping
from typing import Final

ADHERENCE: Final = "Instruction/Plan Adherence Failure"
INVENTION: Final = "Invention of New Information"
INVOCATION: Final = "Invalid Invocation"
MISREAD: Final = "Misinterpretation of Tool Output"
MISALIGNED: Final = "Intent-Plan Misalignment"
UNDERSPECIFIED: Final = "Underspecified User Intent"
UNSUPPORTED: Final = "Intent Not Supported"
GUARDRAILS: Final = "Guardrails Triggered"
SYSTEM: Final = "System Failure"

CATEGORIES: Final = (
    ADHERENCE, INVENTION, INVOCATION, MISREAD, MISALIGNED, UNDERSPECIFIED, UNSUPPORTED, GUARDRAILS,
    SYSTEM,
)  # fmt: skip

TO_AGENTRX: Final[Mapping[str, str]] = {
    "exception": SYSTEM,
    "tool_error": SYSTEM,
    "tool_timeout": SYSTEM,
    "rate_limit": SYSTEM,
    "auth": SYSTEM,
    "context_overflow": SYSTEM,
    "malformed_output": SYSTEM,
    "handoff_error": SYSTEM,
    "change_not_applied": SYSTEM,
    "unfinished": GUARDRAILS,
    "wrong_arguments": INVOCATION,
    "invented_tool": INVOCATION,
    "repeated_call": ADHERENCE,
    "similar_calls": ADHERENCE,
    "repeated_error": ADHERENCE,
    "empty_answer": ADHERENCE,
    "empty_output": ADHERENCE,
    "no_answer": ADHERENCE,
    "gave_up": ADHERENCE,
    "ignored_instruction": ADHERENCE,
    "missing_marker": ADHERENCE,
    "over_limit": ADHERENCE,
    "plan_not_followed": ADHERENCE,
    "named_not_called": ADHERENCE,
    "answered_at_once": ADHERENCE,
    "unconfirmed_write": ADHERENCE,
    "lost_context": ADHERENCE,
    "cut_context": ADHERENCE,
    "invented_result": INVENTION,
    "unsupported_claim": INVENTION,
    "unsupported_numbers": INVENTION,
    "claimed_source": INVENTION,
    "claimed_action": INVENTION,
    "answer_without_evidence": INVENTION,
    "assumed": INVENTION,
    "contradicted_output": MISREAD,
    "ignored_output": MISREAD,
    "misread_output": MISREAD,
    "swallowed_error": MISREAD,
    "wrong_arithmetic": MISREAD,
    "misunderstood_request": MISALIGNED,
    "ignored_request": MISALIGNED,
    "changed_approach": MISALIGNED,
    "poor_search": MISALIGNED,
}


def plain(category: str) -> str:
    """A category's name in one way of writing: the annotators write several."""
    words = "".join(c if c.isalnum() else " " for c in category.lower()).split()
    name = " ".join(word for word in words if word != "plan" or "intent" in words)
    return name.replace("under specified", "underspecified")
