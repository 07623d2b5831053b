"""Which paths belong to a harness."""

import pytest

from connectors.harness.paths import Include, checked_path
from contracts.errors import ConfigError, PolicyRefused


@pytest.mark.parametrize(
    ("pattern", "path", "belongs"),
    [
        ("instructions/*.md", "instructions/main.md", True),
        ("instructions/*.md", "instructions/deep/main.md", False),
        ("instructions/*.md", "instructions/.main.md.swp", False),
        ("skills/**", "skills/a/SKILL.md", True),
        ("skills/**", "skills/SKILL.md", True),
        ("skills/**", "skills", False),
        ("skills/**", "skills/.cache/x", False),
        ("skills/**", "skills/a/__pycache__/x.pyc", False),
        ("skills/**", "skills/.tracemend-ab/x", False),
        (".claude/**", ".claude/skills/a.md", True),
        ("**/AGENTS.md", "AGENTS.md", True),
        ("**/AGENTS.md", "a/b/AGENTS.md", True),
        ("**/AGENTS.md", ".git/AGENTS.md", False),
        ("skills/**/SKILL.md", "skills/SKILL.md", True),
        ("skills/**/SKILL.md", "skills/a/b/SKILL.md", True),
        ("skills/**/SKILL.md", "skills/a/b/notes.md", False),
        ("a[bc]/?.md", "ab/x.md", True),
        ("a[bc]/?.md", "ad/x.md", False),
        ("**", "a/b", True),
    ],
)
def test_patterns_read_as_in_a_shell(pattern: str, path: str, belongs: bool) -> None:
    assert Include([pattern]).matches(path) is belongs


@pytest.mark.parametrize(
    ("pattern", "folder", "leads"),
    [
        ("instructions/*.md", "instructions", True),
        ("instructions/*.md", "instructions/deep", False),
        ("instructions/*.md", "node_modules", False),
        ("skills/**", "skills/a/b", True),
        ("**/AGENTS.md", "a/b", True),
        ("**/AGENTS.md", ".git", False),
        ("*/x/*.md", "a/x", True),
        ("*/x/*.md", "a/y", False),
    ],
)
def test_only_folders_that_can_hold_a_match_are_walked(
    pattern: str, folder: str, leads: bool
) -> None:
    assert Include([pattern]).leads(folder) is leads


def test_a_folder_written_out_in_a_pattern_is_told_from_one_below_a_wildcard() -> None:
    include = Include(["skills/**", "deep/er/*.md"])
    assert [include.names(p) for p in ("skills", "skills/a", "deep", "deep/er")] == [
        True, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a//b", "a\\*", "", ".git/*", "C:/x"])
def test_an_unsafe_pattern_names_the_key(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"harness\.include: "):
        Include([pattern])


def test_no_pattern_at_all_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"harness\.include: empty"):
        Include([])


@pytest.mark.parametrize("path", ["instructions/main.md", "a b/ü.md", "x..y/z"])
def test_a_safe_path_is_given_back(path: str) -> None:
    assert checked_path(path) == path


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty"),
        ("/a", "absolute"),
        ("C:/a", "absolute"),
        ("a/../b", r"`\.\.`"),
        ("a/", "empty part"),
        ("a\\b", "backslash"),
        ("a\nb", "control character"),
        ("a\udc80", "UTF-8"),
        ("a/" + "x" * 256, "255 bytes"),
        (".GIT/hooks/x", "reserved"),
        (".Tracemend/x", "reserved"),
    ],
)
def test_an_unsafe_path_is_refused_with_the_reason(path: str, why: str) -> None:
    with pytest.raises(PolicyRefused, match=why):
        checked_path(path)


@pytest.mark.parametrize(
    ("patterns", "starts"),
    [
        (["instructions/*.md", "skills/**"], ("instructions", "skills")),
        (["a/b/AGENTS.md", "a/b/c*/x"], ("a/b", "a/b/AGENTS.md")),
        (["a/b/*.md", "*.md"], ()),
        (["**/SKILL.md"], ()),
    ],
)
def test_the_starts_hold_every_file_that_the_patterns_name(
    patterns: list[str], starts: tuple[str, ...]
) -> None:
    assert Include(patterns).starts() == starts
