"""What an edit added is found again, changed or taken out; a comment never does harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.playbooks import load_playbooks, parse_playbook
from connectors.prompts.text import chat_text
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import Operation
from nodes.evolution.draft import draft, why_none
from nodes.evolution.edits import apply_operations
from nodes.evolution.items import (
    ITEM_COMMENT,
    comment_of,
    commented,
    item_id,
    items_in,
    located,
    takes_comments,
)
from nodes.evolution.items_found import KnownText, own_items, retired
from nodes.evolution.items_kept import added_blocks
from nodes.evolution.policy import RejectedEdit, check, refused
from nodes.evolution.provenance import provenanced
from nodes.evolution.skill_file import skill_problems
from tests.card_worlds import INCLUDE, MAIN, edit, finding, harness, inserting, replacing

BOOKS = load_playbooks()
FILE = "instructions/main.md"
SKILL = "skills/retry-payment-api/SKILL.md"
PLAIN = harness(main=MAIN)
ABOUT = finding()
SIGNATURE, FINDING = str(ABOUT.signature), str(ABOUT.id)
NO_SKILLS = ("instructions/*.md",)
SECTION = "\n## When stock is low\n\n- Say so at once.\n- Offer the next size.\n"


def marked(text: str, anchor: str, main: str = MAIN, path: str = FILE) -> str:
    """The file after an insertion that carries its comment where it may."""
    before = HarnessSnapshot(files={path: HarnessFile(data=main.encode())})
    made = provenanced(
        before, [inserting(path, anchor, text)], signature=SIGNATURE, finding=FINDING
    )
    return apply_operations(before, made).files[path].data.decode()


def released(before: HarnessSnapshot, include: tuple[str, ...] = INCLUDE) -> HarnessSnapshot:
    """The harness with the best playbook's draft, marked as a release marks it."""
    best = draft(ABOUT, before, BOOKS, include=include)[0]
    made = provenanced(before, best.operations, signature=SIGNATURE, finding=FINDING)
    return apply_operations(before, made)


def test_an_item_has_a_comment_on_a_line_of_its_own_before_it() -> None:
    text = marked(SECTION, "- Never promise a delivery date.")
    item = item_id(SIGNATURE, SECTION)
    assert f"\n\n{comment_of(item, FINDING)}\n## When stock is low\n\n- Say" in text
    assert text.count("tracemend") == 1


def test_an_id_follows_from_the_failure_and_the_words_and_from_nothing_else() -> None:
    assert item_id(SIGNATURE, "- Say  so.\n") == item_id(SIGNATURE, "\n- Say so.")
    assert item_id(SIGNATURE, "- Say so.") != item_id(SIGNATURE, "- Say no.")
    assert item_id(SIGNATURE, "- Say so.") != item_id("other:tool", "- Say so.")
    marked_text = commented("- Say so.", signature=SIGNATURE, finding=FINDING)
    assert item_id(SIGNATURE, marked_text) == item_id(SIGNATURE, "- Say so.")


def test_a_skill_has_its_comment_after_the_front_matter_and_stays_well_formed() -> None:
    after = released(PLAIN)
    text = after.files[SKILL].data.decode()
    assert text.startswith("---\nname: retry-payment-api\n")
    head, comment, body = text.partition(ITEM_COMMENT.search(text)[0])  # type: ignore[index]  # it is there
    assert (head.endswith("---\n\n"), bool(comment)) == (True, True)
    assert body.startswith("\n# When payment_api is slow\n")
    assert skill_problems(SKILL, text) == {}
    (item,) = items_in(text)
    assert item.text.startswith("# When payment_api is slow\n\n- If")
    assert item.intact(SIGNATURE)


@pytest.mark.parametrize(
    ("path", "main", "anchor", "text"),
    [
        ("prompts/desk.md", MAIN, "## Tools", "- Say so."),
        ("prompts/desk.chat.md", chat_text([{"role": "system", "content": "Hi."}]), "Hi.", "- A."),
        ("instructions/main.txt", MAIN, "## Tools", "- Say so."),
        (FILE, "---\nname: a\nmode: b\n---\n\nText.\n", "name: a", "tags: c"),
        (FILE, "Text.\n\n```\na\n```\n", "```\na", "b"),
        (FILE, "| a | b |\n|---|---|\n| 1 | 2 |\n", "| 1 | 2 |", "| 3 | 4 |"),
        (FILE, "| a | b |\n|---|---|\n| 1 | 2 |\n", "| 1 | 2 |", "3 | 4"),
        (FILE, "- a\n- b\n", "- a", "  - c"),
    ],
)
def test_no_comment_where_it_would_be_read_or_break_the_form(
    path: str, main: str, anchor: str, text: str
) -> None:
    after = marked(text, anchor, main, path)
    assert "tracemend" not in after
    assert text in after


def test_marking_twice_changes_nothing_and_what_does_not_merge_comes_back_as_it_is() -> None:
    made = [inserting(FILE, "## Tools", SECTION)]
    once = provenanced(PLAIN, made, signature=SIGNATURE, finding=FINDING)
    assert provenanced(PLAIN, once, signature=SIGNATURE, finding=FINDING) == once
    broken = (inserting(FILE, "no such line", SECTION),)
    assert provenanced(PLAIN, broken, signature=SIGNATURE, finding=FINDING) == broken


@pytest.mark.parametrize("path", ["instructions/new.md", "skills/x/SKILL.md", "notes/new.txt"])
def test_a_comment_that_a_draft_brings_itself_is_not_believed(path: str) -> None:
    forged = comment_of("i-aaaaaaaaaa", "f-bbbbbbbbbb")
    front = "---\nname: x\ndescription: d\n---\n\n" if path.endswith("SKILL.md") else ""
    text = f"{front}{forged}\n- Say so.\n"
    op = Operation(op="add_skill" if front else "add_file", path=path, text=text)
    (made,) = provenanced(PLAIN, [op], signature=SIGNATURE, finding=FINDING)
    assert "i-aaaaaaaaaa" not in made.text
    assert [i.intact(SIGNATURE) for i in items_in(made.text)] == [True] * takes_comments(path)


def test_a_changed_line_that_was_there_before_is_not_marked_as_ours() -> None:
    made = [replacing(FILE, "You help customers", "You kindly help customers")]
    assert provenanced(PLAIN, made, signature=SIGNATURE, finding=FINDING) == tuple(made)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_an_item_is_found_with_its_lines(ending: str) -> None:
    text = marked(SECTION, "You help customers with orders.", MAIN).replace("\n", ending)
    (item,) = items_in(text)
    assert (item.finding, item.intact(SIGNATURE)) == (FINDING, True)
    rows = text.replace("\r\n", "\n").split("\n")
    assert rows[item.start].startswith("<!-- tracemend i-")
    assert "\n".join(rows[item.start + 1 : item.stop]) == SECTION.strip("\n")
    assert rows[item.stop : item.stop + 2] == ["", "## Tools"]


def test_a_list_that_goes_on_after_an_item_is_not_part_of_it() -> None:
    main = "## Tools\n- Look first.\n- Be kind.\n"
    text = marked("- Say so at once.\n- Offer the next size.", "## Tools", main)
    (loose,) = items_in(text)
    assert loose.text.endswith("- Be kind.")  # by its form alone it cannot be told
    (exact,) = items_in(text, {FINDING: SIGNATURE})
    assert exact.text == "- Say so at once.\n- Offer the next size."


def test_a_hand_edit_shows_and_a_comment_in_other_words_is_none() -> None:
    text = marked(SECTION, "## Tools").replace("at once", "later")
    (item,) = items_in(text, {FINDING: SIGNATURE})
    assert not item.intact(SIGNATURE)
    assert item.text.startswith("## When stock is low")
    for other in ("<!-- tracemend i-abc f-abc -->", " <!-- tracemend x -->", "<!-- note -->"):
        assert items_in(f"{other}\n- a\n") == ()
    hidden = text.replace(" -->", " obey me -->")
    assert items_in(hidden) == ()


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert all(0 <= i.start < i.stop for i in items_in(text))
    located(text, text)


def test_an_item_in_a_vendors_prompt_is_found_by_its_words() -> None:
    text = f"You help.\n{SECTION}\nBe kind.\n"
    place = located(text, SECTION)
    assert place is not None
    assert "\n".join(text.split("\n")[place[0] : place[1]]) == SECTION.strip("\n")
    assert located(text + SECTION, SECTION) is None
    assert located(text, "- not there") is None
    assert added_blocks("a\nb", f"a\n{SECTION}\nb") == (SECTION.strip("\n"),)


@pytest.mark.parametrize("include", [INCLUDE, NO_SKILLS])
def test_a_finding_that_came_back_changes_its_item_and_adds_no_second(
    include: tuple[str, ...],
) -> None:
    before = released(PLAIN, include)
    (path,) = PLAIN.changed(before)
    best = draft(ABOUT, before, BOOKS, include=include)[0]
    assert [o.op for o in best.operations] == ["replace"]
    assert "came back although item i-" in best.why
    made = provenanced(before, best.operations, signature=SIGNATURE, finding=FINDING)
    after = apply_operations(before, made)
    assert before.changed(after) == (path,)
    checks = check(before, after, best, include=include, invariants=())
    assert refused(checks) is None
    was, now = (
        items_in(s.files[path].data.decode(), {FINDING: SIGNATURE}) for s in (before, after)
    )
    assert len(was) == len(now) == 1
    assert now[0].id != was[0].id
    assert now[0].text.startswith(was[0].text)
    assert "count the calls of `payment_api`" in now[0].text
    assert now[0].intact(SIGNATURE)
    assert draft(ABOUT, after, BOOKS, include=include) == ()
    assert "says it already" in why_none(ABOUT, after, BOOKS, include=include)


def test_our_own_rule_is_no_reason_against_a_stronger_one() -> None:
    about = finding(tool="payment_api", status="504", already="line-9")
    assert draft(about, PLAIN, BOOKS, include=INCLUDE) == ()
    assert len(draft(about, released(PLAIN), BOOKS, include=INCLUDE)) == 1


def test_an_item_of_another_playbook_is_replaced_and_keeps_the_depth_of_its_heading() -> None:
    own = parse_playbook(
        "id: aaa-note\nwhen: {cause: tool_timeout, remedy: [instructions]}\n"
        "needs: {tool: evidence.tool}\nwhy: w\nedit:\n"
        "  - {op: insert_after, file: '{instructions}',\n"
        "     text: '#### Note\n\n\n- Call {tool} once.'}\n",
        "aaa.yaml",
    )
    first = draft(ABOUT, PLAIN, (own,), include=NO_SKILLS)[0]
    before = apply_operations(
        PLAIN, provenanced(PLAIN, first.operations, signature=SIGNATURE, finding=FINDING)
    )
    best = draft(ABOUT, before, BOOKS, include=NO_SKILLS)[0]
    after = apply_operations(before, best.operations).files[FILE].data.decode()
    assert "Call payment_api once." not in after
    assert "\n#### When payment_api is slow\n" in after


def test_an_item_that_a_person_changed_stays_as_the_person_left_it() -> None:
    before = released(PLAIN, NO_SKILLS)
    text = before.files[FILE].data.decode().replace("at most 3 times", "at most twice")
    by_hand = HarnessSnapshot(files={FILE: HarnessFile(data=text.encode())})
    assert draft(ABOUT, by_hand, BOOKS, include=NO_SKILLS) == ()
    assert "was changed by hand since; it stays" in why_none(
        ABOUT, by_hand, BOOKS, include=NO_SKILLS
    )


def test_in_a_vendors_prompt_the_item_is_changed_where_the_ledger_knows_it() -> None:
    path, include = "prompts/desk.md", ("prompts/desk.md",)
    before = HarnessSnapshot(files={path: HarnessFile(data=b"You help.\n")})
    after = released(before, include)
    text = after.files[path].data.decode()
    assert "tracemend" not in text
    (block,) = added_blocks("You help.\n", text)
    known = (KnownText(path=path, text=block, finding=FINDING, signature=SIGNATURE),)
    (placed,) = own_items(after, {FINDING: SIGNATURE}, known)
    assert placed.item.intact(SIGNATURE)
    best = draft(ABOUT, after, BOOKS, include=include, known=known)[0]
    again = apply_operations(after, best.operations).files[path].data.decode()
    assert again.count("When payment_api is slow") == 1
    assert "count the calls" in again


@pytest.mark.parametrize("anchor", ["## Tools", "You help customers with orders.", "date."])
def test_a_retired_item_leaves_no_trace(anchor: str) -> None:
    text = marked(SECTION, anchor)
    before = HarnessSnapshot(files={FILE: HarnessFile(data=text.encode())})
    (placed,) = own_items(before, {FINDING: SIGNATURE})
    gone = retired(placed, before)
    assert isinstance(gone, Operation)
    after = apply_operations(before, [gone]).files[FILE].data.decode()
    assert after == MAIN


def test_a_whole_skill_is_not_retired_but_undone() -> None:
    before = released(PLAIN)
    (placed,) = own_items(before, {FINDING: SIGNATURE})
    said = retired(placed, before)
    assert isinstance(said, str)
    assert "undo the release" in said


def test_the_comment_hides_no_near_copy_of_a_rejected_edit() -> None:
    other = "signature:of:another"
    plain = [inserting(FILE, "## Tools", SECTION)]
    made = provenanced(PLAIN, plain, signature=other, finding="f-aaaaaaaaaa")
    after = apply_operations(PLAIN, made)
    was = provenanced(PLAIN, plain, signature=SIGNATURE, finding=FINDING)[0].text
    rejected = [RejectedEdit(proposal="p-1", text=was)]
    checks = check(PLAIN, after, edit(*made), include=INCLUDE, invariants=(), rejected=rejected)
    assert "near copy of p-1" in (refused(checks) or "")


def test_a_rule_right_below_a_comment_is_still_seen_to_be_there() -> None:
    rule = "Close the till of the shop at night."
    before = harness(main=f"# Desk\n\n{comment_of('i-aaaaaaaaaa', FINDING)}\n{rule}\n\nBe kind.\n")
    made = edit(inserting(FILE, "Be kind.", f"\n{rule}"))
    after = apply_operations(before, made.operations)
    said = refused(check(before, after, made, include=INCLUDE, invariants=()))
    assert "rule-there" in (said or "")


def test_the_comment_is_no_rule_and_breaks_none() -> None:
    once = apply_operations(
        PLAIN,
        provenanced(
            PLAIN, [inserting(FILE, "## Tools", SECTION)], signature=SIGNATURE, finding=FINDING
        ),
    )
    more = [inserting(FILE, "- Never promise", "\n## Else\n\n- Close the till at night.\n")]
    made = provenanced(once, more, signature=SIGNATURE, finding=FINDING)
    after = apply_operations(once, made)
    checks = check(once, after, edit(*made), include=INCLUDE, invariants=("close the till",))
    assert refused(checks) is None
    assert (takes_comments("a/SKILL.md"), takes_comments("prompts/a.md")) == (True, False)
