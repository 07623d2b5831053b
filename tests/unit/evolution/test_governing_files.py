"""Which harness file governs a finding, by what its failing runs recorded."""

from dataclasses import replace
from pathlib import Path

import pytest

from contracts.codec import to_json
from contracts.harness import HarnessFile, HarnessSnapshot
from nodes.evolution.governing import governing_file, notes_on, ranked, version_in
from nodes.evolution.prompt import Brief, finding_text, system_text
from nodes.insights.steered import KEY, Side, Steered, Told
from nodes.textprint import packed, print_of, runs_of
from tests.card_worlds import QUOTES, finding
from tests.draft_worlds import RULE, drafted, project

INCLUDE = ("instructions/**", "skills/**", "prompts/**", "agents/**")
MAIN = "# Shop\n\nYou help customers with orders. Look an order up before you talk about it.\n"
REFUND = "You are the refund clerk. Ask for the order's number, then queue the refund politely.\n"
SKILL = (
    "---\nname: refund-order\ndescription: when a refund is asked for\n---\n# Refund\n\nDo it.\n"
)


def snapshot(origin: str | None = None, **more: str) -> HarnessSnapshot:
    texts = {"instructions/main.md": MAIN, "skills/refund-order/SKILL.md": SKILL, **more}
    files = {path: HarnessFile(data=text.encode()) for path, text in texts.items()}
    return HarnessSnapshot(files=files, origin=origin)


def sent(text: str, runs: int = 9) -> Told:
    return Told(value=packed(print_of(runs_of(text))), runs=runs)


def failing(runs: int = 9, **what: tuple[Told, ...]) -> Steered:
    counts = {
        "with_text": runs if "texts" in what else 0,
        "with_prompt": runs if "prompts" in what else 0,
        "with_agent": runs if "agents" in what else 0,
    }
    return Steered(failing=replace(Side(runs=runs, **counts), **what))  # type: ignore[arg-type]


def first(told: Steered, **more: str) -> tuple[str, str]:
    best = ranked(snapshot(**more), told, finding(), INCLUDE)[0]
    return best.path, best.why


def test_without_any_record_the_file_that_speaks_of_the_tool_then_the_main_one_comes_first() -> (
    None
):
    assert first(Steered())[0] == "instructions/main.md"
    path, why = first(Steered(), **{"instructions/pay.md": "Use payment_api with care."})
    assert (path, why) == ("instructions/pay.md", "it speaks of payment_api")


def test_the_prompt_of_the_failing_runs_governs() -> None:
    told = failing(12, prompts=(Told(value="support/refund", detail="4", runs=12),))
    path, why = first(told, **{"prompts/support/refund.chat.md": f"=== system ===\n{REFUND}"})
    assert path == "prompts/support/refund.chat.md"
    assert why == "prompt support/refund v4 in 12 of 12 failing runs"


def test_the_text_that_was_sent_governs_whatever_the_file_is_called() -> None:
    told = failing(texts=(sent(f"Today is Monday.\n{REFUND}\nBe brief."),))
    path, why = first(told, **{"instructions/zz.md": REFUND})
    assert path == "instructions/zz.md"
    assert why == "its text is in the system message of 9 of 9 failing runs"


def test_a_chat_is_compared_by_its_system_message_and_a_template_without_its_holes() -> None:
    chat = f"=== system ===\n{REFUND}\nThe shop is {{{{shop}}}}.\n=== user ===\n{{{{question}}}}\n"
    told = failing(texts=(sent(f"{REFUND}\nThe shop is ACME."),))
    assert first(told, **{"prompts/x.chat.md": chat})[0] == "prompts/x.chat.md"


def test_a_file_of_which_a_part_was_sent_governs() -> None:
    told = failing(texts=(sent(REFUND),))
    book = f"# Everything\n\n{MAIN * 3}\n\n## Refunds\n\n{REFUND}"
    assert first(told, **{"instructions/book.md": book})[0] == "instructions/book.md"


def test_of_several_agents_the_one_that_failed_decides() -> None:
    other = "You are the shipping clerk. Say where the parcel is and nothing else, in one line.\n"
    told = Steered(
        failing=failing(texts=(sent(REFUND),)).failing,
        elsewhere=failing(texts=(sent(other),)).failing,
    )
    files = {"agents/billing/AGENTS.md": REFUND, "agents/shipping/AGENTS.md": other}
    assert first(told, **files)[0] == "agents/billing/AGENTS.md"


def test_a_file_called_after_the_failing_agent_governs_where_no_text_was_recorded() -> None:
    told = failing(7, agents=(Told(value="Billing Agent", runs=7),))
    path, why = first(told, **{"instructions/billing.md": REFUND})
    assert path == "instructions/billing.md"
    assert "named like the agent Billing Agent of 7 of 7" in why


def test_a_skill_that_failing_runs_opened_governs_but_takes_no_instruction() -> None:
    told = failing(8, skills=(Told(value="refund-order", runs=7),))
    files = ranked(snapshot(), told, finding(), INCLUDE)
    assert files[0].path == "skills/refund-order/SKILL.md"
    assert files[0].why == "skill refund-order was loaded in 7 of 8 failing runs"
    assert governing_file(files) is None


def test_less_of_the_runs_counts_less() -> None:
    told = failing(10, texts=(sent(REFUND, 2), sent(MAIN, 8)))
    assert first(told, **{"instructions/refund.md": REFUND})[0] == "instructions/main.md"


def test_a_prompt_of_another_folder_is_another_prompt() -> None:
    told = failing(prompts=(Told(value="support/refund", detail="4", runs=9),))
    files = ranked(snapshot(**{"prompts/refund.md": REFUND}), told, finding(), INCLUDE)
    assert all(f.reasons == () or f.reasons[0].kind != "prompt" for f in files)


def test_a_hubs_prompt_is_found_without_its_owner() -> None:
    told = failing(prompts=(Told(value="acme/refund", detail="ab12cd34", runs=9),))
    assert first(told, **{"prompts/refund.md": REFUND})[0] == "prompts/refund.md"


def test_too_little_kept_of_a_long_text_is_not_known_and_said_so() -> None:
    long = " ".join(f"w{n * 7919 % 9973}" for n in range(9_000))
    told = failing(texts=(sent(long),))
    by_path = {g.path: g for g in ranked(snapshot(x="a b"), told, finding(), INCLUDE)}
    assert not by_path["skills/refund-order/SKILL.md"].text_known


def test_no_trace_makes_a_path() -> None:
    told = failing(
        prompts=(Told(value="../../etc/passwd", runs=9),), skills=(Told(value="..", runs=9),),
        agents=(Told(value="/", runs=9),),
    )  # fmt: skip
    paths = {g.path for g in ranked(snapshot(), told, finding(), INCLUDE)}
    assert paths == set(snapshot().files)
    assert not any(g.recorded for g in ranked(snapshot(), told, finding(), INCLUDE))


ORIGINS = ["support/refund@5", "langfuse:prod other@2, support/refund@5", "support/refund v5"]


@pytest.mark.parametrize("origin", ORIGINS)
def test_the_version_of_a_prompt_is_found_in_what_its_place_says(origin: str) -> None:
    assert version_in(origin, "support/refund") == "5"


@pytest.mark.parametrize("origin", [None, "", "3f2a1c9", "other@5", "git:/x 3f2a1c9"])
def test_a_place_that_names_no_version_gives_none(origin: str | None) -> None:
    assert version_in(origin, "support/refund") is None


PROMPT = "prompts/support/refund.md"


def notes(origin: str | None, detail: str, path: str = PROMPT) -> tuple[str, ...]:
    told = failing(12, prompts=(Told(value="support/refund", detail=detail, runs=12),))
    files = ranked(snapshot(origin, **{PROMPT: REFUND}), told, finding(), INCLUDE)
    return notes_on([path], files, told, origin)


def test_a_card_says_why_this_file() -> None:
    (note,) = notes("support/refund@4", "4")
    assert note == f"edits {PROMPT}: prompt support/refund v4 in 12 of 12 failing runs"


def test_a_card_says_that_the_runs_used_another_version() -> None:
    assert notes("support/refund@5", "3")[1] == (
        "12 of 12 failing runs used version 3 of support/refund, this edit is of version 5"
    )


def test_runs_that_tell_no_version_are_not_said_to_have_used_another() -> None:
    assert len(notes("support/refund@5", "")) == 1


def test_a_card_says_that_another_file_governs_more() -> None:
    said = notes(None, "4", path="instructions/main.md")
    assert said[0] == "edits instructions/main.md: it is the main instruction file"
    assert said[1].startswith(f"{PROMPT} is not edited, though more speaks for it: prompt support")


def test_a_new_file_beside_the_governing_one_is_no_doubt() -> None:
    (said,) = notes(None, "4", path="skills/refund/SKILL.md")
    assert said.startswith(f"adds to what {PROMPT} says, which stays as it is: prompt support")


def test_a_card_says_that_nothing_tells_the_file() -> None:
    told = Steered(failing=Side(runs=4))
    files = ranked(snapshot(), told, finding(), INCLUDE)
    said = notes_on(["instructions/main.md"], files, told, None)
    assert said[1] == "the failing runs do not tell which file steered them"


def test_a_finding_of_an_older_release_gets_no_notes() -> None:
    assert notes_on(["instructions/main.md"], [], Steered(), None) == ()


def brief(told: Steered) -> Brief:
    return Brief(
        finding=finding(), unit="trace", evidence=QUOTES, include=INCLUDE, steered=told,
        snapshot=snapshot(**{"instructions/aa.md": "Other things.", "instructions/zz.md": REFUND}),
    )  # fmt: skip


def test_the_editor_is_shown_the_governing_file_first_and_told_why_inside_the_fence() -> None:
    told = failing(texts=(sent(REFUND),))
    text = finding_text(brief(told), count_tokens=len, limit=100_000)
    order = [text.index(f'"{path}"\n') for path in ("instructions/zz.md", "instructions/main.md")]
    assert order == sorted(order)
    fence = text[text.index("<<< finding") : text.index(">>>")]
    assert 'governed by "instructions/zz.md": its text is in the system message' in fence


def test_the_governing_file_is_shown_whole_where_others_are_listed() -> None:
    told = failing(texts=(sent(REFUND),))
    whole = finding_text(brief(told), count_tokens=len, limit=100_000)
    room = whole.index('"instructions/zz.md"\n') + len(REFUND) + 400
    tight = finding_text(brief(told), count_tokens=len, limit=room + len_of_rules(brief(told)))
    assert REFUND.strip() in tight
    assert "Not shown, for want of room" in tight


def len_of_rules(one: Brief) -> int:
    return len(system_text(one))


def test_a_playbook_puts_an_instruction_into_the_file_that_the_runs_were_sent(
    tmp_path: Path,
) -> None:
    ws = project(tmp_path, editor=False, books={"again": RULE})
    (ws.root / "instructions" / "zz.md").write_text(REFUND, "utf-8")
    kept = {
        **ws.ledger.knowledge.evidence(finding().id),
        KEY: to_json(failing(texts=(sent(REFUND),))),
    }
    with ws.ledger.db.write() as tx:
        ws.ledger.knowledge.put_evidence(tx, finding().id, kept)
    made = {one.draft.author: one.draft.operations[0].path for one in drafted(ws).held}
    assert made["playbook:again"] == "instructions/zz.md"
    ws.ledger.close()
