"""What steered a trace, as each dialect records it, and what is kept of it for a finding."""

import json
from collections.abc import Mapping

import pytest

from contracts.codec import from_json, to_json
from contracts.json_types import Json
from contracts.traces import Trace
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.sketch import Sketch, sketch_of
from nodes.insights.steered import (
    KEY,
    MOST,
    TEXTS,
    Steered,
    kept_steering,
    steered,
    steered_of,
)
from nodes.insights.steering import MAX_STEERS, MAX_TEXTS
from nodes.textprint import overlap, runs_of, unpacked
from tests.silent_worlds import call
from tests.trace_worlds import OtlpSpan, root, span, tool, trace_of

LATE = ("TimeoutError", "504 the payment service did not answer in time")
BILLING = "You are the billing clerk of the shop. Refund what the customer asks for, politely."
SUPPORT = "You are the support clerk of the shop. Find out what the customer needs, briefly."


def sketch(*steps: OtlpSpan, trace: int = 0) -> Sketch:
    return sketch_of(detect(trace_of(root(trace=trace), *steps), Scans()))


def late(number: int, parent: int = 0, trace: int = 0) -> OtlpSpan:
    return tool(number, "payment_api", {"order": "A-1"}, error=LATE, parent=parent, trace=trace)


@pytest.mark.parametrize(
    ("recorded", "name", "version"),
    [
        ({"langfuse.observation.prompt.name": "support/refund",
          "langfuse.observation.prompt.version": 4}, "support/refund", "4"),
        ({"gen_ai.prompt.name": "refund", "gen_ai.prompt.version": "2"}, "refund", "2"),
        ({"prompt.name": "acme/refund", "prompt.version": "ab12cd34"}, "acme/refund", "ab12cd34"),
        ({"prompt.id": "refund", "llm.prompt_template.version": "v7"}, "refund", "v7"),
        ({"langsmith.metadata.lc_hub_owner": "acme", "langsmith.metadata.lc_hub_repo": "refund",
          "langsmith.metadata.lc_hub_commit_hash": "ab12cd34"}, "acme/refund", "ab12cd34"),
        ({"langsmith.metadata.lc_hub_owner": "-", "langsmith.metadata.lc_hub_repo": "refund"},
         "refund", ""),
    ],
    ids=["langfuse", "gen_ai", "langsmith rows", "openinference", "langsmith otlp", "no owner"],
)  # fmt: skip
def test_the_managed_prompt_is_read_in_every_dialect(
    recorded: Mapping[str, Json], name: str, version: str
) -> None:
    found = sketch(call(1, "hello", also=dict(recorded))).steering
    assert [(one.prompt, one.version) for one in found.steers] == [(name, version)]


def test_a_prompt_that_is_linked_to_the_templates_own_run_is_the_calls() -> None:
    linked: dict[str, Json] = {"prompt.name": "acme/refund", "prompt.version": "ab12cd34"}
    found = sketch(
        span(1, "CHAIN", "sequence"), span(2, "CHAIN", "ChatPromptTemplate", parent=1, also=linked),
        call(3, asks=[("payment_api", "{}")], parent=1), late(4),
    ).steering  # fmt: skip
    (one,) = found.failing("tool_timeout:payment_api:504")
    assert (one.prompt, one.version) == ("acme/refund", "ab12cd34")


def test_a_prompt_of_an_earlier_call_is_not_the_next_ones() -> None:
    linked: dict[str, Json] = {"prompt.name": "first"}
    found = sketch(
        span(1, "CHAIN", "sequence"), span(2, "CHAIN", "template", parent=1, also=linked),
        call(3, "x", parent=1), call(4, "y", system=BILLING, parent=1),
    ).steering  # fmt: skip
    assert [one.prompt for one in found.steers] == ["first", ""]


def test_the_system_text_is_kept_as_a_print_and_not_as_words() -> None:
    kept = to_json(sketch(call(1, "hello", system=BILLING)).steering)
    assert "billing" not in json.dumps(kept)
    steers = kept["steers"]
    assert isinstance(steers, list)
    sent = unpacked(str(steers[0]["text"]))
    assert sent is not None
    assert overlap(runs_of(BILLING), sent).share == 1.0


def test_a_template_stands_for_a_system_text_that_was_not_recorded() -> None:
    found = sketch(call(1, "hello", also={"llm.prompt_template.template": BILLING})).steering
    sent = unpacked(found.steers[0].text)
    assert sent is not None
    assert overlap(runs_of(BILLING), sent).contained


def test_the_failing_step_is_laid_to_the_agent_that_made_it() -> None:
    found = sketch(
        span(1, "AGENT", "support"), call(2, "I hand over", system=SUPPORT, parent=1),
        span(3, "AGENT", "billing"),
        call(4, asks=[("payment_api", "{}")], system=BILLING, parent=3), late(5, parent=3),
        call(6, "sorry", system=SUPPORT, parent=1),
    ).steering  # fmt: skip
    mine = found.failing("tool_timeout:payment_api:504")
    assert [one.agent for one in mine] == ["billing"]
    assert {one.agent for one in found.steers} == {"support", "billing"}


def test_a_failing_model_call_is_steered_by_its_own_text() -> None:
    failed = call(2, system=BILLING, error=("RateLimitError", "429 slow down"), name="second")
    found = sketch(call(1, "fine", system=SUPPORT, name="first"), failed).steering
    (signature,) = found.of
    sent = unpacked(found.failing(signature)[0].text)
    assert sent is not None
    assert overlap(runs_of(BILLING), sent).contained


def test_a_longer_signature_is_one_of_the_finding_and_a_sibling_is_none() -> None:
    found = sketch(call(1, asks=[("payment_api", "{}")], system=BILLING), late(2)).steering
    assert found.failing("tool_timeout:payment_api")
    assert found.failing("tool_timeout:payment_api:504:~abc123")
    assert not found.failing("tool_timeout:payment")


@pytest.mark.parametrize(
    "step",
    [
        tool(1, "read_file", {"path": "/app/skills/refund-order/SKILL.md"}, "text"),
        tool(1, "Skill", {"command": "shop:refund-order"}, "text"),
        tool(1, "load_skill", {"name": "refund-order"}, "text"),
        tool(1, "bash", {"cmd": "cat skills/refund-order/scripts/run.sh"}, "text"),
        tool(1, "cat", {"id": 7}, "---\nname: refund-order\ndescription: refunds\n---\n# Refund"),
    ],
    ids=["path", "skill tool", "loader", "command", "what came"],
)
def test_a_skill_that_was_opened_is_told_by_its_name(step: OtlpSpan) -> None:
    assert sketch(step).steering.skills == ("refund-order",)


def test_a_skill_that_is_only_listed_was_not_opened() -> None:
    listed = "Skills: skills/refund-order/SKILL.md, skills/other/SKILL.md. Read one when needed."
    assert sketch(call(1, "hello", system=listed)).steering.skills == ()


def test_what_is_kept_of_one_trace_is_bounded() -> None:
    many = [call(n, "x", system=f"{BILLING} part {n} of many", also={"prompt.name": f"p{n}"})
            for n in range(1, 30)]  # fmt: skip
    found = sketch(*many).steering
    assert len(found.steers) == MAX_STEERS
    assert len({one.text for one in found.steers if one.text}) == MAX_TEXTS


def test_a_trace_saved_by_an_older_release_is_read_without_it() -> None:
    saved = to_json(sketch(call(1, "x", system=BILLING)))
    del saved["steering"]
    assert from_json(Sketch, saved).steering.steers == ()


def prompts(version: int, count: int) -> list[Sketch]:
    linked: dict[str, Json] = {
        "langfuse.observation.prompt.name": "refund",
        "langfuse.observation.prompt.version": version,
    }
    return [
        sketch(call(1, asks=[("payment_api", "{}")], system=BILLING, also=linked), late(2))
        for _ in range(count)
    ]


def test_a_finding_counts_versions_and_texts_over_its_runs() -> None:
    told = steered("tool_timeout:payment_api:504", [*prompts(3, 5), *prompts(4, 2)], prompts(4, 9))
    assert [(p.value, p.detail, p.runs) for p in told.failing.prompts] == [
        ("refund", "3", 5), ("refund", "4", 2),
    ]  # fmt: skip
    assert (told.failing.runs, told.failing.with_text, told.failing.texts[0].runs) == (7, 7, 7)
    assert told.passing.prompts[0].runs == 9
    assert told.passing.texts == ()


def test_runs_without_a_recorded_text_are_counted_as_such() -> None:
    silent = sketch(late(1))
    told = steered("tool_timeout:payment_api:504", [*prompts(3, 2), silent], [])
    assert (told.failing.runs, told.failing.with_text, told.failing.with_prompt) == (3, 2, 2)


def test_a_finding_under_a_name_that_people_gave_counts_whole_runs() -> None:
    kept = kept_steering("merged:by:people", prompts(3, 2), [])
    assert steered_of({KEY: kept}).failing.with_prompt == 2


def test_what_is_kept_of_a_finding_is_small_and_reads_back() -> None:
    linked = [
        sketch(call(1, asks=[("payment_api", "{}")], system=f"{BILLING} {n} {n + 1} {n + 2}",
                    also={"prompt.name": f"p{n}"}), late(2))
        for n in range(40)
    ]  # fmt: skip
    kept = kept_steering("tool_timeout:payment_api:504", linked, linked)
    told = steered_of({KEY: kept})
    assert (len(told.failing.prompts), len(told.failing.texts)) == (MOST, TEXTS)
    assert len(json.dumps(kept)) < 20_000


@pytest.mark.parametrize("kept", [{}, {KEY: None}, {KEY: {"failing": "no"}}, {KEY: [1]}])
def test_nothing_that_can_be_read_is_nothing_known(kept: dict[str, Json]) -> None:
    assert steered_of(kept) == Steered()


def test_names_from_a_trace_are_masked_and_cut() -> None:
    hostile = "x" * 400 + "\u202e\n## Do this"
    found: Trace = trace_of(root(), call(1, "x", also={"prompt.name": hostile}))
    (one,) = sketch_of(detect(found, Scans())).steering.steers
    assert len(one.prompt) == 160
