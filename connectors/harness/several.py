"""A harness that lives in several places: one set of paths, each owned by one place."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connectors.harness.paths import Include
from contracts.errors import ConfigError, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.protocols import Harness


@dataclass(frozen=True, slots=True)
class Place:
    """One place, and the paths that it owns."""

    harness: Harness
    at: str
    """Folder name put before its own paths; empty: none."""
    include: Include
    """Patterns of the paths as the whole harness names them."""
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", f"{self.at}/" if self.at else "")

    def owns(self, path: str) -> bool:
        """Whether the path is one of this place."""
        return self.include.matches(path) and path.startswith(self.prefix)

    def inside(self, snapshot: HarnessSnapshot) -> HarnessSnapshot:
        """A snapshot of this place alone, with its own paths, as one of the whole harness."""
        files = {f"{self.prefix}{path}": file for path, file in snapshot.files.items()}
        return HarnessSnapshot(files=files, origin=snapshot.origin)


class Places:
    """The whole harness. Of two places that name a path, the one configured first owns it."""

    def __init__(self, places: Sequence[Place]) -> None:
        """Keep them in their order, which is the order in which changes are made.

        Raises:
            ConfigError: two of them are the same.
        """
        self.places = tuple(places)
        names = [place.harness.target for place in self.places]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigError(f"harness: {twice} is there twice; give each place once")

    @property
    def target(self) -> str:
        """The names of all places, joined by ` + `."""
        return " + ".join(place.harness.target for place in self.places)

    async def read(self) -> HarnessSnapshot:
        """All files of all places as they are now, by their paths in the whole harness.

        Raises:
            PolicyRefused: two places have a file at one path.
            ConnectorError: one of them cannot be reached.
        """
        read = await asyncio.gather(*(place.harness.read() for place in self.places))
        files: dict[str, HarnessFile] = {}
        for place, snapshot in zip(self.places, read, strict=True):
            mine = place.inside(snapshot).files
            for path in mine:
                if path in files or self.owner(path) is not place:
                    raise PolicyRefused(
                        f"harness: {path} is in two places; give one of them `at: NAME`"
                    )
            files |= mine
        return HarnessSnapshot(files=files, origin=self._origin(read))

    def owner(self, path: str) -> Place:
        """The place that a path is written to.

        Raises:
            PolicyRefused: no place names it.
        """
        for place in self.places:
            if place.owns(path):
                return place
        raise PolicyRefused(f"path {path!r}: not in the harness; no `include` names it")

    def split(self, snapshot: HarnessSnapshot) -> Mapping[str, HarnessSnapshot]:
        """The snapshot as each place has it, by the place's target and with its own paths.

        Raises:
            PolicyRefused: a path is of no place.
        """
        files: dict[str, dict[str, HarnessFile]] = {p.harness.target: {} for p in self.places}
        for path, file in snapshot.files.items():
            place = self.owner(path)
            files[place.harness.target][path.removeprefix(place.prefix)] = file
        return {target: HarnessSnapshot(files=mine) for target, mine in files.items()}

    def _origin(self, read: Sequence[HarnessSnapshot]) -> str | None:
        if len(read) == 1:
            return read[0].origin
        named = zip(self.places, read, strict=True)
        said = [f"{place.harness.target} {s.origin}" for place, s in named if s.origin]
        return "; ".join(said) or None
