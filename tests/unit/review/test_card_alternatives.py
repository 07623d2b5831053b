"""The other drafts on a card, on every skin. After a change that is meant:

TRACEMEND_UPDATE_GOLDEN=1 pytest tests/unit/review/test_card_alternatives.py, then read the diff.
"""

import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from connectors.review.card import ReviewCard
from connectors.review.card_alternatives import SHORT_FOLD, SHORT_LINE
from connectors.review.markdown import to_markdown
from connectors.review.payload import hitl_request
from connectors.review.terminal import plain, render
from contracts.codec import from_json, to_json
from contracts.proposals import Draft
from tests.card_worlds import RETRY, card, edit, inserting, replacing, skill_text

GOLDEN = Path(__file__).parents[2] / "golden"
MAIN_FILE = "instructions/main.md"
MODEL = replace(
    edit(
        inserting(
            MAIN_FILE, "- Never promise a delivery date.",
            "- Call `payment_api` again after a 504, at most 3 times, before you give up.",
        ),
        author="model:openai:gpt-5-mini",
    ),
    why="One line where the agent reads its rules, in place of a skill that it has to choose.",
    model_written=True, evidence=("2f45be76294ecd679353d418613f2423/1aba10187bf024db",),
    notes=("the cost of 2 answers of the editor model is not known: tokens bound them, not money",),
)  # fmt: skip
LONG = replace(
    edit(
        replacing(MAIN_FILE, "You help customers with orders.", "You help customers with parcels."),
        replace(
            RETRY, path="skills/slow-payments/SKILL.md",
            text=skill_text("slow-payments", *(f"- Rule {n} about payments." for n in range(40))),
        ),
        author="playbook:of-the-operator",
    ),
    why="The whole order of a payment, as a skill.",
)  # fmt: skip


def shown(*others: Draft) -> ReviewCard:
    return card(others=others or (MODEL, LONG))


def terminal(view: ReviewCard, *, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None, force_terminal=False)
    with console.capture() as captured:
        render(view, console)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


@pytest.mark.parametrize(
    ("suffix", "skin"),
    [
        ("plain.txt", plain), ("md", to_markdown),
        ("terminal.80.txt", partial(terminal, width=80)),
        ("terminal.120.txt", partial(terminal, width=120)),
    ],
)  # fmt: skip
def test_the_card_with_alternatives_reads_as_its_golden_file(
    suffix: str, skin: Callable[[ReviewCard], str]
) -> None:
    text = skin(shown())
    file = GOLDEN / f"card_alternatives.{suffix}"
    if os.environ.get("TRACEMEND_UPDATE_GOLDEN") == "1":
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")


@pytest.mark.parametrize("width", [80, 120])
def test_the_card_with_alternatives_fits_the_terminal(width: int) -> None:
    assert max(map(len, terminal(shown(), width=width).split("\n"))) <= width


@pytest.mark.parametrize(
    "skin", [plain, to_markdown, partial(terminal, width=88)], ids=["plain", "md", "terminal"]
)
def test_every_skin_says_what_differs_why_how_risky_and_how_to_pick(
    skin: Callable[[ReviewCard], str],
) -> None:
    text = " ".join(skin(shown()).split())
    for label in ("b", "c"):
        assert f"lternative {label}: " in text
        assert f"tracemend pick p-4k7q2m6xza {label} --as NAME" in text
    assert "at most 3 times, before you give up." in text
    assert "One line where the agent reads its rules" in text
    assert "model-written by model:openai:gpt-5-mini" in text
    assert "2f45be76294ecd679353d418613f2423/1aba10187bf024db" in text


def test_what_is_cut_from_a_short_diff_is_counted() -> None:
    _, long = shown().alternatives
    skill = next(view for view in long.files if view.path.startswith("skills/"))
    assert len(skill.lines) == SHORT_FOLD
    assert skill.folded_added > 0
    assert "not shown: " in plain(shown())


def test_an_alternative_is_cleaned_like_everything_else() -> None:
    secret, wide = "sk-" + "A1b2" * 8, "wide " * 1_000
    hostile = replace(
        edit(inserting(MAIN_FILE, "- Never promise a delivery date.", f"- See {secret}\n- {wide}")),
        why=f"because \u202e{secret}", falsifier=secret, notes=(secret,), author=f"model:{secret}",
    )  # fmt: skip
    view = card(others=(hostile,))
    for text in (plain(view), to_markdown(view), json.dumps(to_json(view))):
        assert secret not in text
        assert "\u202e" not in text
    assert all(len(line) <= SHORT_LINE for f in view.alternatives[0].files for line in f.lines)
    hidden = edit(inserting(MAIN_FILE, "- Never promise a delivery date.", "- See \u202ethis."))
    assert "hidden characters" in card(others=(hidden,)).warnings[0]


def test_other_cards_show_no_alternatives() -> None:
    assert card("override", others=(MODEL,)).alternatives == ()
    assert card("undo", others=(MODEL,)).alternatives == ()


def test_the_payload_names_the_own_draft_and_holds_no_full_text_of_another() -> None:
    whole = "\n".join(f"- Rule {n} about payments and whom they reach." for n in range(400))
    big = edit(replace(RETRY, path="skills/big/SKILL.md", text=skill_text("big", whole)))
    payload: Any = hitl_request(shown(big), {RETRY.path: RETRY.text})
    args = payload["action_requests"][0]["args"]
    assert args["alternative"] == "a"
    assert [key for key in args if key.startswith("text:")] == [f"text:{RETRY.path}"]
    assert "Rule 300" not in json.dumps(payload)
    alone: Any = hitl_request(card(), {RETRY.path: RETRY.text})
    assert "alternative" not in alone["action_requests"][0]["args"]
    assert len(json.dumps(payload)) < len(json.dumps(alone)) + 10_000


def test_a_card_of_an_older_release_is_read() -> None:
    old = to_json(card())
    del old["alternatives"]
    assert from_json(ReviewCard, old).alternatives == ()
    assert from_json(ReviewCard, to_json(shown())) == shown()
