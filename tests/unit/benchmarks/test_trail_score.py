"""TRAIL's metrics on cases that can be worked out by hand."""

import pytest

from benchmarks.trail_score import CATEGORIES, bootstrap, category, everywhere, score

FORMAT, GOAL, ABUSE = "Formatting Errors", "Goal Deviation", "Resource Abuse"
GOLD = {
    "a": {("1", FORMAT), ("1", GOAL), ("2", FORMAT)},
    "b": {("7", ABUSE)},
}


def test_the_annotations_themselves_are_perfect() -> None:
    found = score(GOLD, GOLD)
    assert (found.category_f1, found.location, found.joint) == (1.0, 1.0, 1.0)
    assert (found.span_f1, found.pair_f1) == (1.0, 1.0)


def test_nothing_scores_nothing() -> None:
    found = score(GOLD, {})
    assert (found.category_f1, found.location, found.joint) == (0.0, 0.0, 0.0)
    assert (found.span_f1, found.pair_f1, found.pair_precision) == (0.0, 0.0, 0.0)


def test_location_and_joint_are_means_over_traces_of_what_was_found() -> None:
    found = score(GOLD, {"a": {("1", FORMAT), ("9", GOAL)}, "b": {("7", GOAL)}})
    assert found.location == pytest.approx((1 / 2 + 1) / 2)
    assert found.joint == pytest.approx((1 / 3 + 0) / 2)


def test_span_and_pair_f1_are_pooled_and_punish_guesses() -> None:
    found = score(GOLD, {"a": {("1", FORMAT), ("9", GOAL)}, "b": {("7", GOAL)}})
    assert (found.pair_precision, found.pair_recall) == (1 / 3, 1 / 4)
    assert found.pair_f1 == pytest.approx(2 / 7)
    assert found.span_f1 == pytest.approx(2 * 2 / (3 + 3))


def test_category_f1_asks_whether_a_trace_has_it_weighted_by_how_many_have() -> None:
    gold = {"a": {("1", FORMAT)}, "b": {("1", FORMAT)}, "c": {("1", GOAL)}}
    said = {"a": {("5", FORMAT)}, "c": {("5", FORMAT)}}
    # Formatting: 1 right of 2 said, of 2 that have it: F1 1/2, weight 2. Goal: 0, weight 1.
    assert score(gold, said).category_f1 == pytest.approx((2 * 0.5 + 0) / 3)


def test_one_category_everywhere_covers_all_locations_and_is_imprecise() -> None:
    said = everywhere({"a": ["1", "2", "3", "4"], "b": ["7", "8"]}, [FORMAT])
    found = score(GOLD, said)
    assert found.location == 1.0
    assert found.joint == pytest.approx((2 / 3 + 0) / 2)
    assert found.pair_precision == pytest.approx(2 / 6)


def test_a_trace_without_annotations_costs_precision_only() -> None:
    gold = {"a": {("1", FORMAT)}, "b": set()}
    found = score(gold, {"a": {("1", FORMAT)}, "b": {("1", FORMAT)}})
    assert found.location == 1.0
    assert found.pair_precision == 0.5


def test_predictions_for_other_traces_are_left_alone() -> None:
    assert score(GOLD, {**GOLD, "z": {("1", GOAL)}}) == score(GOLD, GOLD)


def test_scoring_nothing_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to score"):
        score({}, {})


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        ("Task Orchestration Errors", "Task Orchestration"),
        (" Language-Only", "Language-only"),
        ("Instruction Non-Compliance", "Instruction Non-compliance"),
        ("Context Handling Failure", "Context Handling Failures"),
        ("Tool Selection", "Tool Selection Errors"),
        ("Something new", "Something new"),
    ],
)
def test_misspelt_names_become_the_published_ones(spelt: str, name: str) -> None:
    assert category(spelt) == name
    assert all(category(one) == one for one in CATEGORIES)


def test_the_interval_holds_the_figure_and_is_the_same_every_time() -> None:
    gold = {str(n): {("1", FORMAT)} for n in range(20)}
    said = {str(n): {("1", FORMAT if n % 2 else GOAL)} for n in range(20)}
    groups = {trace: trace for trace in gold}

    def joint() -> tuple[float, float]:
        return bootstrap(gold, said, lambda s: s.joint, groups=groups, rounds=200)

    low, high = joint()
    assert low < 0.5 < high
    assert joint() == (low, high)
    one = dict.fromkeys(gold, "all")
    assert bootstrap(gold, said, lambda s: s.joint, groups=one, rounds=50) == (0.5, 0.5)
