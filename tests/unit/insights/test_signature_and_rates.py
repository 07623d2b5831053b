import pytest

from configs.taxonomy import parse_taxonomy, taxonomy
from contracts.errors import ConfigError
from nodes.insights.compare import rate_interval, risen_p
from nodes.insights.facts import fisher_p, shape_of
from nodes.insights.signature import (
    make_signature,
    matches,
    place_part,
    split_templates,
    template_of,
)


@pytest.mark.parametrize(
    ("message", "template"),
    [
        ("order id must look like A-9999, got 1042", "order id must look like <id>, got <n>"),
        ("File '/a/b.py' not found at https://x.y/z", "File <value> not found at <url>"),
        ("at 2026-11-30T04:24:16Z in 3 s", "at <time> in <n> s"),
        ("can't do it", "can't do it"),
        ("run 550e8400-e29b-41d4-a716-446655440000 died", "run <id> died"),
        ("in /srv/app/pages.py line 7", "in <path> line <n>"),
    ],
)
def test_a_template_leaves_out_what_changes(message: str, template: str) -> None:
    assert template_of(message) == template


def test_a_signature_has_safe_parts_only() -> None:
    assert make_signature("tool_error", "pay/api v2", 504) == "tool_error:pay_api_v2:504"
    assert make_signature("exception", "Step 11", "KeyError") == "exception:Step:KeyError"
    assert make_signature("x", "::~", None) == "x:unnamed"
    assert place_part("search2") == "search2"


@pytest.mark.parametrize(
    ("signature", "prefix", "hit"),
    [
        ("tool_timeout:pay:504", "tool_timeout:pay", True),
        ("tool_timeout:pay:504", "tool_timeout", True),
        ("tool_timeout:pay:504", "tool_timeout:pay:504", True),
        ("tool_timeout:payment:504", "tool_timeout:pay", False),
        ("tool_error:pay", "tool_error:pay~abc234", True),
        ("tool_error:pay~abc234", "tool_error:pay", True),
        ("tool_error:pay~abc234", "tool_error:pay~zzz234", False),
    ],
)
def test_a_prefix_forbids_up_to_a_colon(signature: str, prefix: str, hit: bool) -> None:
    assert matches(signature, prefix) is hit


def test_the_most_common_template_keeps_the_plain_key() -> None:
    marks = split_templates({"order id must be <id>": 5, "order id must be <n> long": 2, "gone": 1})
    assert marks["order id must be <id>"] == marks["order id must be <n> long"] == ""
    assert marks["gone"].startswith("~")
    assert len(marks["gone"]) == 7


def test_clopper_pearson_gives_the_published_values() -> None:
    # 1 of 20 and 0 of 10: R 4, binom.test(x, n)$conf.int
    assert rate_interval(1, 20) == pytest.approx((0.001265, 0.05, 0.248733), abs=1e-6)
    assert rate_interval(0, 10) == pytest.approx((0.0, 0.0, 0.308497), abs=1e-6)
    assert rate_interval(10, 10)[2] == 1.0
    with pytest.raises(ValueError, match="no share: 3 of 2"):
        rate_interval(3, 2)


def test_risen_p_is_the_upper_tail_of_the_conditional_binomial() -> None:
    assert risen_p(0, 100, 5, 100) == pytest.approx(0.5**5)
    assert risen_p(3, 100, 0, 100) == 1.0
    assert risen_p(1, 300, 3, 100) == pytest.approx(4 * 0.25**3 * 0.75 + 0.25**4)
    with pytest.raises(ValueError, match="out of range"):
        risen_p(1, 0, 1, 1)


def test_fisher_matches_a_known_table() -> None:
    assert fisher_p(3, 4, 1, 4) == pytest.approx(17 / 70)
    assert shape_of("Ab-12") == "Aa-99"


def test_every_kind_has_a_declared_cause_and_a_title() -> None:
    known = taxonomy()
    for kind in known.kinds:
        assert known.title(kind, "pay", "504")
    assert known.severity("never heard of") == "medium"


def test_a_taxonomy_with_an_unknown_cause_or_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"mine\.yaml: kinds\.x\.cause: 'y' is not in causes"):
        parse_taxonomy("kinds: {x: {severity: low, cause: y, title: t}}\ncauses: {}", "mine.yaml")
    with pytest.raises(ConfigError, match="extra"):
        parse_taxonomy("kinds: {}\ncauses: {}\nextra: 1", "mine.yaml")
