"""A map of who loads which prompt: harness files, managed prompts, texts inside code. Pure.

It says what was found. A path that is put together when the code runs may be found in part or not
at all, so "not loaded by anything found" is no proof that nothing loads it.
"""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from connectors.prompts.text import PROMPTS, prompt_name
from connectors.repository.scanning import Scan, SourceFile
from nodes.evolution.loaders_found import CodeText, FoundInFile, PathNamed, Vendor
from nodes.evolution.loaders_python import found_in_python
from nodes.evolution.loaders_text import found_in_text

MOST_LOADERS: Final = 20
"""Places listed of one file."""
_PROMPT_ENDS: Final = (".md", ".mdx", ".txt", ".prompt", ".j2", ".jinja", ".jinja2", ".tmpl")
_NO_PROMPTS: Final = ("readme", "license", "licence", "changelog", "contributing", "notice",
                      "requirements", "authors", "security", "code_of_conduct")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """A line of code that loads or names something."""

    path: str
    line: int
    how: str
    in_part: bool = False
    """Only a part of the path is written there; the rest shows when the code runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A file or a managed prompt, and who loads it."""

    name: str
    by: tuple[Loader, ...]
    vendor: Vendor | None = None
    """None: it is a file."""
    path: str | None = None
    """Where it stands in the harness; None: it is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedText:
    """A long text in code, and its file."""

    path: str
    text: CodeText

    @property
    def lines(self) -> str:
        """`12` or `12-40`."""
        one = self.text
        return str(one.line) if one.line == one.end_line else f"{one.line}-{one.end_line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMap:
    """All that was found."""

    loaded: tuple[Loaded, ...]
    """Harness files that something loads, by path."""
    not_loaded: tuple[str, ...]
    """Harness files that nothing loads, as far as found."""
    outside: tuple[Loaded, ...]
    """Files that look like prompts, are loaded, and are not in the harness."""
    managed: tuple[Loaded, ...]
    """Prompts that are fetched from Langfuse or LangSmith."""
    texts: tuple[PlacedText, ...]
    """Every long text in code, whatever it is for."""
    read: int
    """Source files that were read."""
    skipped: tuple[str, ...]
    """What was not read and why; empty: everything was."""

    @property
    def complete(self) -> bool:
        """Whether every source file was read as what it is."""
        return not self.skipped

    @property
    def instructions_in_code(self) -> tuple[PlacedText, ...]:
        """Texts in code that read as instructions."""
        return tuple(one for one in self.texts if one.text.instructs)

    def loaders(self, path: str) -> tuple[Loader, ...]:
        """Who loads a harness file."""
        return next((one.by for one in self.loaded if one.name == path), ())


def prompt_map(scanned: Scan, harness: Iterable[str]) -> PromptMap:
    """The map of a scanned repository.

    Args:
        scanned: the repository.
        harness: paths of all files of the harness.
    """
    paths = sorted(harness)
    found = [(file.path, found_in(file)) for file in scanned.files]
    by_file, managed = _files(found, paths), _managed(found, paths)
    fetched = {one.path: one.by for one in managed if one.path is not None}
    for path, by in fetched.items():
        by_file.setdefault(path, []).extend(by)
    not_loaded = [p for p in paths if p not in by_file and not _goes_along(p, by_file)]
    said = [f"{one.path}: {one.why}" for one in scanned.skipped]
    said += [f"{path}: {one.problem}" for path, one in found if one.problem][:MOST_LOADERS]
    return PromptMap(
        loaded=tuple(Loaded(name=p, by=_first(by_file[p]), path=p) for p in sorted(by_file)),
        not_loaded=tuple(not_loaded), outside=tuple(_outside(found, paths, scanned.names)),
        managed=managed, read=len(scanned.files), skipped=tuple(said),
        texts=tuple(PlacedText(path=path, text=t) for path, one in found for t in one.texts),
    )  # fmt: skip


def found_in(file: SourceFile) -> FoundInFile:
    """What one source file says; Python that cannot be parsed is searched as text."""
    if file.language == "python":
        found = found_in_python(file.text)
        if isinstance(found, FoundInFile):
            return found
        searched = found_in_text(file.text, file.path)
        return FoundInFile(
            paths=searched.paths, prompts=searched.prompts, texts=searched.texts, problem=found
        )
    return found_in_text(file.text, file.path)


@lru_cache(maxsize=65_536)
def fits(pattern: str, path: str) -> bool | None:
    """Whether a path of code is this harness path: True, in part (None), or not (False).

    Folders in front of either do not count: code runs in a folder of its own.
    """
    said = [part for part in pattern.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    held = path.split("/")
    if not said or not any(c.isalnum() for c in "".join(said)):
        return False
    exact = not any("*" in part for part in said[-len(held) :])
    for tail in _tails(said, held):
        known = [(a, b) for a, b in tail if a.strip("*?.")]
        stems = [a.rsplit(".", 1)[0] if a is tail[-1][0] else a for a, _ in known]
        if any(stem.strip("*?. ") for stem in stems):
            return True if exact else None
    if len(said) < len(held) + 1 and _is_folder(said, held):
        return None
    return False


def _tails(said: Sequence[str], held: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """The last parts of both, paired, where each of code's parts fits; `**` takes any number."""
    if "**" in said:
        at = said.index("**")
        before, after = said[:at], said[at + 1 :]
        end = held[len(held) - len(after) :]
        if len(after) > len(held) or not all(map(fnmatch.fnmatchcase, end, after)):
            return
        known = [part for part in before if part.strip("*")]
        inside = held[: len(held) - len(after)]
        if not known or known[-1] in inside:
            yield [*((k, k) for k in known[-1:]), *zip(after, end, strict=True)]
        return
    size = min(len(said), len(held))
    pairs = list(zip(said[-size:], held[-size:], strict=True))
    if all(fnmatch.fnmatchcase(b, a) for a, b in pairs):
        yield pairs


def _is_folder(said: Sequence[str], held: Sequence[str]) -> bool:
    """Whether code names the folder in which the file stands, at any height."""
    known = [part for part in said if part.strip("*")]
    if not known or any("." in part for part in known[-1:]):
        return False
    size = len(known)
    return any(list(held[at - size : at]) == known for at in range(size, len(held)))


def _files(
    found: Sequence[tuple[str, FoundInFile]], paths: Sequence[str]
) -> dict[str, list[Loader]]:
    by_file: dict[str, list[Loader]] = {}
    for source, one in found:
        for named in one.paths:
            for path in paths:
                fit = fits(named.pattern, path)
                if fit is False or (
                    fit is None and named.how == "named" and "*" not in _end(named)
                ):
                    continue
                bare = named.how == "named" and "/" not in named.pattern
                in_part = fit is None or (bare and named.pattern != path)
                loader = Loader(path=source, line=named.line, how=named.how, in_part=in_part)
                by_file.setdefault(path, []).append(loader)
    return by_file


def _end(named: PathNamed) -> str:
    return named.pattern.rsplit("/", 1)[-1]


def _managed(found: Sequence[tuple[str, FoundInFile]], paths: Sequence[str]) -> tuple[Loaded, ...]:
    held = {prompt_name(path): path for path in paths if path.startswith(PROMPTS)}
    by_name: dict[tuple[str, Vendor], list[Loader]] = {}
    for source, one in found:
        for prompt in one.prompts:
            loader = Loader(
                path=source, line=prompt.line, how=prompt.how, in_part="*" in prompt.name
            )
            by_name.setdefault((prompt.name, prompt.vendor), []).append(loader)
    return tuple(
        Loaded(name=name, by=_first(by), vendor=vendor,
               path=held.get(name, held.get(name.rpartition("/")[2])))
        for (name, vendor), by in sorted(by_name.items())
    )  # fmt: skip


def _goes_along(path: str, by_file: Mapping[str, list[Loader]]) -> bool:
    """Whether a file of a skill goes along with its SKILL.md, which something loads."""
    parts = path.split("/")
    if "skills" not in parts[:-2]:
        return False
    at = parts.index("skills")
    return "/".join([*parts[: at + 2], "SKILL.md"]) in by_file


def _outside(
    found: Sequence[tuple[str, FoundInFile]], paths: Sequence[str], names: frozenset[str]
) -> Iterator[Loaded]:
    """Files that look like prompts, are opened, and are not in the harness."""
    ours = tuple(f"/{path}" for path in paths)
    candidates = [
        name for name in sorted(names)
        if name.casefold().endswith(_PROMPT_ENDS)
        and not name.rsplit("/", 1)[-1].casefold().startswith(_NO_PROMPTS)
        and not f"/{name}".endswith(ours)
    ]  # fmt: skip
    by_file: dict[str, list[Loader]] = {}
    for source, one in found:
        opened = [named for named in one.paths if named.how != "named"]
        for named in opened:
            for name in candidates:
                if fits(named.pattern, name) is True:
                    loader = Loader(path=source, line=named.line, how=named.how)
                    by_file.setdefault(name, []).append(loader)
    yield from (Loaded(name=name, by=_first(by)) for name, by in sorted(by_file.items()))


def _first(by: Sequence[Loader]) -> tuple[Loader, ...]:
    """Each once; whole paths before those in part, code before its tests."""

    def rank(one: Loader) -> tuple[bool, bool, str, int]:
        return one.in_part, "test" in one.path.casefold(), one.path, one.line

    return tuple(sorted(dict.fromkeys(by), key=rank)[:MOST_LOADERS])
