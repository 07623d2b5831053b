"""Promise 9: a sealed case whose text got into an edit is no proof any more."""

from hypothesis import given
from hypothesis import strategies as st

from contracts.gate import Case, CaseId
from nodes.gate.leaks import leaked


def case(message: str, name: str = "c-1") -> Case:
    return Case(
        id=CaseId(name), input={"message": message, "customer": "Ann"}, assertions=(),
        tags=frozenset({"sealed"}), family=name, origin="file:x",
    )  # fmt: skip


ASKED = "My parcel with the blue bread knife never came, please pay back A-1042."


def test_a_run_of_six_words_is_a_leak() -> None:
    edit = "- When a parcel with THE blue bread\n  knife never came, refund it."
    assert leaked([case(ASKED)], edit) == (case(ASKED),)


def test_five_words_and_common_phrases_are_none() -> None:
    assert (
        leaked([case(ASKED)], "A parcel with the blue spoon. Please pay back what was paid.") == ()
    )


def test_a_short_input_leaks_whole() -> None:
    assert leaked([case("Where is it?")], "If asked 'where is it', look it up.")
    assert not leaked([case("Where is")], "where is the parcel")


@given(st.text(max_size=80), st.text(max_size=80))
def test_the_scan_is_total(message: str, edit: str) -> None:
    assert leaked([case(message)], edit) in ((), (case(message),))
