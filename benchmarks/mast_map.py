"""The one table from MAST's fourteen failure modes to our kinds.

MAST (multi-agent system failure taxonomy) names modes, not spans; a mode without kinds is one that
only reading can find, or that none of our detectors looks for. No data of MAST is used here.
"""

from collections.abc import Mapping
from typing import Final

FROM_MAST: Final[Mapping[str, tuple[str, ...]]] = {
    "1.1 Disobey task specification": (
        "ignored_instruction",
        "missing_marker",
        "over_limit",
        "unconfirmed_write",
    ),
    "1.2 Disobey role specification": (),
    "1.3 Step repetition": ("repeated_call", "similar_calls", "repeated_error"),
    "1.4 Loss of conversation history": ("lost_context", "cut_context", "context_overflow"),
    "1.5 Unaware of termination conditions": ("unfinished",),
    "2.1 Conversation reset": ("lost_context",),
    "2.2 Fail to ask for clarification": ("unconfirmed_write", "assumed"),
    "2.3 Task derailment": ("misunderstood_request", "changed_approach"),
    "2.4 Information withholding": ("handoff_error",),
    "2.5 Ignored other agent's input": ("ignored_output", "contradicted_output"),
    "2.6 Reasoning-action mismatch": ("named_not_called", "plan_not_followed", "claimed_action"),
    "3.1 Premature termination": ("answered_at_once", "gave_up", "empty_answer", "no_answer"),
    "3.2 No or incomplete verification": ("answer_without_evidence", "unsupported_numbers"),
    "3.3 Incorrect verification": ("unsupported_claim", "wrong_arithmetic", "claimed_source"),
}
