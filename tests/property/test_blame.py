"""Blame over any releases and hand edits: each line once, the last release owns what it adds."""

from hypothesis import given
from hypothesis import strategies as st

from contracts.proposals import ReleaseId
from nodes.attribution.blame import Step, blame, texts

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "- rule", "ä"]), max_size=8)
STATES = st.lists(LINES, min_size=2, max_size=9).filter(lambda found: len(found) % 2 == 0)
ENDS = st.sampled_from(["\n", "\r\n"])


def _steps(states: list[list[str]], end: str) -> list[Step]:
    """Two states a release: what it found (so a hand edit lies between) and what it left."""
    data = ["".join(line + end for line in state).encode() for state in states]
    pairs = zip(data[::2], data[1::2], strict=True)
    return [
        Step(release=ReleaseId(f"r-{n}"), before=before, after=after)
        for n, (before, after) in enumerate(pairs)
    ]


@given(STATES, LINES, ENDS)
def test_every_line_is_attributed_once_and_in_order(
    states: list[list[str]], now: list[str], end: str
) -> None:
    steps = _steps(states, end)
    found = blame(steps, "".join(line + end for line in now).encode())
    assert [line.text for line in found] == now
    known = {step.release for step in steps}
    for line in found:
        origin = line.origin
        assert {origin.release, origin.newer_than, origin.seen_by} - {None} <= known
        assert origin.release is None or (origin.newer_than, origin.seen_by) == (None, None)


@given(STATES, ENDS)
def test_the_last_releases_new_lines_name_it_and_nothing_else_does(
    states: list[list[str]], end: str
) -> None:
    steps = _steps(states, end)
    last = steps[-1]
    before, found = texts(last.before), blame(steps, last.after)
    mine = [line.text for line in found if line.origin.release == last.release]
    kept = [line.text for line in found if line.origin.release != last.release]
    assert [line.text for line in found if line.text not in before] == [
        text for text in mine if text not in before
    ]
    # What it did not add was there before it, at least as often.
    assert all(kept.count(text) <= before.count(text) for text in set(kept))


@given(STATES, LINES, ENDS)
def test_a_hand_edit_gives_no_release_a_line_more(
    states: list[list[str]], now: list[str], end: str
) -> None:
    steps = _steps(states, end)
    told = [line.origin.release for line in blame(steps, steps[-1].after)]
    edited = blame(steps, "".join(line + end for line in now).encode())
    by_hand = [line for line in edited if line.origin.newer_than == steps[-1].release]
    for step in steps:
        mine = [line for line in edited if line.origin.release == step.release]
        assert len(mine) <= told.count(step.release)
    assert all(line.origin.seen_by is None for line in by_hand)


@given(LINES, LINES, ENDS)
def test_an_undo_puts_every_owner_back(first: list[str], then: list[str], end: str) -> None:
    steps = _steps([[], first, first, then], end)
    undo = Step(
        release=ReleaseId("r-undo"), before=steps[1].after, after=steps[1].before,
        undoes=steps[1].release,
    )  # fmt: skip
    before = blame(steps[:1], steps[0].after)
    after = blame([*steps, undo], undo.after)
    assert [line.origin.release for line in after] == [line.origin.release for line in before]
