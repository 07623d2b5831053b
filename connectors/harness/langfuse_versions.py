"""Versions of prompts and skills in Langfuse: immutable, numbered, and pointed to by labels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from connectors.harness.langfuse_api import odd
from contracts.harness import Effect, HarnessFile, TargetChange
from contracts.json_types import Json

TAKEN: Final = "tracemend-"
"""Begins the label that stands on a version whose label was taken away by an effect."""
MAX_MESSAGE: Final = 500  # characters of a commit message
LATEST: Final = "latest"
"""Moved by the server alone, to every new version."""

_MARK: Final = re.compile(
    r"tracemend ([0-9a-f]{64})(?: p-[a-z0-9]{1,40} r[0-9]{1,6})? v([0-9]{1,9}) on v([0-9]{1,9})\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a commit message of ours says."""

    key: str
    """Of the effect."""
    number: int
    """That the version was to get: one more than the newest when it was made."""
    base: int
    """The version that it was made from; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a prompt, or of a skill with all its files."""

    name: str
    number: int
    files: Mapping[str, HarnessFile]
    """By their paths in the harness; none where there is a `problem`."""
    labels: frozenset[str]
    beside: Json
    """What belongs to the version and is no text of it: a prompt's config, files left alone."""
    message: str
    at: datetime | None
    by: str | None
    problem: str | None = None
    """Why it cannot be written as files."""

    @property
    def mark(self) -> Mark | None:
        """What the message says where it is one of ours."""
        found = _MARK.match(self.message)
        if found is None:
            return None
        return Mark(key=found[1], number=int(found[2]), base=int(found[3]))

    @property
    def origin(self) -> str:
        """What Langfuse calls it."""
        return f"{self.name}@{self.number}"

    def change(self) -> TargetChange:
        """The version as an entry of the place's history."""
        mark = self.mark
        return TargetChange(
            origin=self.origin, at=self.at, by=self.by, message=self.message,
            effect=mark.key if mark else None,
        )  # fmt: skip


def message_of(effect: Effect, *, number: int, base: int) -> str:
    """The commit message of a version that the effect makes: its key first, then who and why."""
    about = effect.about
    which = f" {about.proposal} r{about.revision}" if about else ""
    message = f"tracemend {effect.key}{which} v{number} on v{base}"
    if about:
        message += f" for {about.finding}, approved by {about.approver}: {about.title}"
    return "".join(c if c.isprintable() else " " for c in message)[:MAX_MESSAGE]


def taken_by(effect: Effect) -> str:
    """The label that an effect leaves where it takes one away; at most 36 characters."""
    return f"{TAKEN}{effect.key[:16]}"


class Store(Protocol):
    """Prompts or skills of a project, over open connections."""

    async def names(self) -> Sequence[str]:
        """All that some pattern of the settings may mean, sorted."""
        ...

    async def labelled(self, name: str, label: str) -> Version | None:
        """What a reader by the label gets. It may be old for a while after a move."""
        ...

    async def numbered(self, name: str, number: int) -> Version | None:
        """The version itself, with the labels that it has now; None: there is none."""
        ...

    async def numbers(self, name: str) -> Sequence[int]:
        """Numbers of its versions, newest first; some of them may be gone."""
        ...

    async def create(
        self, name: str, files: Mapping[str, HarnessFile], base: Version | None, message: str
    ) -> int:
        """Make a version without a label; its number. All but the files is as in `base`.

        Raises:
            Taken: somebody else made one at the same moment.
        """
        ...

    async def label(self, version: Version, label: str) -> None:
        """Move the label to the version. What an effect left there goes."""
        ...

    async def unlabel(self, version: Version, label: str, *, instead: str) -> None:
        """Take the label from the version and leave another there, which says who did.

        Raises:
            PolicyRefused: the server has no call for it.
        """
        ...


async def holder(store: Store, name: str, label: str) -> Version | None:
    """The version that has the label now.

    A read by label may come from a cache, so what it names is asked for by its number, and where
    that one does not have the label any more, the others are.
    """
    seen = await store.labelled(name, label)
    if seen is None:
        return None
    fresh = await store.numbered(name, seen.number)
    if fresh is not None and label in fresh.labels:
        return fresh
    for number in await store.numbers(name):
        if number == seen.number:
            continue
        version = await store.numbered(name, number)
        if version is not None and label in version.labels:
            return version
    return None


def moment(value: Json) -> datetime | None:
    """An instant of the API; None where it is none."""
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    return when if when.tzinfo else None


def whole(value: Json, what: str) -> int:
    """A version's number.

    Raises:
        ConnectorError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise odd(what, "names no version number")
    return value


def words(value: Json) -> frozenset[str]:
    """The texts of a list."""
    listed = value if isinstance(value, list) else []
    return frozenset(one for one in listed if isinstance(one, str))
