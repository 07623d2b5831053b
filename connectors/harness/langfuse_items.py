"""What a change means for each prompt or skill, and where each of them stands."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from connectors.harness.langfuse_versions import Version
from contracts.harness import HarnessFile, HarnessSnapshot

Side = Literal["before", "after", "foreign"]
Files = Mapping[str, HarnessFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One prompt or skill that a change touches, with its files on both sides."""

    name: str
    old: Files
    """Empty: the label points to none of its versions."""
    new: Files

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that differ, sorted."""
        every = {*self.old, *self.new}
        return tuple(sorted(path for path in every if self.old.get(path) != self.new.get(path)))

    def side(self, version: Version | None) -> Side:
        """Which side of the change the version is that has the label.

        A skill of which a person made some files their after, and left the others, is "before".
        """
        if version is not None and version.problem is not None:
            return "foreign"
        files = dict(version.files) if version is not None else {}
        if files == self.new:
            return "after"
        every = {*self.old, *self.new, *files}
        mixed = all(files.get(p) in (self.old.get(p), self.new.get(p)) for p in every)
        return "before" if mixed else "foreign"

    def foreign_paths(self, version: Version | None) -> tuple[str, ...]:
        """The files that are neither side; where they cannot be told apart, those that change."""
        files = version.files if version is not None else {}
        every = {*self.old, *self.new, *files}
        odd = (p for p in every if files.get(p) not in (self.old.get(p), self.new.get(p)))
        return tuple(sorted(odd)) or self.paths


def items_of(
    before: HarnessSnapshot, after: HarnessSnapshot, name_of: Callable[[str], str]
) -> Sequence[Item]:
    """The prompts or skills of a change, in the order of their paths."""
    names = dict.fromkeys(name_of(path) for path in before.changed(after))

    def files(snapshot: HarnessSnapshot, name: str) -> Files:
        return {path: file for path, file in snapshot.files.items() if name_of(path) == name}

    return [Item(name=n, old=files(before, n), new=files(after, n)) for n in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """All prompts or skills under the label, as they were found."""

    versions: Mapping[str, Version]
    """By name."""
    left_out: Mapping[str, str]
    """By name: why it is no part of the harness though the settings name it."""
    unreadable: frozenset[str]
    """Those among them that the label does point to."""

    @property
    def snapshot(self) -> HarnessSnapshot:
        """Their files; `origin` lists the versions."""
        files = {p: f for version in self.versions.values() for p, f in version.files.items()}
        origin = ", ".join(version.origin for _, version in sorted(self.versions.items()))
        return HarnessSnapshot(files=files, origin=origin or None)
