"""Every packaged playbook has a place in each kind of harness, passes the policy, reads well."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from configs.playbooks import Playbook, load_playbooks
from connectors.prompts.text import chat_messages, chat_text
from contracts.findings import Finding, Remedy
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from nodes.evolution.edits import apply_operations
from nodes.evolution.playbook import Fitted, fitted
from nodes.evolution.policy import check, refused, risk_of
from tests.card_worlds import INCLUDE, MAIN, finding, folder, harness

BOOKS = load_playbooks()
REFUNDS = Path(__file__).parents[3] / "examples" / "refund_agent" / "repo"
FACTS: dict[str, Json] = {
    "tool": "stock_api", "status": "504", "argument": "part_id", "good_example": "P-2207",
    "shape": "A-9999", "bad_example": "part", "words": "express/standard/pickup",
    "prerequisite": "check_login", "before": "find_part", "usual": "find_part",
    "closing": "book_part", "steps": 9, "agents": "sales-stock", "agent": "stock_desk",
    "field": "state", "setting": "STOCK_REGION",
}  # fmt: skip
CHAT = chat_text(
    [
        {"role": "system", "content": "You help with parts for {{shop}}.\n\nBe brief."},
        {"role": "user", "content": "Hello.\n\n## Tools\n\nBe brief."},
        {"type": "placeholder", "name": "history"},
        {"role": "user", "content": "{{question}}"},
    ]
)
PROMPT = "You help with parts for {{shop}}.\n\n{{question}}\n"
WORLDS = {
    "plain": (harness(main=MAIN), INCLUDE),
    "no skills": (harness(main=MAIN), ("instructions/*.md",)),
    "one line": (harness(main="Be kind.\n"), ("instructions/*.md",)),
    "refunds": (folder(REFUNDS), ("instructions/*.md", "skills/**")),
    "prompt": (
        HarnessSnapshot(files={"prompts/desk.md": HarnessFile(data=PROMPT.encode())}),
        ("prompts/desk.md",),
    ),
    "chat": (
        HarnessSnapshot(files={"prompts/desk.chat.md": HarnessFile(data=CHAT.encode())}),
        ("prompts/desk.chat.md",),
    ),
}
INVARIANTS = ("never promise a delivery date",)
OUR_WORDS = re.compile(
    r"\b(?:traces?|spans?|findings?|symptoms?|harness|probe|playbook|gate|diagnos\w+|remed\w+|agents?"
    r" under care|LLM|prompt)\b",
    re.IGNORECASE,
)
OTHERWISE = re.compile(r"\b(?:when|where|if|after|until|before)\b", re.IGNORECASE)


def about(book: Playbook, *without: str) -> Finding:
    """A finding that the playbook is for: all that it needs is known, and nothing that it bars."""
    wanted = {
        str(source).removeprefix("evidence.")
        for source in book.needs.values()
        if str(source).startswith("evidence.")
    }
    facts = {name: FACTS[name] for name in {*wanted, *book.where} - set(without)}
    remedies: tuple[Remedy, ...] = book.when.remedy
    return finding(book.when.cause, remedies, title=book.when.cause, **(facts or {"none": 1}))


def drafted(book: Playbook, before: HarnessSnapshot, include: Sequence[str]) -> Fitted:
    fits = fitted(book, about(book), before, include=include)
    assert isinstance(fits, Fitted), f"{book.id}: {fits}"
    return fits


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.id)
def test_a_playbook_has_a_place_and_passes_the_policy(book: Playbook, world: str) -> None:
    before, include = WORLDS[world]
    made = drafted(book, before, include).draft
    after = apply_operations(before, made.operations)
    checks = check(before, after, made, include=include, invariants=INVARIANTS)
    assert refused(checks) is None
    assert risk_of(before, after, made)[0] == "low"
    added = "\n".join(o.text for o in made.operations)
    assert "{" not in added + made.why + made.falsifier
    assert "None" not in added


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.id)
def test_in_a_chat_only_the_system_message_changes(book: Playbook) -> None:
    before, include = WORLDS["chat"]
    made = drafted(book, before, include).draft
    after = apply_operations(before, made.operations)
    was = chat_messages(CHAT)
    now = chat_messages(after.files["prompts/desk.chat.md"].data.decode())
    assert now[1:] == was[1:]
    assert now[0]["role"] == "system"
    said = str(now[0]["content"])
    assert said.startswith(str(was[0]["content"]))
    assert made.operations[0].text.strip() in said


def test_a_chat_without_a_system_message_has_no_place_for_instructions() -> None:
    chat = chat_text([{"role": "user", "content": "{{question}}\n\n## Tools"}])
    before = HarnessSnapshot(files={"prompts/desk.chat.md": HarnessFile(data=chat.encode())})
    for book in BOOKS:
        fits = fitted(book, about(book), before, include=("prompts/desk.chat.md",))
        assert isinstance(fits, str), book.id


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.id)
def test_a_playbook_reads_as_a_careful_engineer_would_write_it(book: Playbook) -> None:
    texts = [p.text for edit in (book.edit, *book.otherwise) for p in edit] + [book.again or ""]
    for text in filter(None, texts):
        rules = [
            line
            for line in text.splitlines()
            if line.strip() and not line.startswith(("#", "---", "name:", "description:"))
        ]
        assert 2 <= len(rules) <= 6
        assert all(len(line) <= 160 for line in rules)
        assert any(OTHERWISE.search(line) for line in rules)
        assert not OUR_WORDS.search(text)
    assert book.otherwise, "a harness without the first place has to have another one"


def test_playbooks_for_different_causes_stand_in_one_harness_together() -> None:
    now, include = WORLDS["plain"]
    causes: set[str] = set()
    for book in BOOKS:
        if book.when.cause in causes:
            continue
        causes.add(book.when.cause)
        own = about(book)
        fits = fitted(book, own, now, include=include)
        assert isinstance(fits, Fitted), f"{book.id}: {fits}"
        after = apply_operations(now, fits.draft.operations)
        checks = check(now, after, fits.draft, include=include, invariants=INVARIANTS)
        assert refused(checks) is None, book.id
        now = after
    assert len(causes) >= 26
