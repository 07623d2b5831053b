"""LangSmith's hub as a place of the harness: from the settings to what `doctor` says."""

from pathlib import Path

import pytest

from configs.harness_settings import HarnessSettings
from connectors.harness.langsmith_hub import LangsmithHubHarness
from connectors.harness.opening import open_places
from connectors.harness.several import Places
from contracts.errors import ConfigError
from graph.cli.checks import run_checks
from tests.fakes.langsmith_hub import FakeHub
from tests.fakes.serving import serve
from tests.hub_worlds import text_manifest
from tests.run_worlds import PROJECT, make_project

KEY = {"LANGSMITH_API_KEY": "lsv2_pt_secret"}


def places(environ: dict[str, str], **more: object) -> Places:
    spec = HarnessSettings.model_validate({"kind": "langsmith_hub", "prompts": ["support"], **more})
    return open_places(spec, root=Path("/x"), work=Path("/x/work"), environ=environ)


def test_the_address_and_the_workspace_come_from_settings_or_environment() -> None:
    assert places(KEY).target == "langsmith_hub:https://api.smith.langchain.com@production"
    env = {**KEY, "LANGSMITH_ENDPOINT": "https://eu.example/api/v1/", "LANGSMITH_WORKSPACE_ID": "w"}
    assert places(env).target == "langsmith_hub:https://eu.example/w@production"
    given = places(env, base_url="https://own.example", workspace="v", tag="live")
    assert given.target == "langsmith_hub:https://own.example/v@live"
    assert isinstance(given.places[0].harness, LangsmithHubHarness)
    secret = places(KEY, base_url="https://ann:s3cret@own.example/api")
    assert secret.target == "langsmith_hub:https://own.example@production"


def test_two_workspaces_by_two_keys_are_two_places() -> None:
    spec = HarnessSettings.model_validate([
        {"kind": "langsmith_hub", "prompts": ["a"]},
        {"kind": "langsmith_hub", "prompts": ["b"], "env_prefix": "OTHER_"},
    ])  # fmt: skip
    env = {**KEY, "OTHER_LANGSMITH_API_KEY": "lsv2_pt_other"}
    made = open_places(spec, root=Path("/x"), work=Path("/x/work"), environ=env)
    assert len({place.harness.target for place in made.places}) == 2


@pytest.mark.parametrize(
    ("environ", "more", "why"),
    [
        ({}, {}, r"harness \(langsmith_hub\): set LANGSMITH_API_KEY in the environment"),
        ({}, {"env_prefix": "EU_"}, "set EU_LANGSMITH_API_KEY"),
        (KEY, {"prompts": ["ann/support"]}, r"harness\.prompts: 'ann/support' names an owner"),
        (KEY, {"skills": ["ann/ask"]}, r"harness\.skills: 'ann/ask' names an owner"),
        (KEY, {"tag": "latest"}, r"harness\.tag: 'latest' is the newest commit"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(
    environ: dict[str, str], more: dict[str, object], why: str
) -> None:
    with pytest.raises(ConfigError, match=why) as told:
        places(environ, **more)
    assert "lsv2_pt_secret" not in str(told.value)


def test_doctor_reads_the_hub_and_names_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = FakeHub()
    hub.prompt("support", text_manifest("Hi {name}."))
    monkeypatch.setenv("LANGSMITH_API_KEY", hub.key)
    monkeypatch.setenv("TRACEMEND_HOME", str(tmp_path / "home"))
    with serve(hub.app()) as url:
        make_project(
            tmp_path / "home", tmp_path / "agent",
            harness={"kind": "langsmith_hub", "prompts": ["support", "absent"], "base_url": url},
        )  # fmt: skip
        said = {one.name: one for one in run_checks(PROJECT)}["harness"]
    assert not said.ok
    assert said.detail.startswith("1 files, revision ")
    assert "'absent' is left out: there is no prompt of this name in the workspace" in said.detail
