"""Lost rules, full windows, hand-overs, logins, storms, and steps that swallow an error."""

import pytest

from contracts.json_types import Json
from contracts.traces import TraceQuery
from nodes.insights.analyze import analyze
from tests.silent_worlds import at, call, kinds, run, symptoms, the
from tests.trace_worlds import MemorySource, OtlpSpan, root, span, tool

RULE = "You commit code. Never put ticket numbers into titles. Use English."
SUMMARY = "Summary of the talk so far: item 1 is done, items 2 and 3 are open. Go on."


def compacted(
    before: str, after: str, told: str = SUMMARY, *, step: bool = True, fell: bool = True
) -> list[OtlpSpan]:
    """Two model calls around a compaction."""
    middle = [span(2, "CHAIN", "compact_conversation")] if step else []
    return [
        root("work", "done with all of it"),
        call(1, "one", system=before, user="Work through the list.", tokens=91_000),
        *middle,
        call(3, "two", system=after, user=told, tokens=2_100 if fell else 91_500),
    ]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (RULE, "You commit code.", SUMMARY),
        ("Du buchst Reisen. Niemals ohne R\u00fcckfrage zahlen.", "Du buchst Reisen.",
         "Zusammenfassung: Flug gebucht, Hotel offen."),
        ("You sell. Always state the price with tax before the order.", "You sell.",
         "Conversation compacted: two lamps are in the cart."),
        ("Tu aides. Ne donne jamais de conseil m\u00e9dical.", "Tu aides.",
         "R\u00e9sum\u00e9 : deux questions restent."),
    ],
)  # fmt: skip
def test_a_rule_that_a_compaction_dropped_counts_at_the_compaction(
    before: str, after: str, told: str
) -> None:
    steps = compacted(before, after, told)
    assert at("lost_context", *steps) == [2]
    found = the("lost_context", *steps)
    assert found.shown_at is not None
    assert found.evidence.facts["tokens_before"] == 91_000


def test_without_a_span_of_the_compaction_the_call_without_the_rule_is_named() -> None:
    assert at("lost_context", *compacted(RULE, "You commit code.", step=False)) == [3]


def test_a_model_call_that_was_asked_for_the_summary_is_where_it_went() -> None:
    steps = [
        root("work", "all of it is done"),
        span(1, "CHAIN", "agent"),
        call(2, "one", system=RULE, user="Work through the list.", parent=1, tokens=50_000),
        call(3, "item 1 is done", system="Summarize the conversation so far.", user="..."),
        span(4, "CHAIN", "agent"),
        call(5, "two", system="You commit code.", user="Item 1 is done. Go on.", parent=4,
             tokens=700),
    ]  # fmt: skip
    assert at("lost_context", *steps) == [3]


def test_a_tool_that_summarises_documents_shortens_no_conversation() -> None:
    steps = [
        root("work", "all of it is done"),
        call(1, "one", system=RULE, user="Sum up the page.", tokens=5_000),
        tool(2, "summarize_page", {"url": "a"}, "The page is about lamps."),
        call(3, "two", system="You commit code.", user="The page is about lamps.", tokens=900),
    ]
    assert "lost_context" not in kinds(*steps)


def test_a_rule_that_the_user_gave_is_a_rule_as_well() -> None:
    steps = [
        root("work", "all of it is done"),
        call(1, "ok", system="You edit files.", user="Tidy up, but never delete anything in /old.",
             tokens=60_000),
        call(2, "go", system="You edit files.", user="Summary: src is tidy, /old is open.",
             tokens=900),
    ]  # fmt: skip
    assert at("lost_context", *steps) == [2]


@pytest.mark.parametrize(
    "steps",
    [
        compacted(RULE, RULE),
        compacted(RULE, "You commit code.", SUMMARY + " Never put ticket numbers into titles."),
        compacted(RULE, "You commit code.", fell=False),
        compacted("You commit code. Use English.", "You commit code."),
        compacted(
            "You sort mail. Always answer with one word.",
            "Write a summary of the mail.",
            "The lamp broke.",
            step=False,
        ),
        compacted(RULE, "You write poems.", "Write one about rain.", step=False),
    ],
    ids=["kept", "kept in the summary", "no fall", "no rule", "another step", "another agent"],
)
def test_a_rule_that_is_kept_or_was_never_there_is_not_lost(steps: list[OtlpSpan]) -> None:
    assert "lost_context" not in kinds(*steps)


WINDOW = ("ContextWindowExceededError", "maximum context length is 8192 tokens; you sent 21000")


@pytest.mark.parametrize(
    "error",
    [
        WINDOW,
        ("BadRequestError", "prompt is too long: 215000 tokens > 200000 maximum"),
        ("openai.BadRequestError", "Error code: 400 - {'code': 'context_length_exceeded'}"),
        ("ClientError", "The input token count (1048600) exceeds the maximum number of tokens"),
        ("ValidationException", "Input is too long for requested model."),
    ],
)
def test_a_full_window_is_told_at_the_answer_that_filled_it(error: tuple[str, str]) -> None:
    big = tool(2, "bash", {"command": "git log"}, "line of a log\n" * 4_000)
    asked = call(1, asks=[("bash", "{}")], user="go", tokens=600)
    steps = [root("go", None, error=error), asked, big, call(3, user="go", error=error)]
    assert at("context_overflow", *steps) == [2]
    facts = the("context_overflow", *steps).evidence.facts
    assert (facts["tool"], facts["bytes"], facts["tokens_before"]) == ("bash", 56_000, 600)


def test_a_window_that_the_whole_history_filled_is_told_at_the_call() -> None:
    small = [tool(n, "read", {"n": n}, "x" * 900) for n in range(2, 6)]
    steps = [root("go", None, error=WINDOW), call(1, "", user="go"), *small,
             call(7, user="go", error=WINDOW)]  # fmt: skip
    assert at("context_overflow", *steps) == [7]
    assert "bytes" not in the("context_overflow", *steps).evidence.facts


def test_a_tool_that_speaks_of_a_context_window_is_no_full_window() -> None:
    spoke = tool(1, "search", {"q": "llm"}, "Error: context window of the page is too large")
    assert kinds(root("?", "I could not find it."), spoke) == {"tool_error"}


def passing(
    names: list[str], *, answer: str | None = None, tool_name: str = "transfer_to_{}"
) -> list[OtlpSpan]:
    """Agents that hand over to each other in the given order."""
    steps: list[OtlpSpan] = [root("My invoice is wrong.", answer)]
    for index, name in enumerate(names[:-1]):
        agent, taker = 1 + 3 * index, names[index + 1]
        asked = tool_name.format(taker)
        steps += [
            span(agent, "AGENT", name),
            call(agent + 1, system=f"You are {name}. Send such things to {taker}.", parent=agent,
                 asks=[(asked, "{}")]),
            tool(agent + 2, asked, {"agent_name": taker}, f"Transferred to {taker}.", parent=agent),
        ]  # fmt: skip
    return steps


@pytest.mark.parametrize(
    ("names", "tool_name"),
    [
        (["billing", "tax", "billing", "tax"], "transfer_to_{}"),
        (["sales", "support", "sales", "support", "sales"], "handoff_to_{}"),
        (["a_agent", "b_agent", "c_agent", "a_agent", "b_agent"], "delegate_to_{}"),
        (["desk", "stock", "desk", "stock"], "transfer_to_agent"),
    ],
)
def test_agents_that_pass_a_case_around_count_once(names: list[str], tool_name: str) -> None:
    steps = passing(names, tool_name=tool_name)
    (found,) = [s for s in symptoms(*steps) if s.counts]
    assert found.signature.endswith(":ping_pong")
    assert int(found.span_id, 16) - 1 == 5  # where it is first given back
    assert names[0] in found.evidence.quote


def test_hand_overs_without_spans_of_their_own_are_seen_in_the_requests() -> None:
    steps = [root("My invoice is wrong.", None)]
    for n, (name, taker) in enumerate([("a", "b"), ("b", "a"), ("a", "b"), ("b", "a")]):
        steps += [
            span(1 + 2 * n, "AGENT", name),
            call(2 + 2 * n, system=f"You are {name}.", asks=[(f"transfer_to_{taker}", "{}")],
                 parent=1 + 2 * n),
        ]  # fmt: skip
    assert at("handoff_error", *steps) == [4]


def test_a_case_that_is_handed_over_and_worked_on_is_none() -> None:
    once = [*passing(["desk", "tax"]), call(20, "The tax is 7 %.", user="?")]
    assert kinds(*once) == set()
    worked = [*passing(["desk", "tax", "desk", "tax"]), tool(20, "fix_invoice", {"n": 1}, "ok"),
              call(21, "I corrected it.", user="?")]  # fmt: skip
    assert kinds(*worked) == set()


def test_an_agent_that_never_answers_counts_and_a_person_does_not() -> None:
    lonely = passing(["desk", "tax"])
    assert the("handoff_error", *lonely).signature == "handoff_error:tax:no_answer"
    person = passing(["desk", "human_agents"], tool_name="transfer_to_human_agents")
    assert "handoff_error" not in kinds(*person)


@pytest.mark.parametrize(
    "answer",
    [
        {"category": "backend_fault", "message": "wiki refused the authorization, token gone"},
        {"status": 401, "message": "who are you"},
        {"error": {"code": 403, "message": "no access to this project"}},
        {"message": "Your session has expired, please log in again."},
        "Error: invalid API key",
        "The access token expired at 03:00.",
        "Anmeldung abgelaufen. Fehler 17.",
        {"error": "authentication_failed"},
        "401 Unauthorized",
        "Le jeton est expir\u00e9.",
    ],
)
def test_a_refused_login_is_its_own_kind_wherever_the_words_stand(answer: Json) -> None:
    steps = (root("find it", "I could not search."), tool(1, "search", {"q": "x"}, answer))
    assert kinds(*steps) == {"auth"}
    assert at("auth", *steps) == [1]


@pytest.mark.parametrize(
    "answer",
    [
        {"title": "Token expired: what to do", "pages": [{"url": "a"}, {"url": "b"}]},
        "How to reset a password: open the settings, choose Security, then follow the steps. " * 5,
        {"items": ["session expired"], "message": "1 found"},
        {"ok": True, "session": "valid"},
        {"status": "authorized", "token_type": "bearer"},
    ],
)
def test_a_result_that_only_speaks_of_logins_is_none(answer: Json) -> None:
    assert kinds(root("find it", "See the page."), tool(1, "search", {"q": "x"}, answer)) == set()


def row(count: int, error: tuple[str, str], *, between: bool = False) -> list[OtlpSpan]:
    """Equal refused calls, half a second long, one a second; with a model turn between or not."""
    steps: list[OtlpSpan] = [root("post", "I could not post it."), call(1, user="post")]
    for n in range(count):
        steps.append(tool(2 + 2 * n, "post", {"text": "hi"}, error=error))
        if between:
            steps.append(call(3 + 2 * n, "", user="post", asks=[("post", "{}")]))
    return steps


async def cause_of(steps: list[OtlpSpan]) -> tuple[str, tuple[str, ...], str]:
    found = await analyze(MemorySource([run(*steps)]), TraceQuery(), project="p")
    (finding,) = [f for f in found.findings if f.kind == "rate_limit"]
    diagnosis = finding.diagnosis
    return diagnosis.cause, diagnosis.remedies, diagnosis.summary


async def test_a_client_that_repeats_alone_is_no_case_for_text_and_a_model_is() -> None:
    error = ("TooManyRequests", "429 Too Many Requests")
    cause, remedies, said = await cause_of(row(5, error))
    assert (cause, remedies) == ("retry_storm", ("tool", "infrastructure"))
    assert "5 equal calls" in said
    cause, remedies, _ = await cause_of(row(5, error, between=True))
    assert (cause, remedies[0]) == ("hasty_model", "instructions")
    cause, remedies, _ = await cause_of(row(1, error))
    assert (cause, remedies) == ("rate_limited", ("infrastructure",))


def test_a_dropped_request_for_a_tool_that_was_not_offered_counts() -> None:
    offers = ["search_users", "get_user"]
    asked = call(1, asks=[("find_user", "{}")], user="go", offers=offers)
    steps = [root("go", "I looked around."), asked, call(2, "I looked around.", user="go")]
    assert at("invented_tool", *steps) == [1]
    asked = call(1, asks=[("get_user", "{}")], user="go", offers=offers)
    known = [root("go", "It is Ana."), asked, call(2, "It is Ana.", user="go")]
    assert "invented_tool" not in kinds(*known)


@pytest.mark.parametrize(
    "said",
    [
        "Thought: hm.\nAction: search\nAction Input: Oslo\nObservation: 14 degrees\nFinal: 14",
        '<tool_call>{"name": "weather"}</tool_call>\n<tool_response>14 degrees</tool_response>',
    ],
)
def test_a_result_that_the_model_wrote_itself_counts(said: str) -> None:
    assert at("invented_result", root("?", "x"), call(1, said, user="?")) == [1]
    shown = call(1, said, user="Repeat: 14 degrees, Observation: 14 degrees")
    assert "invented_result" not in kinds(root("?", "x"), shown)


def test_a_request_without_its_result_is_no_invention() -> None:
    plain = "Thought: I need it.\nAction: search\nAction Input: Oslo"
    assert "invented_result" not in kinds(root("?", "x"), call(1, plain, user="?"))


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ({"error": "index is locked"}, None),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'", "KeyError"),
        ("Error: 503 Service Unavailable", "503"),
    ],
)
def test_a_step_that_gives_back_an_error_as_a_result_counts(output: Json, code: str | None) -> None:
    node = span(1, "CHAIN", "retrieve_docs", output__value=output)
    found = the("swallowed_error", root("?", "I know nothing of it."), node)
    assert found.counts
    assert found.signature == "swallowed_error:retrieve_docs" + (f":{code}" if code else "")


def test_what_a_failed_tool_said_is_not_counted_again_at_its_node() -> None:
    node = span(1, "CHAIN", "tools", output__value={"error": "boom"})
    failed = tool(2, "pay", {}, {"error": "boom"}, parent=1)
    assert kinds(root("?", "I could not pay."), node, failed) == {"tool_error"}
    fine = span(1, "CHAIN", "route", output__value={"error": None, "next": "pay"})
    assert kinds(root("?", "We open at 8."), fine) == set()


def test_the_same_words_in_another_order_are_the_same_call() -> None:
    asked = ["Oslo weather tomorrow", "weather tomorrow, Oslo?", "tomorrow Oslo Weather"]
    calls = [tool(n, "search", {"q": q}, "nothing found") for n, q in enumerate(asked, 1)]
    assert at("repeated_call", root("?", "I found nothing."), *calls) == [3]
    pages = [tool(n, "search", {"q": f"Oslo page {n}"}, "nothing found") for n in (1, 2, 3)]
    assert "repeated_call" not in kinds(root("?", "I found nothing."), *pages)
    code = [tool(n, "run", {"code": c}, "") for n, c in enumerate(["a = b + c", "c = b + a"] * 2)]
    assert "repeated_call" not in kinds(root("?", "I found nothing."), *code[1:])


async def test_a_loop_that_the_instructions_forbid_says_so() -> None:
    system = "You look things up.\nNever repeat a call with the same arguments."
    told = call(1, system=system, user="?", asks=[("look", "{}")])
    calls = [tool(n, "look", {"q": "x"}, "nothing new") for n in (2, 3, 4)]
    trace = run(root("?", "I found nothing."), told, *calls)
    found = await analyze(MemorySource([trace]), TraceQuery(), project="p")
    (finding,) = found.findings
    assert "Line 2 of the instructions asks for it already" in finding.diagnosis.summary
    assert finding.diagnosis.parameters["already"] == "line-2"
