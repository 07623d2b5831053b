"""Settings: four layers, and one line that names file, key and the nearest known key."""

from datetime import timedelta
from pathlib import Path

import pytest

from configs.settings import load_settings
from contracts.errors import ConfigError
from graph.cli.project import settings_text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tracemend.yaml"


def test_the_file_that_init_writes_is_valid(file: Path) -> None:
    file.write_text(settings_text("refunds"), "utf-8")
    settings = load_settings(file, environ={})
    assert settings.project == "refunds"
    assert settings.analysis.window == timedelta(hours=24)
    assert settings.gate.margin == 0.10


def test_later_layers_win(file: Path) -> None:
    file.write_text("version: 1\nproject: refunds\ngate: {margin: 0.2}\n", "utf-8")
    environ = {"TRACEMEND__GATE__USES": "3", "TRACEMEND__GATE__MAX_RUNS": "7"}
    settings = load_settings(file, environ=environ, overrides={"gate.max_runs": 9})
    assert (settings.gate.margin, settings.gate.uses, settings.gate.max_runs) == (0.2, 3, 9)
    assert settings.gate.profile == "standard"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "version: 1\nproject: refunds\ngate: {marign: 0.2}\n",
            r"gate\.marign: unknown key; did you mean 'margin'\? \(tracemend\.yaml\)",
        ),
        (
            "version: 1\nproject: refunds\ntraces: [{kind: files, pth: x}]\n",
            r"traces\.0\.pth: unknown key; did you mean 'path'\?",
        ),
        ("version: 1\nproject: refunds\ngate: {margin: 2}\n", r"gate\.margin: got 2"),
        ("version: 1\nproject: refunds\ngate: {margin: 0.6}\n", r"gate\.margin: got 0\.6"),
        ("version: 1\nproject: refunds\nanalysis: {window: -24}\n", r"window: got .*greater than"),
        ("version: 1\n", r"project: missing; add it"),
        ("version: 1\nproject: Refunds\n", r"project: got 'Refunds'"),
        ("version: 1\nproject: [\n", r"tracemend\.yaml line 3: not valid YAML"),
        ("just text\n", r"must hold keys and values"),
        ("version: 1\nproject: refunds\nanalysis: {window: soon}\n", r"analysis\.window: got"),
    ],
)
def test_a_mistake_is_one_line_with_the_key(file: Path, text: str, message: str) -> None:
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(file, environ={})
    assert "\n" not in str(caught.value)


def test_a_missing_file_says_what_to_do(file: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file; `tracemend init` writes one"):
        load_settings(file)
