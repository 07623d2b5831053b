"""A model that cannot be opened is one line that says what to do."""

import importlib.util

import pytest

from connectors.models.chat import open_model
from contracts.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt-5", r"model 'gpt-5': needs `provider:name`"),
        (":x", "needs `provider:name`"),
        ("nobody:x", r"model 'nobody:x': cannot be opened: "),
    ],
)
def test_a_name_that_leads_nowhere_says_so(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        open_model(name)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(
    importlib.util.find_spec("langchain_openai") is not None, reason="its package is installed"
)
def test_a_package_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="pip install langchain-openai"):
        open_model("openai:gpt-5-mini")
