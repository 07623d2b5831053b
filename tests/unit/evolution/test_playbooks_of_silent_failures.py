"""Causes that no error status shows get a plain edit, unless the instructions say it already."""

import pytest

from configs.playbooks import load_playbooks
from contracts.findings import Finding, Remedy
from contracts.json_types import Json
from nodes.evolution.draft import draft
from nodes.evolution.edits import apply_operations
from nodes.evolution.policy import check, refused, risk_of
from tests.card_worlds import INCLUDE, MAIN, finding, harness

BOOKS = load_playbooks()
PLAIN = harness(main=MAIN)
BOTH: tuple[Remedy, ...] = ("instructions", "skill")


def _of(cause: str, remedies: tuple[Remedy, ...] = BOTH, **facts: Json) -> Finding:
    return finding(cause, remedies, title=cause, **facts)


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        (_of("unsupported_claim", tool="post_message"),
         "When `post_message` failed, say so in the final answer, with what it answered and what is"
         " still open."),
        (_of("repeated_call", tool="bash"),
         "After two equal answers of `bash` to the same arguments, make no third call with them."),
        (_of("hasty_model", tool="post"),
         "After a refusal of `post` for too many requests, do the other open steps before the next"
         " call."),
        (_of("large_tool_answer", ("tool", *BOTH), tool="bash"),
         "Ask `bash` for a part: a filter, a limit, a page, the last lines, or quiet output."),
        (_of("handoff_without_owner", ("instructions",), agents="billing-tax"),
         "When a case comes back from an agent that it was handed to, do not hand it over again."),
        (_of("answer_cut_off", ("instructions",), tool="agent"),
         "Begin the answer with the result; then give the steps or items in order of weight."),
    ],
)  # fmt: skip
def test_a_silent_cause_gets_a_plain_sentence_that_passes_policy(
    about: Finding, sentence: str
) -> None:
    best, *_ = draft(about, PLAIN, BOOKS, include=INCLUDE)
    after = apply_operations(PLAIN, best.operations)
    (path,) = PLAIN.changed(after)
    assert f"- {sentence}\n" in after.files[path].data.decode()
    checks = check(PLAIN, after, best, include=INCLUDE, invariants=[])
    assert refused(checks) is None
    assert risk_of(PLAIN, after, best)[0] == "low"


@pytest.mark.parametrize("cause", ["unsupported_claim", "repeated_call", "hasty_model"])
def test_nothing_is_drafted_where_the_instructions_say_it_already(cause: str) -> None:
    about = _of(cause, tool="post_message", already="line-4")
    assert draft(about, PLAIN, BOOKS, include=INCLUDE) == ()
