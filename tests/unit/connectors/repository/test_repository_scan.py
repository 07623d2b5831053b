"""A scan of a repository: bounded, read only, and honest about what it did not read."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from connectors.repository.scanning import Bounds, Scan, language_of, scan


def write(root: Path, **texts: str | bytes) -> None:
    for name, text in texts.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)


def git(root: Path, *words: str) -> None:
    shutil.which("git") or pytest.skip("git is not there")
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, env=environ)


def read(root: Path, *folders: str, bounds: Bounds | None = None) -> Scan:
    return scan(folders or ["."], root=root, leave_out=[root / ".home"], bounds=bounds)


def paths(found: Scan) -> list[str]:
    return [file.path for file in found.files]


def test_sources_are_read_and_everything_else_is_only_named(tmp_path: Path) -> None:
    write(tmp_path, **{"app/main.py": "x = 1", "web/a.ts": "let x", "docs/a.md": "# a"})
    found = read(tmp_path)
    assert paths(found) == ["app/main.py", "web/a.ts"]
    assert found.names == {"app/main.py", "web/a.ts", "docs/a.md"}
    assert found.complete


def test_folders_of_tools_and_of_dependencies_and_our_home_are_left_out(tmp_path: Path) -> None:
    for folder in (".git", "node_modules", ".venv", "__pycache__", ".home/work", ".tracemend"):
        write(tmp_path, **{f"{folder}/deep/a.py": "x = 1"})
    write(tmp_path, **{"a.py": "x = 1"})
    assert paths(read(tmp_path)) == ["a.py"]


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, **{".gitignore": "secret/\n*.local.py\n", "a.py": "", "secret/b.py": "",
                       "c.local.py": "", "new.py": ""})  # fmt: skip
    git(tmp_path, "add", "a.py")
    assert paths(read(tmp_path)) == ["a.py", "new.py"]


def test_nothing_that_a_repository_configures_is_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    mark = tmp_path / "ran"
    hook = tmp_path / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n", "utf-8")
    hook.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(hook))
    write(tmp_path, **{"a.py": "x = 1"})
    assert "a.py" in paths(read(tmp_path))
    assert not mark.exists()


@pytest.mark.parametrize("tracked", [False, True], ids=["walked", "by git"])
def test_links_are_not_followed_in_or_out(tmp_path: Path, *, tracked: bool) -> None:
    root, away = tmp_path / "root", tmp_path / "away"
    write(away, **{"out.py": "x = 1"})
    write(root, **{"a/b.py": "x = 1"})
    (root / "a" / "again").symlink_to(root, target_is_directory=True)
    (root / "away").symlink_to(away, target_is_directory=True)
    (root / "one.py").symlink_to(away / "out.py")
    if tracked:
        git(root, "init", "-q")
        git(root, "add", "-A")
    assert paths(read(root)) == ["a/b.py"]


def test_a_tracked_folder_that_became_a_link_is_not_entered(tmp_path: Path) -> None:
    root, away = tmp_path / "root", tmp_path / "away"
    write(away, **{"b.py": "secret = 1"})
    write(root, **{"a/b.py": "x = 1", "c.py": ""})
    git(root, "init", "-q")
    git(root, "add", "-A")
    shutil.rmtree(root / "a")
    (root / "a").symlink_to(away, target_is_directory=True)
    assert paths(read(root)) == ["c.py"]


def test_a_large_file_is_said_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path, **{"a.py": "x" * 2_000, "b.py": "x = 1"})
    found = read(tmp_path, bounds=Bounds(file_bytes=1_000))
    assert paths(found) == ["b.py"]
    assert [one.path for one in found.skipped] == ["a.py"]
    assert not found.complete


@pytest.mark.parametrize(
    ("bounds", "why"),
    [(Bounds(files=3), "3 source files"), (Bounds(total_bytes=3), "MiB"),
     (Bounds(seconds=-1.0), "took more than")],
)  # fmt: skip
def test_a_bound_ends_the_scan_and_is_said(tmp_path: Path, bounds: Bounds, why: str) -> None:
    write(tmp_path, **{f"f{n}.py": "x" for n in range(9)})
    found = read(tmp_path, bounds=bounds)
    assert len(found.files) <= 3
    assert why in found.skipped[0].why
    assert not found.complete


def test_what_lies_too_deep_is_not_looked_for(tmp_path: Path) -> None:
    write(tmp_path, **{"a/b/c/d.py": "", "a/e.py": ""})
    assert paths(read(tmp_path, bounds=Bounds(depth=1))) == ["a/e.py"]


def test_bytes_that_are_no_text_are_replaced_and_binaries_left_out(tmp_path: Path) -> None:
    write(tmp_path, **{"latin.py": "s = 'caf\xe9'".encode("latin-1"), "bin.py": b"\0\1\2"})
    (file,) = read(tmp_path).files
    assert (file.path, file.text) == ("latin.py", "s = 'caf\ufffd'")


def test_a_pipe_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    write(tmp_path, **{"a.py": ""})
    assert paths(read(tmp_path)) == ["a.py"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert read(tmp_path, "no").skipped[0].why == "no such folder"


def test_a_folder_beside_the_project_keeps_its_way_there(tmp_path: Path) -> None:
    write(tmp_path, **{"agent/a.py": "", "project/x": ""})
    assert paths(read(tmp_path / "project", "../agent")) == ["../agent/a.py"]


def test_two_folders_that_overlap_are_read_once(tmp_path: Path) -> None:
    write(tmp_path, **{"app/a.py": ""})
    assert paths(read(tmp_path, ".", "app")) == ["app/a.py"]


@pytest.mark.parametrize("name", ["README.md", "a.png", "package-lock.json", "x.min.js"])
def test_what_is_no_source_is_not_read(name: str) -> None:
    assert language_of(name) is None
