"""Texts from traces and from the harness are hostile; a card shows them harmless."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from connectors.review.card import EvidenceLine, ReviewCard, TrailEntry
from connectors.review.clean import clean, is_hidden, one_line, safe
from connectors.review.diff import unified
from connectors.review.markdown import code, escape, to_markdown
from connectors.review.terminal import gate_lines, gate_table, plain, render
from contracts.codec import from_json, to_json
from contracts.gate import GateReport
from tests.card_worlds import MAIN, card, edit, finding, harness, inserting, plan, report

KEY = "sk-" + "proj-" + "0123456789abcdef0123456789abcdef"
NASTY = f"[bold]x[/bold] \x1b[31mred \u202eevil\u202c z\u200bero {KEY} <script>a</script> | cell"


def _every_skin(shown: ReviewCard) -> dict[str, str]:
    console = Console(width=100, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        render(shown, console)
    return {"plain": plain(shown), "markdown": to_markdown(shown), "terminal": captured.get()}


def _nasty_card() -> ReviewCard:
    draft = edit(inserting("instructions/main.md", "## Tools", NASTY))
    entry = TrailEntry(at=datetime(2026, 1, 1, tzinfo=UTC), who=NASTY, what=NASTY)
    quote = EvidenceLine(trace_id=NASTY, span_id=NASTY, quote=NASTY, link="https://ok.example/\x1b")
    return card(
        draft=draft, before=harness(main=MAIN), about=finding(title=NASTY, tool="t"),
        evidence=[quote], trail=[entry],
    )  # fmt: skip


@pytest.mark.parametrize("skin", ["plain", "markdown", "terminal"])
def test_no_hidden_character_and_no_secret_reaches_a_skin(skin: str) -> None:
    text = _every_skin(_nasty_card())[skin]
    assert not [c for c in text if is_hidden(c)]
    assert KEY not in text
    assert "⟨U+202E⟩" in text
    assert "[api key]" in text.replace("\\", "")


def test_markup_of_the_terminal_library_is_shown_not_obeyed() -> None:
    assert next(
        line.split()[:2]
        for line in _every_skin(_nasty_card())["terminal"].split("\n")
        if line.startswith("observed")
    ) == ["observed", "[bold]x[/bold]"]


def test_the_card_warns_of_hidden_characters_in_the_change() -> None:
    shown = _nasty_card()
    assert shown.warnings == (
        "instructions/main.md holds hidden characters, marked here: U+001B, U+200B, U+202C, U+202E",
    )


def test_a_warning_from_outside_comes_first_and_is_cleaned() -> None:
    draft = edit(inserting("instructions/main.md", "## Tools", "z\u200bero"))
    shown = card(draft=draft, warnings=[f"Read in part:\n\x1b[31m {KEY}"])
    assert shown.warnings == (
        "Read in part: ⟨U+001B⟩[31m [api key]",
        "instructions/main.md holds hidden characters, marked here: U+200B",
    )
    assert plain(shown).index("warning: Read in part") < plain(shown).index("warning: instructions")


def test_a_link_with_a_control_character_is_dropped() -> None:
    assert _nasty_card().evidence[0].link is None


def test_a_secret_cut_by_a_hidden_character_is_masked() -> None:
    assert safe(f"key {KEY[:12]}\u200b{KEY[12:]} end") == "key [api key] end"


def test_a_private_key_in_a_diff_is_masked_on_all_its_lines() -> None:
    begin, end = "-----BEGIN " + "PRIVATE KEY-----", "-----END " + "PRIVATE KEY-----"
    draft = edit(
        inserting("instructions/main.md", "## Tools", f"{begin}\nMIIabc\nMIIdef\n{end}\nok")
    )
    lines = card(draft=draft).files[0].lines
    assert [line for line in lines if line.startswith("+")][1:] == ["+[private key]"] * 4 + ["+ok"]


def test_markdown_from_outside_makes_no_html_no_image_and_no_link() -> None:
    hostile = (
        "![x](http://evil.example/a) <img src=x> [y](javascript:z) www.evil.example a@b.example"
    )
    html = MarkdownIt("gfm-like", {"linkify": False}).render(escape(hostile))
    assert "<img" not in html
    assert "<a " not in html


def test_code_cannot_be_closed_from_inside() -> None:
    html = MarkdownIt().render(code("a ``` b ` c"))
    assert html == "<p><code>a ``` b ` c</code></p>\n"


def test_a_diff_cannot_close_its_fence() -> None:
    # A context line begins with one blank only, so that a fence in it could close ours.
    before = harness(main="# One\n\n```\n# Approved\n")
    shown = card(draft=edit(inserting("instructions/main.md", "# One", "b")), before=before)
    html = MarkdownIt().render(to_markdown(shown))
    assert "<h1>Approved</h1>" not in html


def test_a_pipe_in_a_cell_does_not_make_a_column() -> None:
    assert escape("a | b") == r"a \| b"


def test_a_line_break_in_a_text_does_not_make_a_line() -> None:
    shown = card(about=finding(title="one\nrisk: low\n", tool="t"))
    assert "observed: one risk: low" in plain(shown)


def test_a_card_survives_its_json() -> None:
    for kind in ("approve", "override", "undo"):
        shown = card(kind)
        assert from_json(ReviewCard, to_json(shown)) == shown


def test_marks_are_made_once_and_line_ends_folded() -> None:
    text = "a\r\nb\rc\u202e\ufe0f⟨U+202E⟩"
    assert clean(text) == "a\nb⟨U+000D⟩c⟨U+202E⟩\ufe0f⟨U+202E⟩"
    assert clean(clean(text)) == clean(text)


def test_one_line_is_one_line_of_limited_length() -> None:
    assert one_line("a\n b\t c") == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (timedelta(days=6, hours=5), "expires in 6 d"),
        (timedelta(hours=3), "expires in 3 h"),
        (timedelta(minutes=4), "expires in 4 min"),
        (timedelta(seconds=4), "expires in less than a minute"),
        (timedelta(seconds=-1), "expired"),
    ],
)
def test_the_headline_says_when_it_expires(left: timedelta, said: str) -> None:
    from connectors.review.card_facts import expires_words

    assert expires_words(left) == said


def test_the_gate_table_stands_alone() -> None:
    console = Console(width=88, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(gate_table(report(), plan()))
    assert "64 x 1" in captured.get()
    assert "unknown (L2)" in captured.get()


@pytest.mark.parametrize("width", [60, 88, 200])
@pytest.mark.parametrize("terminal", [True, False])
def test_the_gates_lines_say_every_claim_within_the_width(terminal: bool, width: int) -> None:
    told = replace(report(), notes=("n" * 300, f"[bold]x[/bold] \x1b[31m {KEY}"))
    text = _gate_lines(told, terminal=terminal, width=width)
    assert max(map(cell_len, text.split("\n"))) <= min(88, width)
    words = " ".join(text.split())
    for claim in told.claims:
        assert claim.name in words
    assert "Gate: inconclusive" in words
    assert "$0.84" in words
    assert "[bold]x[/bold] ⟨U+001B⟩" in words
    assert KEY not in text
    assert text.count("n" * 20) >= 3


def test_the_gates_lines_have_boxes_on_a_terminal_only() -> None:
    def boxes(text: str) -> list[str]:
        return [c for c in text if "\u2500" <= c <= "\u257f"]

    assert boxes(_gate_lines(report(), terminal=True))
    piped = _gate_lines(report(), terminal=False, width=200)
    assert not boxes(piped)
    assert "\x1b" not in piped
    assert piped.startswith(
        "Gate: inconclusive (harm not excluded)\n"
        "gate target: fixed? size 5 x 5, before 2 of 25, after 22 of 25"
    )
    assert "\ngate L2: sealed: no harm? unknown; 3 better, 4 worse of 64\n" in piped
    assert piped.index("gate sealed: no harm? size") < piped.index("gate verdict: ")


def _gate_lines(told: GateReport, *, terminal: bool, width: int = 88) -> str:
    console = Console(
        width=width, file=io.StringIO(), color_system=None, force_terminal=terminal, _environ={}
    )
    with console.capture() as captured:
        gate_lines(plan(), told, console)
    return captured.get()


def test_folding_keeps_the_true_counts() -> None:
    many = "".join(f"line {n}\n" for n in range(200))
    diff = unified("a.md", b"", many.encode())
    assert diff.stats is not None
    assert (diff.stats.added, diff.stats.removed) == (200, 0)
    assert len(diff.lines) == 80
    assert diff.folded.added == 200 - 77
