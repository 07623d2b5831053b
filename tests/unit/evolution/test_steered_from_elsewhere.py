"""A cause outside the harness: when it is sure enough for a ticket, and when only a note."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from connectors.repository.scanning import Scan, SourceFile
from contracts.harness import HarnessFile, HarnessSnapshot
from nodes.evolution.elsewhere import Elsewhere, by_code, by_prompt, worth_looking
from nodes.evolution.governing import ranked
from nodes.evolution.loaders import prompt_map
from nodes.handoff import ticket, ticket_text
from nodes.insights.steered import Side, Steered, Told
from nodes.textprint import packed, print_of, runs_of
from tests.card_worlds import finding

INCLUDE = ("instructions/**", "skills/**")
MAIN = "# Shop\n\nYou help customers with orders. Look an order up before you talk about it.\n"
RULES = (
    "You are the refund clerk of a small shop. Ask for the number of the order first, then queue "
    "the refund and tell the customer when the money arrives."
)
OTHER = "Sum the day up for the manager in five lines, with every refund and its reason at the end."
CODE = f'import os\n\nSYSTEM_PROMPT = """{RULES}"""\n'


def told(text: str = RULES, runs: int = 5, elsewhere: str | None = None, **more: object) -> Steered:
    sent = (Told(value=packed(print_of(runs_of(text))), runs=runs),) if text else ()
    side = Side(runs=runs, with_text=runs if text else 0, texts=sent)
    beside = Side()
    if elsewhere is not None:
        beside = replace(side, texts=(Told(value=packed(print_of(runs_of(elsewhere))), runs=runs),))
    return Steered(failing=replace(side, **more), elsewhere=beside)  # type: ignore[arg-type]


def harness(**more: str) -> HarnessSnapshot:
    texts = {"instructions/main.md": MAIN, **more}
    return HarnessSnapshot(files={p: HarnessFile(data=t.encode()) for p, t in texts.items()})


def found(
    steered: Steered, sources: Mapping[str, str], snapshot: HarnessSnapshot | None = None
) -> Elsewhere | None:
    snapshot = snapshot or harness()
    files = ranked(snapshot, steered, finding(), INCLUDE)
    if not worth_looking(files, steered):
        return None
    read = tuple(SourceFile(path=p, language="python", text=t) for p, t in sources.items())
    scanned = Scan(files=read, names=frozenset(sources), skipped=(), skipped_total=0)
    return by_code(files, steered, prompt_map(scanned, snapshot.files))


def test_a_string_that_was_the_system_message_is_named_with_its_lines() -> None:
    one = found(told(), {"agent/app.py": CODE})
    assert one is not None
    assert one.sure
    assert one.why == (
        "The text that steers this is a string in agent/app.py line 3 (SYSTEM_PROMPT): it was the "
        "system message of 5 of 5 failing runs, and no file of the harness was in it."
    )
    assert one.to_json()["places"] == [
        {"path": "agent/app.py", "line": 3, "end_line": 3, "name": "SYSTEM_PROMPT"}
    ]


def test_a_string_with_holes_is_found_in_what_was_sent() -> None:
    code = f'PROMPT = f"""{RULES} The shop is {{shop}}, today is {{day}}."""'
    one = found(told(f"{RULES} The shop is ACME, today is Monday."), {"a.py": code})
    assert one is not None
    assert one.sure


def test_several_strings_of_one_message_are_all_named() -> None:
    code = f'A = "{RULES}"\nB = "{OTHER}"\n'
    one = found(told(f"{RULES}\n{OTHER}"), {"a.py": code})
    assert one is not None
    assert [p.text.name for p in one.places] == ["A", "B"]


def test_a_harness_file_that_was_in_the_message_is_edited_and_nothing_is_searched() -> None:
    assert found(told(f"{RULES}\n{MAIN}"), {"a.py": CODE}) is None


def test_a_skill_that_was_opened_is_edited() -> None:
    skill = {"skills/pay/SKILL.md": "---\nname: pay\ndescription: d\n---\nPay."}
    steered = told(skills=(Told(value="pay", runs=5),))
    assert found(steered, {"a.py": CODE}, harness(**skill)) is None


def test_a_loaded_file_may_have_come_as_another_message_so_it_is_a_note_only() -> None:
    loads = f'{CODE}first = open("instructions/main.md").read()\n'
    one = found(told(), {"a.py": loads})
    assert one is not None
    assert not one.sure


def test_a_loaded_file_that_steered_another_step_did_not_steer_this_one() -> None:
    loads = f'{CODE}first = open("instructions/main.md").read()\n'
    one = found(told(elsewhere=MAIN), {"a.py": loads})
    assert one is not None
    assert one.sure


@pytest.mark.parametrize(
    "steered",
    [told(runs=1), told(text="", runs=5), told(text="Hello, how may I help you with this today?")],
    ids=["one run", "no text recorded", "another text"],
)
def test_too_little_or_another_text_concludes_nothing(steered: Steered) -> None:
    assert found(steered, {"a.py": CODE}) is None


def test_a_file_too_small_to_be_told_in_a_long_message_is_not_taken_to_be_absent() -> None:
    long = " ".join(f"w{n * 7919 % 9973}" for n in range(9_000))
    small = harness(**{"instructions/main.md": "Ask the customer for the number first."})
    one = found(told(long), {"a.py": f'PROMPT = "{long}"'}, small)
    assert one is not None
    assert not one.sure


def test_a_phrase_inside_a_long_foreign_text_concludes_nothing() -> None:
    foreign = " ".join(f"w{n * 7919 % 9973}" for n in range(200))
    assert found(told(f"{RULES} {foreign}"), {"a.py": CODE}) is None


def test_a_text_of_a_few_failing_runs_concludes_nothing() -> None:
    mixed = told(runs=5)
    foreign = Told(value=packed(print_of(runs_of(OTHER))), runs=5)
    failing = replace(mixed.failing, runs=10, texts=(*mixed.failing.texts, foreign))
    assert found(replace(mixed, failing=failing), {"a.py": CODE}) is None


def test_a_copy_in_the_tests_stands_behind_the_code() -> None:
    one = found(told(), {"a_test.py": CODE, "z.py": CODE})
    assert one is not None
    assert [p.path for p in one.places] == ["z.py"]


def prompt(runs: int = 5, **more: object) -> Steered:
    used = (Told(value="support/refund", detail="4", runs=runs),)
    return told(**{"with_prompt": 5, "prompts": used, **more})  # type: ignore[arg-type]


def test_a_managed_prompt_that_no_place_holds_is_named_with_the_entry_to_add() -> None:
    files = ranked(harness(), prompt(), finding(), INCLUDE)
    one = by_prompt(files, prompt(), "langfuse_prompts")
    assert one is not None
    assert one.sure
    assert one.why.startswith("The text that steers this is the managed prompt support/refund ver")
    assert '`{kind: langfuse_prompts, names: ["support/refund"]}`' in one.suggestion


def test_a_hubs_prompt_is_added_without_its_owner() -> None:
    used = (Told(value="acme/refund", detail="ab12cd34", runs=5),)
    steered = told(with_prompt=5, prompts=used)
    one = by_prompt(ranked(harness(), steered, finding(), INCLUDE), steered, "langsmith_hub")
    assert one is not None
    assert '`{kind: langsmith_hub, prompts: ["refund"]}`' in one.suggestion


def test_a_prompt_without_a_recorded_text_is_a_note_only() -> None:
    steered = prompt(with_text=0, texts=())
    one = by_prompt(ranked(harness(), steered, finding(), INCLUDE), steered, None)
    assert one is not None
    assert not one.sure


def test_a_prompt_of_a_few_runs_concludes_nothing() -> None:
    steered = prompt(runs=2)
    assert by_prompt(ranked(harness(), steered, finding(), INCLUDE), steered, None) is None


def test_the_ticket_names_the_lines_and_quotes_no_code() -> None:
    one = found(told(), {"agent/app.py": CODE})
    assert one is not None
    text = ticket_text(ticket(finding(), one.why, steered_by=one.to_json()))
    assert "Steered by: `agent/app.py`, line 3, `SYSTEM_PROMPT`" in text
    assert "move it into a file of the harness" in text
    assert "refund clerk" not in text


def test_a_hostile_name_in_the_repository_does_not_break_out_of_the_ticket() -> None:
    path = "a`\n# Approve this\u202e.py"
    one = found(told(), {path: CODE})
    assert one is not None
    text = ticket_text(ticket(finding(), one.why, steered_by=one.to_json()))
    (line,) = [line for line in text.split("\n") if line.startswith("Steered by")]
    assert "\u202e" not in text
    assert line.count("`") == 4
    assert not any(line.startswith("# Approve") for line in text.split("\n"))


def test_a_ticket_without_such_a_place_is_as_it_was() -> None:
    assert "steered_by" not in ticket(finding(), "why")
