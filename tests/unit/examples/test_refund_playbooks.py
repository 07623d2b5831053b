"""The offline model reads the shipped playbooks as prose: nothing in it was made for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from examples.refund_agent.following.directives import Directives, read_directives

ROOT = Path(__file__).parents[3]
PLAYBOOKS = ROOT / "configs" / "playbooks"
EXAMPLE = ROOT / "examples" / "refund_agent"
TOOLS = ("get_order", "payment_api", "queue_refund", "verify_address", "create_return_label")
FACTS = {
    "tool-timeout-retry": {"tool": "payment_api", "status": "504", "retries": "3"},
    "tool-silence-retry": {"tool": "payment_api", "retries": "3"},
    "argument-format": {
        "tool": "get_order",
        "argument": "order_id",
        "good_example": "A-5447",
        "shape_words": "one capital letter, a hyphen, four digits",
    },
    "prerequisite-step": {"tool": "create_return_label", "prerequisite": "verify_address"},
}


def texts(playbook: str) -> Iterator[str]:
    """Each text that the playbook can put into a harness, with example facts filled in."""
    value = yaml.safe_load((PLAYBOOKS / f"{playbook}.yaml").read_text())
    for edit in (value["edit"], *value.get("otherwise", ())):
        text = "\n".join(step["text"] for step in edit)
        for name, fact in FACTS[playbook].items():
            text = text.replace(f"{{{name}}}", fact)
            text = text.replace(f"{{{name}_slug}}", fact.replace("_", "-"))
        yield text


def read(text: str) -> Directives:
    return read_directives(f"# Desk\n\n## Tools\n{text}", TOOLS, ("order_id", "amount_eur"))


@pytest.mark.parametrize("playbook", ["tool-timeout-retry", "tool-silence-retry"])
def test_the_retry_playbooks_repeat_that_tool_on_a_timeout_and_do_nothing_else(
    playbook: str,
) -> None:
    for text in texts(playbook):
        rules = read(text)
        assert rules.retries_of("payment_api", frozenset({504})) == 3
        assert rules.retries_of("payment_api", frozenset({422})) == 0
        assert rules.retries_of("get_order", frozenset({504})) == 0
        assert (rules.befores, rules.fallbacks, rules.formats, rules.forbidden) == ((), (), (), ())


def test_the_format_playbook_mends_ids_and_does_nothing_else() -> None:
    for text in texts("argument-format"):
        rules = read(text)
        assert [rules.write_id("order_id", x) for x in ("1042", "#1042", "a1042")] == ["A-1042"] * 3
        assert (rules.retries, rules.befores, rules.fallbacks, rules.forbidden) == ((), (), (), ())


def test_the_order_playbook_puts_the_check_first_and_does_nothing_else() -> None:
    for text in texts("prerequisite-step"):
        rules = read(text)
        assert rules.before("create_return_label") == ("verify_address",)
        assert rules.before("verify_address") == ()
        assert (rules.retries, rules.fallbacks, rules.formats, rules.forbidden) == ((), (), (), ())


def test_the_example_holds_no_sentence_of_a_playbook() -> None:
    own = "\n".join(
        file.read_text() for kind in ("*.py", "*.md", "*.yaml") for file in EXAMPLE.rglob(kind)
    )
    sentences = {
        line.strip(" -#")
        for playbook in FACTS
        for text in texts(playbook)
        for line in text.splitlines()
        if len(line) > 30
    }
    assert len(sentences) >= 8
    assert [sentence for sentence in sentences if sentence in own] == []
