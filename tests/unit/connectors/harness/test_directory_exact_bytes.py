"""A folder gives and takes exact bytes: encodings, ends, modes, and links from outside."""

from pathlib import Path

import pytest

from connectors.harness.directory import DirectoryHarness
from contracts.harness import Effect, HarnessFile, HarnessSnapshot, effect_key

BYTES = {
    "latin": "Büro\n".encode("latin-1"),
    "utf16": "Desk\n".encode("utf-16"),
    "zeros": b"a\0b\n",
    "empty": b"",
    "no last end": b"Be brief.",
    "marked": b"\xef\xbb\xbfBe brief.\r\n",
}


def _harness(root: Path) -> DirectoryHarness:
    return DirectoryHarness(root, ["*.md"], root.parent / "work")


async def _change(
    harness: DirectoryHarness, before: HarnessSnapshot, after: HarnessSnapshot
) -> None:
    effect = Effect(
        key=effect_key("apply", "h", "d", harness.target), kind="apply", project="p",
        proposal_hash="h", decision_id="d", target=harness.target, before=before.revision,
        after=after.revision,
    )  # fmt: skip
    await harness.stage(effect, before, after)
    await harness.switch(effect, before, after)
    await harness.discard(effect)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "agent"
    made.mkdir()
    return made


@pytest.mark.parametrize("name", BYTES)
async def test_whatever_the_bytes_are_they_are_read_and_stay_beside_an_edit(
    name: str, root: Path
) -> None:
    (root / "odd.md").write_bytes(BYTES[name])
    (root / "main.md").write_bytes(b"# Desk\n")
    harness = _harness(root)
    before = await harness.read()
    assert before.files["odd.md"].data == BYTES[name]
    edited = {**before.files, "main.md": HarnessFile(data=b"# Desk\nBe kind.\n")}
    await _change(harness, before, HarnessSnapshot(files=edited))
    assert (root / "odd.md").read_bytes() == BYTES[name]
    assert (root / "main.md").read_bytes() == b"# Desk\nBe kind.\n"


@pytest.mark.parametrize("mode", [0o444, 0o600, 0o755])
async def test_an_edited_file_keeps_its_mode_also_a_read_only_one(mode: int, root: Path) -> None:
    file = root / "main.md"
    file.write_bytes(b"# Desk\n")
    file.chmod(mode)
    harness = _harness(root)
    before = await harness.read()
    after = HarnessSnapshot(files={"main.md": HarnessFile(data=b"# Shop\n", mode=mode)})
    assert before.files["main.md"].mode == mode
    await _change(harness, before, after)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"# Shop\n", mode)


async def test_a_second_name_of_a_file_outside_the_harness_keeps_the_old_text(root: Path) -> None:
    """A hard link is another file's name: what has it is not written through."""
    file, other = root / "main.md", root.parent / "elsewhere.txt"
    file.write_bytes(b"# Desk\n")
    other.hardlink_to(file)
    harness = _harness(root)
    before = await harness.read()
    await _change(
        harness, before, HarnessSnapshot(files={"main.md": HarnessFile(data=b"# Shop\n")})
    )
    assert (file.read_bytes(), other.read_bytes()) == (b"# Shop\n", b"# Desk\n")
