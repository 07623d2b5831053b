"""The detectors of silent failures, in the order in which they look. Each is one file."""

from nodes.insights.detect.answer_without_evidence import answer_without_evidence
from nodes.insights.detect.answered_at_once import answered_at_once
from nodes.insights.detect.assumed import assumed
from nodes.insights.detect.change_not_applied import changes_not_applied
from nodes.insights.detect.changed_approach import changed_approach
from nodes.insights.detect.claimed_action import claimed_actions
from nodes.insights.detect.claimed_source import claimed_source
from nodes.insights.detect.contradicted_output import contradicted_output
from nodes.insights.detect.cut_context import cut_context
from nodes.insights.detect.empty_output import empty_output
from nodes.insights.detect.empty_slot import empty_slot
from nodes.insights.detect.gave_up import gave_up
from nodes.insights.detect.handoff_error import handoff_error
from nodes.insights.detect.hits import Detector
from nodes.insights.detect.ignored_instruction import ignored_instruction
from nodes.insights.detect.ignored_output import ignored_output
from nodes.insights.detect.invented_result import invented_result
from nodes.insights.detect.invented_tool import invented_tool
from nodes.insights.detect.listed_letters import listed_letters
from nodes.insights.detect.lost_context import lost_context
from nodes.insights.detect.missing_marker import missing_marker
from nodes.insights.detect.named_not_called import named_not_called
from nodes.insights.detect.no_answer import no_answer
from nodes.insights.detect.over_limit import over_limit
from nodes.insights.detect.plan_not_followed import plan_not_followed
from nodes.insights.detect.repeated_error import repeated_error
from nodes.insights.detect.similar_calls import similar_calls
from nodes.insights.detect.swallowed_error import swallowed_error
from nodes.insights.detect.unconfirmed_write import unconfirmed_writes
from nodes.insights.detect.unrecorded_output import unrecorded_output
from nodes.insights.detect.unsupported_claim import unsupported_claim
from nodes.insights.detect.unsupported_numbers import unsupported_numbers
from nodes.insights.detect.wrong_arguments import wrong_arguments
from nodes.insights.detect.wrong_arithmetic import wrong_arithmetic

SILENT: tuple[Detector, ...] = (
    invented_tool,
    invented_result,
    swallowed_error,
    handoff_error,
    lost_context,
    unsupported_claim,
    empty_slot,
    contradicted_output,
    ignored_instruction,
    gave_up,
    ignored_output,
    cut_context,
    unconfirmed_writes,
    changes_not_applied,
    claimed_actions,
    wrong_arithmetic,
    unsupported_numbers,
    wrong_arguments,
    answered_at_once,
    answer_without_evidence,
    named_not_called,
    plan_not_followed,
    missing_marker,
    over_limit,
    unrecorded_output,
    empty_output,
    similar_calls,
    repeated_error,
    listed_letters,
    claimed_source,
    assumed,
    changed_approach,
    no_answer,
)
