"""Playbooks fit an operator's files or say why not; a reviewer's own text is merged as exactly."""

import pytest

from configs.playbooks import load_playbooks, parse_playbook
from contracts.errors import PolicyRefused
from contracts.findings import Finding
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json
from nodes.evolution.draft import draft, person_edit, why_none
from nodes.evolution.edits import apply_operations
from nodes.evolution.playbook import shape_words, slug
from nodes.evolution.policy import check, refused, risk_of
from tests.card_worlds import INCLUDE, MAIN, RETRY, edit, finding, harness, replacing

FILE = "instructions/main.md"
BOOKS = load_playbooks()
PLAIN = harness(main=MAIN)


def _format_finding(**changed: Json) -> Finding:
    facts: dict[str, Json] = {
        "tool": "get_order", "argument": "order_id", "good_example": "A-1042", "shape": "A-9999"
    }  # fmt: skip
    merged = facts | changed
    return finding("wrong_argument_format", ("instructions", "skill"), title="order ids", **merged)


def _order_finding() -> Finding:
    return finding(
        "missing_prerequisite", ("skill", "instructions"),
        tool="create_return_label", prerequisite="verify_address",
    )  # fmt: skip


def _after(about: Finding, before: HarnessSnapshot, include: tuple[str, ...] = INCLUDE) -> str:
    """The added or changed file with the best draft, as text."""
    best = draft(about, before, BOOKS, include=include)[0]
    after = apply_operations(before, best.operations)
    (path,) = before.changed(after)
    return f"{path}\n{after.files[path].data.decode()}"


@pytest.mark.parametrize(
    ("about", "path", "sentence"),
    [
        (
            finding(),
            "skills/retry-payment-api/SKILL.md",
            "If `payment_api` answers with status 504 or times out, call it again with the same "
            "arguments, at most 3 times.",
        ),
        (
            finding(tool="payment_api", status="ReadTimeout"),
            "skills/retry-payment-api/SKILL.md",
            "If `payment_api` times out, call it again with the same arguments, at most 3 times.",
        ),
        (
            _format_finding(),
            FILE,
            "Pass `order_id` to `get_order` in the form `A-1042`: one capital letter, a hyphen, "
            "four digits.",
        ),
        (
            _order_finding(),
            "skills/before-create-return-label/SKILL.md",
            "Always call `verify_address` before `create_return_label`.",
        ),
    ],
)
def test_a_known_cause_gets_a_plain_sentence_that_passes_policy_at_low_risk(
    about: Finding, path: str, sentence: str
) -> None:
    (best, *_) = draft(about, PLAIN, BOOKS, include=INCLUDE)
    after = apply_operations(PLAIN, best.operations)
    assert PLAIN.changed(after) == (path,)
    assert f"- {sentence}\n" in after.files[path].data.decode()
    invariants = ["never promise a delivery date"]
    checks = check(PLAIN, after, best, include=INCLUDE, invariants=invariants)
    assert refused(checks) is None
    assert risk_of(PLAIN, after, best)[0] == "low"
    assert "{" not in after.files[path].data.decode() + best.why + best.falsifier


def test_one_cause_has_one_playbook_with_and_without_a_status() -> None:
    assert len(draft(finding(), PLAIN, BOOKS, include=INCLUDE)) == 1
    silent = finding(tool="payment_api")
    assert [d.author for d in draft(silent, PLAIN, BOOKS, include=INCLUDE)] == [
        "playbook:tool-silence-retry"
    ]


def test_a_skill_goes_where_the_operator_keeps_skills() -> None:
    text = _after(finding(), PLAIN, ("instructions/*.md", "agent/skills/**"))
    assert text.startswith("agent/skills/retry-payment-api/SKILL.md\n")


def test_without_a_skills_folder_the_end_of_the_first_instruction_file_is_the_place() -> None:
    text = _after(finding(), PLAIN, ("instructions/*.md",))
    assert text.startswith(FILE + "\n" + MAIN.rstrip("\n"))
    assert text.rstrip("\n").endswith("that it is still open.")
    assert "\n\n## When payment_api is slow\n\n- If `payment_api`" in text


def test_an_instruction_goes_under_the_tools_heading_else_to_the_end() -> None:
    assert "## Tools\n\n- Pass `order_id`" in _after(_format_finding(), PLAIN)
    bare = harness(main="# Agent\n\nBe kind.")
    assert "Be kind.\n\n## Form of order_id\n\n- Pass `order_id`" in _after(_format_finding(), bare)


def test_a_windows_file_keeps_its_line_ends_under_a_playbook() -> None:
    windows = harness(main=MAIN.replace("\n", "\r\n").encode())
    (best, *_) = draft(_format_finding(), windows, BOOKS, include=INCLUDE)
    data = apply_operations(windows, best.operations).files[FILE].data
    assert data.count(b"\n") == data.count(b"\r\n") == MAIN.count("\n") + 3


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        (finding("rate_limited", ("tool",), tool="x"), "no playbook is for cause rate_limited"),
        (finding(status="504"), "needs tool, which the evidence does not show"),
        (finding(tool="a b; rm", status="504"), "needs tool as a plain name or code"),
        (finding(tool="x" * 41, status="504"), "needs tool as a plain name or code"),
        (finding(tool="{status}", status="504"), "needs tool as a plain name or code"),
        (finding(tool="--", status="504"), "needs tool with a letter or a digit"),
        (finding("tool_timeout", ("infrastructure",), tool="x", status="504"), "serves skill and"),
    ],
)
def test_no_draft_says_why(about: Finding, reason: str) -> None:
    assert draft(about, PLAIN, BOOKS, include=INCLUDE) == ()
    assert reason in why_none(about, PLAIN, BOOKS, include=INCLUDE)


def test_a_form_that_nobody_saw_is_not_stated() -> None:
    about = _format_finding(shape=None)
    (best,) = draft(about, PLAIN, BOOKS, include=INCLUDE)
    assert best.author == "playbook:refused-arguments"
    assert "A-1042" not in best.operations[0].text
    books = [book for book in BOOKS if book.id == "argument-format"]
    reason = why_none(about, PLAIN, books, include=INCLUDE)
    assert reason == "argument-format: needs shape, which the evidence does not show"


def test_a_skill_that_is_there_makes_room_for_the_next_place() -> None:
    before = harness(main=MAIN, **{"retry-payment-api": "there"})
    (best,) = draft(finding(), before, BOOKS, include=INCLUDE)
    assert best.operations[0].path == FILE


def test_a_playbook_that_adds_a_file_elsewhere_does_not_fit() -> None:
    own = parse_playbook(
        "id: aaa-note\nwhen: {cause: tool_timeout, remedy: [instructions]}\n"
        "needs: {tool: evidence.tool}\nwhy: w\nedit:\n"
        "  - {op: add_file, path: 'docs/{tool_slug}.md', text: 'Note {tool}.'}\n",
        "aaa.yaml",
    )
    assert draft(finding(), PLAIN, (own,), include=INCLUDE) == ()
    reason = why_none(finding(), PLAIN, (own,), include=INCLUDE)
    assert reason == "aaa-note: docs/payment-api.md: harness.include does not name it"


def test_the_order_of_drafts_is_that_of_the_diagnosis() -> None:
    own = parse_playbook(
        "id: aaa-note\nwhen: {cause: tool_timeout, remedy: [instructions]}\n"
        "needs: {tool: evidence.tool}\nwhy: w\nedit:\n"
        "  - {op: insert_after, file: '{instructions}', text: 'Note {tool}.'}\n",
        "aaa.yaml",
    )
    skill_first = draft(finding(), PLAIN, (own, *BOOKS), include=INCLUDE)
    assert [d.author for d in skill_first] == ["playbook:tool-timeout-retry", "playbook:aaa-note"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("A-1042", "one capital letter, a hyphen, four digits"),
        ("ab_9", "two small letters, an underscore, one digit"),
        ("A--9", "one capital letter, two of '-', one digit"),
        ("123456789012", "12 digits"),
    ],
)
def test_a_shape_is_said_in_words(value: str, words: str) -> None:
    assert shape_words(value) == words


def test_a_slug_is_a_valid_folder_name() -> None:
    assert slug("Payment_API:v2/") == "payment-api-v2"


PROPOSED = edit(RETRY, replacing(FILE, "You help customers", "You kindly help customers"))
CANDIDATE = apply_operations(PLAIN, PROPOSED.operations)


def test_a_reviewers_texts_become_the_new_candidate_on_the_same_base() -> None:
    texts = {RETRY.path: RETRY.text.replace("3 times", "2 times").replace("\n", "\r\n")}
    after, made = person_edit(PLAIN, CANDIDATE, texts, by="mara", draft=PROPOSED)
    assert after.files[RETRY.path].data.decode() == RETRY.text.replace("3 times", "2 times")
    assert after.files[FILE] == CANDIDATE.files[FILE]
    assert apply_operations(PLAIN, made.operations) == after
    assert (made.author, made.falsifier) == ("person:mara", PROPOSED.falsifier)


def test_a_reviewers_text_keeps_line_ends_mark_and_last_newline_of_the_base() -> None:
    base = harness(main=b"\xef\xbb\xbfone\r\ntwo\nthree")
    candidate = apply_operations(base, [replacing(FILE, "one", "1")])
    texts = {FILE: "one\ntwo\nfour\n"}
    after, _ = person_edit(base, candidate, texts, by="mara", draft=PROPOSED)
    assert after.files[FILE].data == b"\xef\xbb\xbfone\r\ntwo\nfour"


def test_a_new_file_that_a_reviewer_empties_is_left_out() -> None:
    after, made = person_edit(PLAIN, CANDIDATE, {RETRY.path: " \n"}, by="mara", draft=PROPOSED)
    assert RETRY.path not in after.files
    assert [o.path for o in made.operations] == [FILE]


def test_a_reviewer_who_puts_everything_back_changes_nothing() -> None:
    texts = {RETRY.path: "", FILE: MAIN}
    after, made = person_edit(PLAIN, CANDIDATE, texts, by="mara", draft=PROPOSED)
    assert after == PLAIN
    assert made.operations == ()


def test_a_reviewers_new_path_is_for_policy_and_an_unsafe_one_is_refused_at_once() -> None:
    after, made = person_edit(PLAIN, CANDIDATE, {"etc/x.md": "x"}, by="mara", draft=PROPOSED)
    checks = check(PLAIN, after, made, include=INCLUDE, invariants=())
    assert "etc/x.md: path not allowed" in (refused(checks) or "")
    with pytest.raises(PolicyRefused, match=r"unsafe part '\.\.'"):
        person_edit(PLAIN, CANDIDATE, {"../x.md": "x"}, by="mara", draft=PROPOSED)
