"""A project is a slug in the registry, never a path; homes are found upward."""

from pathlib import Path

import pytest

from contracts.errors import ConfigError, ProjectMismatch, UsageError
from graph.cli.project import settings_text
from memory.workspace import (
    find_home,
    find_root,
    open_project,
    project_of_thread,
    read_registry,
    register,
)


def _repository(folder: Path, project: str = "refunds") -> Path:
    folder.mkdir(parents=True)
    (folder / "tracemend.yaml").write_text(settings_text(project), "utf-8")
    return folder


def test_a_home_is_beside_the_nearest_settings_upward(tmp_path: Path) -> None:
    root = _repository(tmp_path / "agent")
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    assert find_root(deep) == root
    assert find_home(deep) == root / ".tracemend"


def test_without_settings_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run `tracemend init`"):
        find_root(tmp_path)


def test_a_home_ignores_itself_and_lists_its_projects(tmp_path: Path) -> None:
    root = _repository(tmp_path / "agent")
    register(root / ".tracemend", "refunds", root)
    assert (root / ".tracemend" / ".gitignore").read_text() == "*\n"
    assert read_registry(root / ".tracemend") == {"refunds": root}
    register(root / ".tracemend", "refunds", root)
    with pytest.raises(UsageError, match="choose another name"):
        register(root / ".tracemend", "refunds", tmp_path)


@pytest.mark.parametrize("slug", ["../../etc", "Refunds", "", "a" * 41, "-a", "a b"])
def test_what_is_no_slug_is_refused(tmp_path: Path, slug: str) -> None:
    with pytest.raises(UsageError):
        register(tmp_path / "home", slug, tmp_path)


def test_an_unknown_project_names_the_known_ones(tmp_path: Path) -> None:
    root = _repository(tmp_path / "agent")
    register(root / ".tracemend", "refunds", root)
    with pytest.raises(UsageError, match=r"known: refunds"):
        open_project(root / ".tracemend", "../../etc/x")


def test_a_thread_leads_to_its_project(tmp_path: Path) -> None:
    root = _repository(tmp_path / "agent")
    register(root / ".tracemend", "refunds", root)
    ws = open_project(root / ".tracemend", "refunds")
    ws.ledger.incidents.open("t-1", kind="improve", key="k", request={})
    assert project_of_thread(root / ".tracemend", "t-1") == "refunds"
    with pytest.raises(UsageError, match="thread t-2 has no project"):
        project_of_thread(root / ".tracemend", "t-2")
    with pytest.raises(ProjectMismatch):
        ws.ledger.incidents.get("t-2")
    ws.ledger.close()


def test_settings_that_name_another_project_are_refused(tmp_path: Path) -> None:
    root = _repository(tmp_path / "agent", project="other")
    register(root / ".tracemend", "refunds", root)
    with pytest.raises(ConfigError, match="the registry knows this folder as 'refunds'"):
        open_project(root / ".tracemend", "refunds")
