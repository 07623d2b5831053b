"""Files of a commit: exact bytes and modes, read raw, and trees made of other files."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from connectors.harness.git_run import Git, failed
from connectors.harness.paths import Include, checked_path
from connectors.harness.tree import MAX_FILE_BYTES, ODD
from contracts.errors import PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot

Entry = tuple[str, str]
"""Mode (such as 100644) and id of a blob."""
PLAIN = {"100644": 0o644, "100755": 0o755}
_OTHER = {"120000": "a symbolic link", "160000": "a submodule"}


def mode_of(file: HarnessFile) -> str:
    """What git calls the mode."""
    return next(mode for mode, bits in PLAIN.items() if bits == file.mode)


def read_commit(
    git: Git, commit: str, prefix: str, include: Include, *, lenient: bool = False
) -> HarnessSnapshot:
    """All files of a commit that the patterns name, without any filter; its id is the origin.

    Args:
        git: the repository.
        commit: which one.
        prefix: the harness's folder in it.
        include: the patterns.
        lenient: take what cannot be a harness file as `ODD` instead of refusing it.

    Raises:
        PolicyRefused: a file is a link, a submodule, too large, or its name is unsafe.
        ConnectorError: git failed, such as for a commit that a shallow clone does not have.
    """
    where = ("--full-tree", commit, "--", *_below(prefix, include))
    listed = git.must("ls-tree", "-r", "-z", "-l", *where)
    files: dict[str, HarnessFile] = {}
    wanted: dict[str, tuple[str, str]] = {}
    for path, mode, blob, size in _entries(listed.out, prefix):
        # A link or submodule may stand where a pattern writes a folder out.
        if not (include.matches(path) or (mode in _OTHER and include.names(path))):
            continue
        why = _refused(path, mode, size)
        if why is None:
            wanted[path] = (mode, blob)
        elif lenient:
            files[path] = ODD
        else:
            raise PolicyRefused(why)
    data = _blobs(git, sorted({blob for _, blob in wanted.values()}))
    for path, (mode, blob) in wanted.items():
        files[path if lenient else checked_path(path)] = HarnessFile(
            data=data[blob], mode=PLAIN[mode]
        )
    return HarnessSnapshot(files=files, origin=commit)


def _below(prefix: str, include: Include) -> list[str]:
    """Folders and files that together hold all files that the patterns name; empty: everything."""
    starts = [f"{prefix}{start}" for start in include.starts()]
    return starts or ([prefix] if prefix else [])


def _entries(out: bytes, prefix: str) -> Iterator[tuple[str, str, str, int]]:
    """Path below the prefix, mode, id, and size in bytes (0: a submodule, or a lost object)."""
    for line in out.split(b"\0"):
        head, tab, raw = line.partition(b"\t")
        path = raw.decode("utf-8", "surrogateescape")
        if tab and path.startswith(prefix):
            mode, _, blob, size = head.decode().split()
            yield path.removeprefix(prefix), mode, blob, int(size) if size.isdigit() else 0


def _refused(path: str, mode: str, size: int) -> str | None:
    if mode not in PLAIN:
        return (
            f"harness file {path!r} is {_OTHER.get(mode, 'no plain file')} in the repository; put "
            "the file itself there or leave it out of `include`"
        )
    if size > MAX_FILE_BYTES:
        return f"harness file {path!r} is larger than {MAX_FILE_BYTES >> 20} MiB"
    return None


def _blobs(git: Git, ids: Sequence[str]) -> Mapping[str, bytes]:
    """Their bytes, in one process."""
    if not ids:
        return {}
    out = git.must("cat-file", "--batch", stdin="".join(f"{one}\n" for one in ids).encode()).out
    found: dict[str, bytes] = {}
    at = 0
    for one in ids:
        end = out.index(b"\n", at)
        words = out[at:end].split()
        if len(words) != 3 or words[1] != b"blob":
            raise failed("cat-file", f"{git.folder} lacks the object {one}; run `git fsck` there")
        size = int(words[2])
        found[one] = out[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
    return found


def blocked(git: Git, commit: str, paths: Sequence[str]) -> list[str]:
    """What stands where a path of `paths` needs a folder: a file, a link, a submodule."""
    above = {"/".join(path.split("/")[:n]) for path in paths for n in range(1, path.count("/") + 1)}
    if not above:
        return []
    listed = git.must("ls-tree", "-z", "--full-tree", commit, "--", *sorted(above)).out
    entries = (line.partition(b"\t") for line in listed.split(b"\0") if line)
    found = [path.decode("utf-8", "surrogateescape") for head, _, path in entries
             if head.split()[1] != b"tree"]  # fmt: skip
    return [path for path in found if path in above]


def tree_with(git: Git, base: str, files: Mapping[str, HarnessFile | None], *, work: Path) -> str:
    """A tree that differs from the one of `base` by these files alone; None takes one away.

    The index of the work tree is not used.

    Args:
        git: the repository.
        base: a commit.
        files: by path in the repository.
        work: our folder.
    """
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work, prefix="git-") as folder:
        new = {path: file for path, file in files.items() if file is not None}
        names = [Path(folder) / str(number) for number in range(len(new))]
        for name, file in zip(names, new.values(), strict=True):
            name.write_bytes(file.data)
        listed = "".join(f"{name}\n" for name in names).encode()
        ids = git.must("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listed).text
        own = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git.must("read-tree", base, env=own)
        nothing = "0" * len(base)
        lines = [f"0 {nothing}\t{path}\0" for path, file in files.items() if file is None]
        lines += [
            f"{mode_of(file)} {blob}\t{path}\0"
            for (path, file), blob in zip(new.items(), ids.split(), strict=True)
        ]
        git.must("update-index", "-z", "--index-info", stdin="".join(lines).encode(), env=own)
        return git.must("write-tree", env=own).text
