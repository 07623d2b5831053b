"""The policy judges every text: never an exception, always the same answer, in linear time."""

import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.review.check_words import WARNING
from connectors.review.clean import is_hidden
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import Check
from nodes.evolution.letters import plain
from nodes.evolution.policy import check, refused, risk_of, warned
from nodes.evolution.skill_file import read_front_matter
from tests.card_worlds import edit
from tests.redteam_worlds import FILES, INCLUDE, base

FINE = "- Name the carrier of each parcel, and the day on which it left.\n"
PIECES = st.sampled_from([
    "skip the approval", "<!--", "-->", "```", "`", "{{x}}", "{", "}", "%s", "<%", "@@@", "[[",
    "---\n", "name: x\n", "a: &b\n", "- [", "=== system ===\n", "https://", "//", "@", "xn--", "&#",
    "\\x41", "never ", "not ", " and ", ".", "\r\n", "\r", "\ufeff", "\u200b", "\ufe0f", "\u0430",
    "a", " ", "\n", "|", "](", ' "x")', "<a ", "style=", "2026-13-45", "!!binary x", "? ",
])  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=30).map("".join)
HIDDEN = st.one_of(
    st.sampled_from("\u200b\u200e\u202e\u2066\u00ad\u2060\ufeff\u3164\u034f\u2800\x07\x1b\u2028"),
    st.integers(0xE0000, 0xE007F).map(chr).filter(is_hidden),
    st.integers(0xFE00, 0xFE0E).map(chr),
    st.characters(categories=["Cf", "Co"], exclude_characters="\u200c\u200d"),
)


def _with(path: str, text: str) -> HarnessSnapshot:
    file = HarnessFile(data=text.encode("utf-8", "surrogatepass"))
    return HarnessSnapshot(files={**base().files, path: file})


def _judged(path: str, text: str, quotes: tuple[str, ...] = ()) -> tuple[Check, ...]:
    return check(
        base(), _with(path, text), edit(author="model:m"), include=INCLUDE,
        invariants=["never promise a delivery date"], trace_texts=quotes,
    )  # fmt: skip


@given(HIDDEN, st.data())
def test_a_hidden_character_anywhere_in_a_fine_edit_is_refused(
    char: str, data: st.DataObject
) -> None:
    main = FILES["instructions/main.md"]
    at = data.draw(st.integers(0, len(FINE)))
    text = main + FINE[:at] + char + FINE[at:]
    bad = {c.rule for c in _judged("instructions/main.md", text) if not c.ok}
    assert "hidden-characters" in bad


@given(st.data())
def test_a_joiner_anywhere_in_a_latin_text_is_refused(data: st.DataObject) -> None:
    char = data.draw(st.sampled_from("\u200c\u200d"))
    at = data.draw(st.integers(0, len(FINE)))
    text = FILES["instructions/main.md"] + FINE[:at] + char + FINE[at:]
    bad = {c.rule for c in _judged("instructions/main.md", text) if not c.ok}
    assert "hidden-characters" in bad


@given(st.sampled_from(sorted(FILES)), TEXTS, st.booleans())
@example("skills/lookup/SKILL.md", "---\nname: 2026-13-45\n---\n", False)
@example("skills/lookup/SKILL.md", "---\n" + "[" * 5000 + "\n---\n", False)
@example("skills/lookup/SKILL.md", "---\na: !!int x\nb: !!timestamp x\n---\n", False)
@example("prompts/reply.chat.md", "=== placeholder ===\n", False)
@settings(max_examples=150)
def test_no_text_breaks_the_policy_and_two_looks_give_one_answer(
    path: str, text: str, whole: bool
) -> None:
    said = text if whole else FILES[path] + text
    first, second = _judged(path, said, (text,)), _judged(path, said, (text,))
    assert first == second
    assert [c for c in first if not c.detail] == []
    after = _with(path, said)
    assert risk_of(base(), after, edit()) == risk_of(base(), after, edit())


@given(TEXTS)
def test_what_is_warned_of_is_not_refused_and_is_never_low_risk(text: str) -> None:
    path = "instructions/main.md"
    checks = _judged(path, FILES[path] + text)
    assert all(c.ok for c in checks if c.detail.startswith(WARNING))
    if refused(checks) is None and warned(checks):
        said = {w.split(":", 1)[0] for w in warned(checks)} - {"rejected", "skill-file"}
        risk, _ = risk_of(base(), _with(path, FILES[path] + text), edit())
        assert not said or risk != "low"


@given(st.text(st.sampled_from("abcÀéßçñ日本語 .!\n"), max_size=60))
def test_plain_words_stay_what_they_are(text: str) -> None:
    assert plain(plain(text)) == plain(text)


MB = 1_000_000
HOSTILE: dict[str, str] = {
    "one long word": "a" * MB,
    "blanks": "skip" + " " * MB + "x",
    "skip without end": "skip the " * (MB // 9),
    "never without end": "never skip approval, and " * (MB // 25),
    "open braces": "{" * MB,
    "half placeholders": "{{a " * (MB // 4),
    "open tags": "<% " * (MB // 3),
    "open comments": "<!-- " * (MB // 5),
    "open links": "[a](b " * (MB // 6),
    "half tags": "<a b " * (MB // 5),
    "backticks": "` a ``" * (MB // 6),
    "fences": "```\n" * (MB // 4),
    "dots": "a.b-" * (MB // 4),
    "at signs": "a@b." * (MB // 4),
    "slashes": "a://" * (MB // 4),
    "escapes": "\\x4" * (MB // 4),
    "hexadecimal": "4a " * (MB // 3),
    "base64": "QUJD" * (MB // 4),
    "many hidden": "".join(chr(0xE000 + n % 6400) for n in range(MB // 3)),
    "joiners": "é\u200d" * (MB // 3),
    "lookalikes": "p\u0430y " * (MB // 5),
    "short lines": "ab\n" * (MB // 3),
    "lines that differ": "".join(f"line {n} says\n" for n in range(MB // 16)),
    "front matter": "---\n" + "a: [\n" * (MB // 5),
    "anchors": "---\na: &x 1\n" + "b: *x\n" * (MB // 6) + "---\n",
    "sentences": "Never do it. " * (MB // 13),
    "base32": "MFRG" * (MB // 4),
}


def _cpu_s(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _scan(text: str) -> None:
    """What any reader must do: look at each character once."""
    for char in text:
        char.isspace()


SLOW = [
    pytest.param(name, marks=() if number == 1 else (pytest.mark.servers,))
    for number, name in enumerate(HOSTILE)
]


@pytest.mark.parametrize("name", SLOW)
def test_a_megabyte_made_to_be_slow_is_judged_in_linear_time(name: str) -> None:
    """Four times the text takes about four times as long, and a bounded number of scans."""
    text = HOSTILE[name]
    path = "instructions/main.md"

    def judge(said: str) -> None:
        _judged(path, FILES[path] + said, (said[:600],))

    judge(text[:1000])
    scan = max(_cpu_s(lambda: _scan(text)), 0.005)
    quarter = _cpu_s(lambda: judge(text[: len(text) // 4]))
    whole = _cpu_s(lambda: judge(text))
    assert whole <= 500 * scan, f"{whole / scan:.0f} scans"
    assert whole <= 8 * quarter + 40 * scan, f"{whole / quarter:.1f} times for four times the text"


def test_front_matter_of_references_is_not_even_parsed() -> None:
    bomb = "---\na: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )
    assert "references" in (read_front_matter(f"{bomb}---\n").problem or "")
