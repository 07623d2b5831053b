"""Numbers and ids that nothing returned are found; those that were returned are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.ask.claims import unsupported

TOLD = (
    '{"units": 18, "units_total": 1150, "rate": [0.0724, 0.12, 0.1831], "id": "f-3qk7m2xza4", '
    '"trace": "2f45be76294ecd679353d418613f2423", "p_holm": 0.0000004, "says": "prompt refund v14",'
    ' "start": "2026-11-30T00:00:00+00:00", "model": "gpt-5.1", "code": 504}'
)


@pytest.mark.parametrize(
    "answer",
    [
        "18 of 1150 sessions (12 %, between 7.2 and 18.3 %) fail with 504.",
        "18 of 1,150, so 12 percent, and 0.12 as a share.",
        "eighteen runs, such as 2f45be76294ecd679353d418613f2423 [f-3qk7m2xza4]",
        "Only since prompt refund v14, with gpt-5.1, from 2026-11-30 00:00 on.",
        "1. the first\n2. the second\n- 18 of them",
        "No finding is about that. One run is not enough.",
        "",
    ],
)
def test_what_was_returned_holds(answer: str) -> None:
    assert unsupported(answer, [TOLD]) == []


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("19 of 1150 sessions", ["number 19"]),
        ("13 % of them", ["number 13 %"]),
        ("a rate of 0.25", ["number 0.25"]),
        ("about seventeen runs", ["number seventeen"]),
        ("see f-aaaaaaaaaa", ["id f-aaaaaaaaaa"]),
        ("trace deadbeef00112233", ["id deadbeef00112233"]),
        ("since 2026-11-29", ["time 2026-11-29"]),
        ("f-3qk7m2xza5 and 18", ["id f-3qk7m2xza5"]),
        ("99 and 99 and 98", ["number 99", "number 98"]),
    ],
)
def test_what_was_not_is_named(answer: str, wrong: list[str]) -> None:
    assert [f"{one.kind} {one.text}" for one in unsupported(answer, [TOLD])] == wrong


def test_parts_of_times_and_ids_are_no_numbers_that_were_returned() -> None:
    told = '{"at": "2026-11-30T13:45:00Z", "trace": "99999999-1234-1234-1234-123456789012"}'
    assert [one.text for one in unsupported("30 runs of 45", [told])] == ["30", "45"]


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_number_holds_if_and_only_if_it_was_returned(said: int, returned: int) -> None:
    assert (unsupported(f"{said} runs", [f'{{"units": {returned}}}']) == []) == (said == returned)
