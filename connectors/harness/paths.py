"""Which paths belong to a harness: safe relative POSIX paths that an include pattern names."""

import unicodedata
from collections.abc import Sequence
from fnmatch import fnmatchcase

from contracts.errors import ConfigError, PolicyRefused

RESERVED = (".tracemend", ".git")
"""No harness file lies in these; a name that only begins with the first is ours as well."""
GENERATED = "__pycache__"
"""Written by Python beside scripts of a skill, and different on every machine."""

Parts = tuple[str, ...]


def checked_path(path: str) -> str:
    """`path`, when it is relative, stays inside the root and is printable.

    Raises:
        PolicyRefused: it is not; the message says why.
    """
    why = _unsafe(path)
    if why is not None:
        raise PolicyRefused(f"path {path!r}: {why}")
    return path


def _unsafe(path: str) -> str | None:
    parts = path.split("/")
    rules: dict[str, bool] = {
        "empty": not path,
        "absolute": path.startswith("/") or path[1:3] == ":/",
        "a backslash": "\\" in path,
        "`.`, `..` or an empty part": any(part in ("", ".", "..") for part in parts),
        "a control character": any(unicodedata.category(c) == "Cc" for c in path),
        "not valid UTF-8": any("\ud800" <= c <= "\udfff" for c in path),
        "a part longer than 255 bytes": any(len(p.encode("utf-8", "replace")) > 255 for p in parts),
        "a reserved name": any(is_reserved(part) for part in parts),
    }
    return next((why for why, broken in rules.items() if broken), None)


def is_reserved(name: str) -> bool:
    """Whether a file or folder of this name is never part of a harness."""
    folded = name.casefold()  # some file systems do not tell the cases apart
    return folded.startswith(RESERVED[0]) or folded == RESERVED[1]


class Include:
    """The include patterns of a harness.

    `*`, `?` and `[…]` stay inside one part of a path, `**` stands for any number of parts. As in a
    shell, none of them matches a leading dot: a hidden file is named with its dot.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Check the patterns.

        Raises:
            ConfigError: there is none, or one is not a relative POSIX pattern.
        """
        if not patterns:
            raise ConfigError("harness.include: empty; name at least one file or pattern")
        for pattern in patterns:
            why = _unsafe(pattern)
            if why is not None:
                raise ConfigError(f"harness.include: {pattern!r}: {why}")
        self._patterns = tuple(tuple(pattern.split("/")) for pattern in patterns)
        self._fixed = {p[:n] for p in self._patterns for n in range(1, _literal(p) + 1)}

    def matches(self, path: str) -> bool:
        """Whether a file at `path` belongs to the harness."""
        parts = tuple(path.split("/"))
        return not _left_out(parts) and any(_matches(parts, p) for p in self._patterns)

    def leads(self, path: str) -> bool:
        """Whether files below the folder `path` can belong to the harness."""
        parts = tuple(path.split("/"))
        return not _left_out(parts) and any(_leads(parts, p) for p in self._patterns)

    def patterns(self) -> tuple[str, ...]:
        """As they were given, without their order."""
        return tuple(sorted("/".join(pattern) for pattern in self._patterns))

    def starts(self) -> tuple[str, ...]:
        """Folders and files below which all files of the harness are; empty: they may be anywhere.

        As many parts as are written out in each pattern.
        """
        written = {p if _plain(p) else p[: _literal(p)] for p in self._patterns}
        return () if () in written else tuple(sorted("/".join(parts) for parts in written))

    def names(self, path: str) -> bool:
        """Whether the folder `path` is written out in a pattern: it stays though it is empty."""
        return tuple(path.split("/")) in self._fixed


def _left_out(parts: Parts) -> bool:
    return any(is_reserved(part) or part == GENERATED for part in parts)


def _literal(pattern: Parts) -> int:
    """How many folders at the start of a pattern have no wildcard."""
    folders = pattern[:-1]
    return next((n for n, part in enumerate(folders) if set(part) & set("*?[")), len(folders))


def _plain(pattern: Parts) -> bool:
    """Whether the pattern has no wildcard at all."""
    return _literal(pattern) == len(pattern) - 1 and not set(pattern[-1]) & set("*?[")


def _matches(parts: Parts, pattern: Parts) -> bool:
    if not pattern:
        return not parts
    if pattern == ("**",):
        return bool(parts) and not any(part.startswith(".") for part in parts)
    if pattern[0] == "**":
        below = bool(parts) and not parts[0].startswith(".") and _matches(parts[1:], pattern)
        return below or _matches(parts, pattern[1:])
    return bool(parts) and _one(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _leads(parts: Parts, pattern: Parts) -> bool:
    """Whether some file below the folder could match."""
    if not parts or not pattern:
        return bool(pattern)
    if pattern[0] == "**":
        below = not parts[0].startswith(".") and _leads(parts[1:], pattern)
        return below or _leads(parts, pattern[1:])
    return _one(parts[0], pattern[0]) and _leads(parts[1:], pattern[1:])


def _one(part: str, pattern: str) -> bool:
    if part.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatchcase(part, pattern)
