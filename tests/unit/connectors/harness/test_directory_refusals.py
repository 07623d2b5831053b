"""What the folder harness refuses to read, and what it leaves alone."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.harness import atomic
from connectors.harness.atomic import locked
from connectors.harness.directory import DirectoryHarness
from connectors.harness.tree import MAX_FILE_BYTES
from contracts.errors import ConnectorError, PolicyRefused
from contracts.harness import Effect, HarnessFile, HarnessSnapshot, effect_key


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "agent" / "skills").mkdir(parents=True)
    (tmp_path / "agent" / "skills" / "a.md").write_bytes(b"a\n")
    return tmp_path / "agent"


def harness_at(root: Path, *include: str, lock_wait_s: float = 5.0) -> DirectoryHarness:
    work = root.parent / "work"
    return DirectoryHarness(root, include or ("skills/**",), work, lock_wait_s=lock_wait_s)


def link(path: Path) -> None:
    path.symlink_to("a.md")


def outside_link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def folder_link(path: Path) -> None:
    path.symlink_to("..")


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def large(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (link, "symbolic link"),
        (outside_link, "symbolic link"),
        (folder_link, "symbolic link"),
        (os.mkfifo, "not a plain file"),
        (bind_socket, "not a plain file"),
        (large, "larger than 8 MiB"),
    ],
)
async def test_what_cannot_be_edited_safely_is_refused_by_name(
    root: Path, make: Callable[[Path], None], why: str
) -> None:
    make(root / "skills" / "x")
    with pytest.raises(PolicyRefused, match=f"'skills/x' is .*{why}"):
        await harness_at(root).read()


async def test_a_linked_folder_on_the_way_of_a_pattern_is_refused(root: Path) -> None:
    (root / "instructions").symlink_to("skills")
    with pytest.raises(PolicyRefused, match="'instructions' is a symbolic link"):
        await harness_at(root, "instructions/*.md").read()


async def test_links_and_files_that_no_pattern_names_are_left_alone(root: Path) -> None:
    (root / "venv").symlink_to("/usr")
    (root / ".tracemend-x").mkdir()
    (root / ".tracemend-x" / "b.md").write_bytes(b"b")
    (root / "skills" / ".hidden.md").write_bytes(b"h")
    assert list((await harness_at(root, "skills/**", "*/*.md").read()).files) == ["skills/a.md"]


async def test_a_file_name_that_is_not_utf8_is_refused(root: Path) -> None:
    with open(os.fsencode(root) + b"/skills/\xff.md", "wb"):  # noqa: PTH123, ASYNC230
        pass
    with pytest.raises(PolicyRefused, match="not valid UTF-8"):
        await harness_at(root).read()


async def test_a_link_that_takes_a_files_place_makes_the_target_foreign(root: Path) -> None:
    harness = harness_at(root)
    before = await harness.read()
    after = HarnessSnapshot(files={"skills/a.md": HarnessFile(data=b"b\n")})
    (root / "skills" / "a.md").rename(root / "elsewhere.md")
    (root / "skills" / "a.md").symlink_to("../elsewhere.md")
    assert await harness.standing(before, after) == "foreign"
    assert (root / "elsewhere.md").read_bytes() == b"a\n"


async def test_a_root_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConnectorError, match=r"harness: read failed: .*/none: No such file"
    ) as told:
        await harness_at(tmp_path / "none").read()
    assert (told.value.backend, told.value.operation) == ("directory", "read")


def effect_for(
    harness: DirectoryHarness, before: HarnessSnapshot, after: HarnessSnapshot
) -> Effect:
    return Effect(
        key=effect_key("apply", "h", "d", harness.target), kind="apply", project="p",
        proposal_hash="h", decision_id="d", target=harness.target, before=before.revision,
        after=after.revision,
    )  # fmt: skip


async def test_a_held_lock_is_waited_for_only_so_long(root: Path) -> None:
    harness = harness_at(root, lock_wait_s=0.1)
    before = await harness.read()
    effect = effect_for(harness, before, before)
    await harness.stage(effect, before, before)
    (lock,) = below(root.parent / "work" / "locks")
    with locked(lock, wait_s=1), pytest.raises(ConnectorError, match="holds the lock") as told:
        await harness.switch(effect, before, before)
    assert told.value.retryable


def below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.fixture
def other_file_system(tmp_path: Path) -> Iterator[Path]:
    shared = Path("/dev/shm")  # noqa: S108  another file system than the temporary folder, mostly
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm as another file system")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


async def test_staging_from_another_file_system_is_beside_the_root(
    root: Path, other_file_system: Path
) -> None:
    harness = DirectoryHarness(root, ["skills/**"], other_file_system)
    before = await harness.read()
    after = HarnessSnapshot(
        files={"skills/a.md": HarnessFile(data=b"b\n"), "skills/n/n.md": HarnessFile(data=b"n")}
    )
    effect = effect_for(harness, before, after)
    await harness.stage(effect, before, after)
    assert root / f".tracemend-{effect.key[:16]}" / "manifest.json" in below(root)
    assert await harness.read() == before
    await harness.switch(effect, before, after)
    assert await harness.read() == after
    await harness.discard(effect)
    assert sorted(after.files) == [
        p.relative_to(root).as_posix() for p in below(root) if p.is_file()
    ]


async def test_a_switch_leaves_nothing_behind_but_the_files(root: Path) -> None:
    harness = harness_at(root)
    before = await harness.read()
    after = HarnessSnapshot(files={"skills/n/m/n.md": HarnessFile(data=b"n")})
    for one, other in ((before, after), (after, before)):
        effect = effect_for(harness, one, other)
        await harness.stage(effect, one, other)
        await harness.switch(effect, one, other)
        await harness.discard(effect)
    assert [p.relative_to(root).as_posix() for p in below(root)] == [
        "skills",
        "skills/a.md",
    ]
    assert [p.name for p in below(root.parent / "work") if p.suffix != ".lock"] == ["locks"]


def test_without_the_systems_call_files_still_change_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_renameat2", lambda: None)
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    atomic.exchange(one, other)
    assert (one.read_bytes(), other.read_bytes()) == (b"2", b"1")
    with pytest.raises(FileExistsError):
        atomic.move_new(one, other)
    atomic.move_new(one, tmp_path / "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "other"]
