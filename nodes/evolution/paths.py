"""Which paths an edit may name, without touching a disk."""

import re
from collections.abc import Iterable
from functools import lru_cache

_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')


def path_problem(path: str) -> str | None:
    """Why a path is no safe relative POSIX path; None: it is one."""
    if not path or len(path.encode("utf-8", "surrogatepass")) > 400:
        return "empty or longer than 400 bytes"
    if path.startswith(("/", "~")) or _FORBIDDEN.search(path):
        return "absolute, or with a character that no file name should hold"
    for part in path.split("/"):
        if part in ("", ".", "..") or part != part.strip() or part.endswith("."):
            return f"unsafe part {part!r}"
        if part.casefold() == ".git" or _RESERVED.fullmatch(part):
            return f"reserved part {part!r}"
    return None


def included(path: str, include: Iterable[str]) -> bool:
    """Whether one of the glob patterns names the path. `*` stays in a folder, `**` does not."""
    return any(_compiled(pattern).fullmatch(path) for pattern in include)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = pattern.removeprefix("./").split("/")
    out: list[str] = []
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if part == "**":
            out.append(r".+" if last else r"(?:[^/]+/)*")
            continue
        out.append(_part(part) + ("" if last else "/"))
    return re.compile("".join(out), re.DOTALL)


def _part(part: str) -> str:
    """One part of a glob as a regex; a character class keeps its meaning."""
    atoms = re.findall(r"\[!?\]?[^\]]*\]|\*+|\?|.", part, re.DOTALL)
    out: list[str] = []
    for atom in atoms:
        if atom.startswith("*"):
            out.append("[^/]*")
        elif atom == "?":
            out.append("[^/]")
        elif len(atom) > 1:
            inner = atom[1:-1].replace("\\", r"\\").replace("[", r"\[")
            out.append(f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
        else:
            out.append(re.escape(atom))
    return "".join(out)


def skills_root(paths: Iterable[str], include: Iterable[str]) -> str | None:
    """The folder that holds skills, such as `skills` or `agent/skills`; None: there is none.

    A folder with a skill in it goes before one that only a pattern names.
    """
    patterns = tuple(include)
    there = [m[1] for p in sorted(paths) if (m := re.fullmatch(r"(.*skills)/[^/]+/SKILL\.md", p))]
    named = [m[1] for p in patterns if (m := re.fullmatch(r"((?:[^*?\[]*/)?skills)/.*", p))]
    for root in (*there, *(name.removeprefix("./") for name in named)):
        if included(f"{root}/x/SKILL.md", patterns):
            return root
    return None
