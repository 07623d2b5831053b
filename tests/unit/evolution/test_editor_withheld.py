"""Which files of the operator's repository the editor model is kept from."""

from pathlib import Path

import pytest

from memory.workspace import Workspace, open_project, register
from nodes.evolution.node import _case_files

CASES = (
    "- {id: c-1, input: {message: A parcel is lost}, tags: [sealed], assert: [not_empty: true]}\n"
)


def _opened(root: Path, home: Path, *, harness_root: str, editor: str | None) -> Workspace:
    text = (
        "version: 1\nproject: shop\n"
        f"harness: {{kind: directory, root: {harness_root}, include: ['**/*']}}\n"
        "cases: ['agent/cases/*.yaml', 'elsewhere/*.yaml']\n"
        f"models: {{editor: {editor or 'null'}}}\n"
    )
    root.mkdir()
    (root / "tracemend.yaml").write_text(text, "utf-8")
    for folder in ("agent/cases", "elsewhere"):
        (root / folder).mkdir(parents=True)
    (root / "agent" / "cases" / "sealed.yaml").write_text(CASES, "utf-8")
    (root / "elsewhere" / "more.yaml").write_text(CASES.replace("c-1", "c-2"), "utf-8")
    register(home, "shop", root)
    return open_project(home, "shop")


@pytest.mark.parametrize(
    ("harness_root", "names"),
    [
        (".", {"agent/cases/sealed.yaml", "elsewhere/more.yaml"}),
        ("agent", {"cases/sealed.yaml"}),
    ],
)
def test_files_with_cases_are_withheld_by_the_names_the_harness_has_for_them(
    tmp_path: Path, home: Path, harness_root: str, names: set[str]
) -> None:
    ws = _opened(tmp_path / "repo", home, harness_root=harness_root, editor="scripted:a.jsonl")
    assert _case_files(ws) == names


def test_without_a_model_no_case_is_read(tmp_path: Path, home: Path) -> None:
    ws = _opened(tmp_path / "repo", home, harness_root=".", editor=None)
    (ws.root / "agent" / "cases" / "sealed.yaml").write_text("[", "utf-8")
    assert _case_files(ws) == frozenset()
