"""A probe is made from its settings, and what is missing is told before anything is run."""

from pathlib import Path
from typing import Any

import pytest

from configs.gate_settings import ProbeSettings
from connectors.probe.command import CommandProbe
from connectors.probe.http import HttpProbe
from connectors.probe.langgraph import LangGraphProbe
from connectors.probe.opening import open_agent
from connectors.probe.worker import WorkerProbe
from contracts.errors import ConfigError
from contracts.protocols import Probe

KINDS: dict[str, tuple[dict[str, Any], type[Probe]]] = {
    "worker": ({"command": ["true"]}, WorkerProbe),
    "command": ({"command": ["true"]}, CommandProbe),
    "http": ({"url": "http://127.0.0.1:1/run"}, HttpProbe),
    "langgraph": ({"url": "http://127.0.0.1:1", "assistant": "agent"}, LangGraphProbe),
}


NAMED = {"token_env": "AGENT_TOKEN"}


def opened(folder: Path, environ: dict[str, str], **spec: Any) -> Probe:
    return open_agent(ProbeSettings(**spec), root=folder, work=folder / "work", environ=environ)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_opened_without_starting_anything(kind: str, tmp_path: Path) -> None:
    spec, expected = KINDS[kind]
    assert isinstance(opened(tmp_path, {}, kind=kind, **spec), expected)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["http", "langgraph"])
@pytest.mark.parametrize("environ", [{}, {"AGENT_TOKEN": ""}, {"AGENT_TOKEN": "  \n"}])
def test_a_token_that_is_not_there_is_told_by_its_variable(
    kind: str, environ: dict[str, str], tmp_path: Path
) -> None:
    spec = KINDS[kind][0] | NAMED
    with pytest.raises(ConfigError, match=r"^probe\.token_env: the variable AGENT_TOKEN is not"):
        opened(tmp_path, environ, kind=kind, **spec)


@pytest.mark.parametrize("bad", ["tök", "two\nlines", "null\0"])
def test_a_token_that_no_header_can_hold_is_told_without_it(bad: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="AGENT_TOKEN holds no token") as told:
        opened(tmp_path, {"AGENT_TOKEN": bad}, kind="http", url="http://a", **NAMED)
    assert bad not in str(told.value)


@pytest.mark.parametrize("url", ["http://[::1/run", "http://a:99999999", "http://:80/run"])
def test_an_address_that_is_none_is_told_before_any_run(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^probe\.url: "):
        opened(tmp_path, {}, kind="http", url=url)
