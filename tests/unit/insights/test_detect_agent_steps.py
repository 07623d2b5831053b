"""Facts of an agent's steps: each is seen where it is, and not where it only looks alike."""

from collections.abc import Mapping, Sequence

import pytest

from configs.taxonomy import taxonomy
from contracts.findings import Symptom
from contracts.json_types import Json
from nodes.insights.detect.all import detect, detect_trace
from nodes.insights.detect.contracts import ALL, NONE, offered_in_prompt, stop_sequences
from nodes.insights.detect.faults import Scans
from nodes.insights.detect.requirements import required_by
from tests.trace_worlds import OtlpSpan, root, span, tool, trace_of

PROMPT = """You can use these tools:
- web_search: Searches the web.
    Takes inputs: {'query': {'type': 'string'}, 'year': {'type': 'string', 'nullable': True}}
    Returns an output of type: string
- page_down: Scrolls.
    Takes inputs: {}
    Returns an output of type: string
- final_answer: Gives the answer.
    Takes inputs: {'answer': {'type': 'any'}}
"""
Said = Sequence[tuple[str, str]]


def call(
    number: int,
    said: str = "",
    *,
    told: Said = (("system", PROMPT), ("user", "How many?")),
    asks: Mapping[str, str] | None = None,
    also: Mapping[str, Json] | None = None,
    parent: int = 0,
) -> OtlpSpan:
    """A model call: what it was told, what it said, what tools it asked for (raw arguments)."""
    out: dict[str, Json] = {
        "output__value": said,
        "llm__output_messages__0__message__role": "assistant",
        "llm__output_messages__0__message__content": said,
    }
    for index, (role, content) in enumerate(told):
        out[f"llm__input_messages__{index}__message__role"] = role
        out[f"llm__input_messages__{index}__message__content"] = content
    for index, (name, raw) in enumerate((asks or {}).items()):
        at = f"llm__output_messages__0__message__tool_calls__{index}__tool_call"
        out[f"{at}__id"] = f"c{number}-{index}"
        out[f"{at}__function__name"] = name
        out[f"{at}__function__arguments"] = raw
    return span(number, "LLM", "chat", parent=parent, also={**out, **(also or {})})


def code(text: str, words: str = "Thought: go on.") -> str:
    return f"{words}\nCode:\n```py\n{text}\n```"


def hits(kind: str, *spans: OtlpSpan) -> list[tuple[str, str, str]]:
    """(span number, code, quote) of every symptom of the kind."""
    found = [s for s in detect_trace(trace_of(*spans)) if s.kind == kind]
    return [(where(s), code_of(s), s.evidence.quote) for s in found]


def where(symptom: Symptom) -> str:
    return str(int(symptom.span_id, 16) - 1)


def code_of(symptom: Symptom) -> str:
    parts = symptom.signature.split(":")
    return parts[2] if len(parts) > 2 else ""


@pytest.mark.parametrize(
    ("raw", "code", "words"),
    [
        ('{"": ""}', "unnamed", "page_down was asked for with an argument that has no name"),
        ('{"far": 1}', "undeclared", "page_down was asked for with far, which it does not declare"),
    ],
)
def test_arguments_that_the_tool_does_not_declare_are_seen_at_the_asking_call(
    raw: str, code: str, words: str
) -> None:
    asked = call(1, asks={"page_down": raw})
    assert hits("wrong_arguments", root(), asked, tool(2, "page_down", {}, "page 2")) == [
        ("1", code, words)
    ]


def test_a_missing_argument_counts_and_a_declared_or_optional_one_is_none() -> None:
    missing = root(), call(1, asks={"web_search": '{"year": "2020"}'})
    assert hits("wrong_arguments", *missing) == [
        ("1", "missing", "web_search was asked for without query, which it needs")
    ]
    (symptom,) = [s for s in detect_trace(trace_of(*missing)) if s.kind == "wrong_arguments"]
    assert symptom.counts
    for raw in ('{"query": "x"}', '{"query": "x", "year": "1"}', "not json"):
        assert hits("wrong_arguments", root(), call(1, asks={"web_search": raw})) == []


def test_arguments_in_code_are_held_against_the_declaration_too() -> None:
    wrong = call(1, code('print(web_search(query="x", limit=3))'))
    assert [h[:2] for h in hits("wrong_arguments", root(), wrong)] == [("1", "undeclared")]
    right = call(1, code('print(web_search("x"))\nprint(other(limit=3))'))
    assert hits("wrong_arguments", root(), right) == []


def test_wrong_arguments_are_a_hint_where_the_failed_tool_counts_already() -> None:
    asked = call(1, asks={"page_down": '{"": ""}'})
    failed = tool(2, "page_down", {"": ""}, error=("TypeError", "unexpected keyword argument ''"))
    symptoms = detect_trace(trace_of(root(), asked, failed))
    counted = {s.kind: s.counted for s in symptoms}
    assert counted["tool_error"] is True
    assert counted["wrong_arguments"] is False


def test_a_schema_that_allows_more_is_not_violated_by_more() -> None:
    schema = {"function": {"name": "look", "parameters": {
        "properties": {"a": {}}, "additionalProperties": True}}}  # fmt: skip
    asked = call(1, told=(("user", "go"),), asks={"look": '{"b": 1}'},
                 also={"llm__tools__0__tool__json_schema": str(schema).replace("'", '"')
                       .replace("True", "true")})  # fmt: skip
    assert hits("wrong_arguments", root(), asked) == []


def test_an_answer_in_the_first_step_is_seen_and_one_after_a_tool_is_not() -> None:
    at_once = call(1, code('final_answer("7")'))
    assert [h[0] for h in hits("answered_at_once", root(), at_once)] == ["1"]
    assert "page_down, web_search" in hits("answered_at_once", root(), at_once)[0][2]
    searched = (
        call(1, code('print(web_search(query="x"))')),
        tool(2, "web_search", {"query": "x"}, "found"),
        call(3, code('final_answer("7")')),
    )
    assert hits("answered_at_once", root(), *searched) == []
    assert hits("answer_without_evidence", root(), *searched) == []


def test_an_answer_that_uses_a_tool_in_the_same_step_is_not_at_once() -> None:
    step = call(1, code('final_answer(web_search(query="x"))'))
    used = tool(2, "web_search", {"query": "x"}, "7")
    assert hits("answered_at_once", root(), step, used) == []


def test_an_agent_without_tools_may_answer_at_once() -> None:
    plain = call(1, "Hello!", told=(("user", "Hi"),))
    assert hits("answered_at_once", root(), plain) == []


def test_an_answer_after_steps_that_fetched_nothing_is_without_evidence() -> None:
    steps = call(1, code("print(1 + 1)")), call(2, code('final_answer("7")'))
    ((number, _, quote),) = hits("answer_without_evidence", root(), *steps)
    assert number == "2"
    assert quote == "answered after 1 steps, none of which used a tool or an agent"


def test_a_tool_that_is_named_and_not_called_is_seen_at_the_step() -> None:
    words = "Thought: I will ask web_search for it."
    fake = call(1, code('print("web_search: 7 results")', words))
    after = call(2, code('final_answer("7")'))
    assert [h[0] for h in hits("named_not_called", root(), fake, after)] == ["1"]
    real = (
        call(1, code('print(web_search(query="x"))', words)),
        tool(2, "web_search", {"query": "x"}, "found"),
    )
    assert hits("named_not_called", root(), *real) == []
    unrecorded = call(1, code('print(web_search(query="x"))', words))
    assert hits("named_not_called", root(), unrecorded) == []
    unnamed = call(1, code("print(2)", "Thought: compute."))
    assert hits("named_not_called", root(), unnamed) == []


PLAN = "1. Use web_search to find it.\n2. Use page_down to read on.\n3. Answer with final_answer."


def test_tools_of_the_plan_that_are_never_called_are_told_at_the_answer() -> None:
    none = call(1, PLAN), call(2, code('final_answer("7")'))
    assert [h[:2] for h in hits("plan_not_followed", root(), *none)] == [("2", "none")]
    some = (
        call(1, PLAN),
        call(2, asks={"web_search": '{"query": "x"}'}),
        tool(3, "web_search", {"query": "x"}, "found"),
        call(4, code('final_answer("7")')),
    )
    ((number, left, quote),) = hits("plan_not_followed", root(), *some)
    assert (number, left) == ("4", "some")
    assert "page_down" in quote
    assert "web_search" not in quote
    no_list = call(1, "I could use web_search."), call(2, code('final_answer("7")'))
    assert hits("plan_not_followed", root(), *no_list) == []


MARKED = (("user", "Write a plan.\nAfter the final step, write the '\\n<end_plan>' tag and stop."),)


def test_a_missing_end_marker_is_a_hint_and_says_whether_it_stops_the_model() -> None:
    stopped = call(1, "1. a", told=MARKED, also={
        "llm__invocation_parameters": '{"stop": ["<end_plan>"]}'})  # fmt: skip
    assert [h[:2] for h in hits("missing_marker", root(), stopped)] == [("1", "stop")]
    other = call(1, "1. a", told=MARKED, also={
        "llm__invocation_parameters": '{"stop": ["Observation:"]}'})  # fmt: skip
    assert [h[1] for h in hits("missing_marker", root(), other)] == ["absent"]
    assert [h[1] for h in hits("missing_marker", root(), call(1, "1. a", told=MARKED))] == [
        "unknown"
    ]
    assert hits("missing_marker", root(), call(1, "1. a\n<end_plan>", told=MARKED)) == []
    assert detect(trace_of(root(), stopped), Scans()).failed is False


def test_only_the_first_answer_without_the_marker_is_told() -> None:
    twice = call(1, "1. a", told=MARKED), call(2, "1. b", told=MARKED)
    assert [h[0] for h in hits("missing_marker", root(), *twice)] == ["1"]


@pytest.mark.parametrize(
    ("text", "markers", "characters"),
    [
        ("End with 'TERMINATE' when done.", ["TERMINATE"], None),
        ("The answer must end with `<done>`.", ["<done>"], None),
        ("Quote 'TERMINATE' if asked. Write `x`.", [], None),
        ("Do it 500 characters at a time.", [], 500),
        ("Print at most 1,200 chars.", [], 1200),
        ("A name of 30 characters was seen.", [], None),
    ],
)
def test_demands_are_read_only_where_the_text_makes_them(
    text: str, markers: list[str], characters: int | None
) -> None:
    required = required_by(text)
    assert [marker for marker, _ in required.markers] == markers
    assert (required.characters[0] if required.characters else None) == characters


LIMITED = (("user", "Read the file 500 characters at a time."),)


def test_code_that_takes_more_than_the_task_allows_is_seen() -> None:
    big = call(1, code("print(text[:1000])"), told=LIMITED)
    assert [h[:2] for h in hits("over_limit", root(), big)] == [("1", "slice")]
    assert hits("over_limit", root(), big)[0][2] == "1000 characters at a time; the task allows 500"
    for fine in ("print(text[:500])", "print(text[1000:1400])", "print(text[a:b])"):
        assert hits("over_limit", root(), call(1, code(fine), told=LIMITED)) == []
    assert hits("over_limit", root(), call(1, code("print(text[:1000])"))) == []


def test_a_printed_result_over_the_limit_is_seen_at_the_step_that_printed_it() -> None:
    told = (*LIMITED, ("assistant", "print it"), ("user", "x" * 700))
    spans = call(1, code("print(text)"), told=LIMITED), call(2, "Done.", told=told)
    assert [h[:2] for h in hits("over_limit", root(), *spans)] == [("1", "shown")]


def test_a_final_call_without_recorded_output_is_an_instrumentation_gap() -> None:
    asked = call(1, asks={"final_answer": '{"answer": "7"}'})
    gap = root(), asked, tool(2, "final_answer", {"answer": "7"})
    assert [h[:2] for h in hits("unrecorded_output", *gap)] == [("2", "last")]
    kept = root(), asked, tool(2, "final_answer", {"answer": "7"}, "7")
    assert hits("unrecorded_output", *kept) == []
    other = root(), call(1, asks={"page_down": "{}"}), tool(2, "page_down", {})
    assert hits("unrecorded_output", *other) == []


def test_a_model_call_that_says_nothing_is_seen_in_the_middle_of_a_run() -> None:
    told = (("user", "go"), ("assistant", ""), ("user", "You said nothing."))
    silent = call(1, ""), call(2, "Here you are.", told=told)
    assert [h[0] for h in hits("empty_output", root(), *silent)] == ["1"]
    asking = call(1, "", asks={"page_down": "{}"}), call(2, "Here you are.")
    assert hits("empty_output", root(), *asking) == []
    retried = call(1, ""), call(2, "Here you are.")
    assert hits("empty_output", root(), *retried) == []


def searches(*queries: str) -> list[OtlpSpan]:
    spans = [root()]
    for index, query in enumerate(queries):
        raw = f'{{"query": "{query}"}}'
        spans.append(call(2 * index + 1, asks={"web_search": raw}))
        spans.append(tool(2 * index + 2, "web_search", {"query": query}, f"page {index}"))
    return spans


def test_reworded_calls_of_one_tool_are_told_at_the_last() -> None:
    similar = searches("lego article 2022", "english lego article", "lego article wikipedia 2022")
    assert hits("similar_calls", *similar) == [
        ("6", "", "3 similar calls of web_search one after another")
    ]
    assert hits("similar_calls", *searches("lego article", "lego history", "zoo hours")) == []


def test_equal_calls_are_polls_or_loops_and_no_rewording() -> None:
    assert (
        hits("similar_calls", *searches("state of job 1", "state of job 1", "state of job 1")) == []
    )


def failing(times: int) -> list[OtlpSpan]:
    spans = [root()]
    for index in range(times):
        spans.append(call(2 * index + 1, asks={"pay": f'{{"id": "{index}"}}'}))
        spans.append(tool(2 * index + 2, "pay", {"id": str(index)}, error=("ValueError", "bad id")))
    return spans


def test_the_same_error_in_a_row_is_told_at_its_last_instance() -> None:
    ((number, code, quote),) = hits("repeated_error", *failing(3))
    assert (number, code) == ("6", "more")
    assert quote == "3 times in a row: tool_error:pay:ValueError"
    assert hits("repeated_error", *failing(1)) == []


def test_a_step_that_works_breaks_a_row_of_errors() -> None:
    spans = [
        *failing(1),
        call(3, asks={"look": "{}"}), tool(4, "look", {}, "fine"),
        call(5, asks={"pay": "{}"}), tool(6, "pay", {}, error=("ValueError", "bad id")),
    ]  # fmt: skip
    assert hits("repeated_error", *spans) == []


@pytest.mark.parametrize("shown", ["\n".join("Directory listing"), str(list("Directory listing"))])
def test_a_column_of_single_characters_is_seen_where_it_came_from(shown: str) -> None:
    told = (("user", "go"), ("assistant", "x"), ("user", f"Result:\n{shown}\n"))
    spans = root(), call(1, code("for p in tree: print(p)")), call(2, "Hm.", told=told)
    (symptom,) = [s for s in detect_trace(trace_of(*spans)) if s.kind == "listed_letters"]
    assert where(symptom) == "1"
    assert symptom.shown_at is not None
    assert int(symptom.shown_at, 16) - 1 == 2


def test_short_lines_that_are_words_are_no_column_of_characters() -> None:
    told = (("user", "go"), ("assistant", "x"), ("user", "\n".join(["ab", "cd"] * 20)))
    spans = root(), call(1, code("print(x)")), call(2, "Hm.", told=told)
    assert hits("listed_letters", *spans) == []


def test_a_source_that_is_claimed_before_any_result_is_seen() -> None:
    claim = call(1, code('final_answer("7")', "According to the records it is 7."))
    assert [h[:2] for h in hits("claimed_source", root(), claim)] == [("1", "answer")]
    based = (
        call(1, asks={"web_search": '{"query": "x"}'}),
        tool(2, "web_search", {"query": "x"}, "seven"),
        call(3, code('final_answer("7")', "According to the records it is 7.")),
    )
    assert hits("claimed_source", root(), *based) == []


def test_what_is_assumed_or_recalled_is_a_hint_at_the_step() -> None:
    step = call(1, code("rate = 0.2  # placeholder"))
    assert [h[0] for h in hits("assumed", root(), step)] == ["1"]
    assert hits("assumed", root(), call(1, code("rate = read()"))) == []
    talk = call(1, "I assume you are well.")
    assert hits("assumed", root(), talk) == []


def test_a_step_that_tries_another_way_says_so_after_the_first() -> None:
    words = "Thought: let me try a different approach."
    spans = root(), call(1, code("a()", words)), call(2, code("b()", words))
    assert [h[0] for h in hits("changed_approach", *spans)] == ["2"]


def test_a_run_whose_last_call_failed_has_no_answer_and_counts_by_its_error() -> None:
    broken = span(1, "LLM", "chat", error=("RateLimitError", "slow down"))
    spans = root(error=("RateLimitError", "slow down"), answer=None), broken
    assert [h[0] for h in hits("no_answer", *spans)] == ["1"]
    found = detect_trace(trace_of(*spans))
    assert [s.kind for s in found if s.counts] == ["rate_limit"]
    assert hits("no_answer", root(), call(1, "Here you are.")) == []


def test_hints_make_no_trace_a_failed_one() -> None:
    spans = root(), call(1, PLAN), call(2, code('final_answer("7")', "According to the records"))
    detected = detect(trace_of(*spans), Scans())
    kinds = {s.kind for s in detected.symptoms}
    assert {"answered_at_once", "plan_not_followed", "claimed_source"} <= kinds
    assert not detected.failed
    assert all(not taxonomy().counted(kind) for kind in kinds)


def test_evidence_is_masked_and_free_of_control_characters() -> None:
    secret = "sk-" + "a1B2" * 8
    asked = call(1, asks={"page_down": f'{{"{secret}": 1}}'})
    ((_, _, quote),) = hits("wrong_arguments", root(), asked)
    assert secret not in quote


def test_odd_or_broken_code_is_looked_at_without_a_word() -> None:
    odd = call(1, code('print(web_search(query="\\d"), limit)'))
    assert hits("wrong_arguments", root(), odd) == []
    broken = call(1, code('final_answer("7"'))
    assert [h[0] for h in hits("answered_at_once", root(), broken)] == ["1"]
    deep = call(1, code("(" * 9_000 + ")" * 9_000))
    assert hits("wrong_arguments", root(), deep) == []


def test_without_contracts_a_final_tool_is_known_by_what_the_run_put_out() -> None:
    spans = (
        root(answer="7"),
        call(1, code('final_answer("7")'), told=(("user", "- web_search: a tool"),)),
        tool(2, "final_answer", {"answer": "7"}),
    )
    for contracts in (ALL, NONE):
        (run,) = detect(trace_of(*spans), Scans(), contracts).view.runs
        assert sorted(run.final_tools) == ["final_answer"]
        assert sorted(run.usable) == ["web_search"]
        assert not run.results_before(0)


def test_tools_of_a_documented_prompt_are_read_with_their_parameters() -> None:
    offered = {o.name: o for o in offered_in_prompt(PROMPT)}
    assert offered["web_search"].parameters == frozenset({"query", "year"})
    assert offered["web_search"].required == frozenset({"query"})
    assert offered["page_down"].parameters == frozenset()


def test_stop_sequences_are_read_from_parameters_and_not_from_quoted_text() -> None:
    (trace_span,) = [
        s for s in trace_of(root(), call(1, "x", also={
            "llm__invocation_parameters": '{"stop": "END"}',
            "input__value": '{"messages": "\\"stop\\": [\\"NO\\"]", "stop_sequences": ["A", "B"]}',
        })).spans if s.kind == "llm"
    ]  # fmt: skip
    assert stop_sequences(trace_span) == ("END", "A", "B")
