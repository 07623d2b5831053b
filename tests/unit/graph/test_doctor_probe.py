"""What `doctor` says of the probe before a gate finds out."""

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from configs.gate_settings import ProbeSettings
from graph.cli.checks import probe_check


def checked(root: Path, **settings: object) -> tuple[bool, str]:
    kind = settings.pop("kind", "command")
    return probe_check(ProbeSettings.model_validate({"kind": kind, **settings}), root)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    ok, said = checked(tmp_path, command=["no-such-program", "run it"])
    assert (ok, said) == (
        False, "command `no-such-program 'run it'`: no program 'no-such-program' is found here",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["worker", "command"])
def test_a_program_of_the_repository_is_found_by_its_path_there(tmp_path: Path, kind: str) -> None:
    program = tmp_path / "bin" / "agent"
    program.parent.mkdir()
    program.touch()
    assert checked(tmp_path, kind=kind, command=["bin/agent"])[0] is False  # not executable
    program.chmod(0o755)
    assert checked(tmp_path, kind=kind, command=["bin/agent"]) == (True, f"{kind} `bin/agent`")
    assert checked(tmp_path, kind=kind, command=["agent"])[0] is False


def test_what_will_be_enforced_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.probe.local.network_off_refused", lambda: None)
    limits = {"memory_mb": 512, "processes": 64}
    ok, said = checked(tmp_path, command=[sys.executable], network=False, limits=limits)
    assert ok
    assert said.endswith("`; network off; memory limit 512 MB; processes limit 64")


def test_what_cannot_be_enforced_here_is_bad_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.probe.local.network_off_refused", lambda: "unshare: no")
    monkeypatch.setattr("connectors.probe.limits.PROC", tmp_path / "no proc")
    ok, said = checked(tmp_path, command=[sys.executable], network=False)
    assert not ok
    assert said.endswith("probe.network: off cannot be enforced here: unshare: no")
    ok, said = checked(tmp_path, command=[sys.executable], limits={"memory_mb": 100})
    assert not ok
    assert "probe.limits: cannot be enforced here: there is no /proc" in said


def test_a_remote_probe_is_said_without_what_may_be_a_key_in_its_address(tmp_path: Path) -> None:
    found = checked(tmp_path, kind="http", url="https://agent.example/run?key=hidden")
    assert found == (True, "http at https://agent.example/run")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": False}, "network: false: kind http runs no process of ours"),
        ({"limits": {"processes": 3}}, "limits of memory and processes: kind http"),
    ],
)
def test_isolation_of_an_agent_elsewhere_is_refused_not_ignored(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        ProbeSettings.model_validate({"kind": "http", "url": "http://a.example", **settings})


def test_no_network_and_a_service_on_the_loopback_exclude_each_other() -> None:
    spec = {"kind": "command", "command": ["agent"], "network": False}
    with pytest.raises(ValidationError, match="leave one of the two out"):
        ProbeSettings.model_validate({**spec, "prompts": True})
    assert ProbeSettings.model_validate({**spec, "replay": {}}).network is False
