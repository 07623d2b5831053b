"""Change several places as one: all of them, or none.

No place is done before all are: until then the effect rows say "intended" and the places say how
far it went. So a run that was killed looks at the places again, and either goes on to the end or,
where somebody else changed one of them, puts the others back.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from connectors.harness.several import Places
from contracts.errors import ConnectorError, ForeignChange, PolicyRefused
from contracts.harness import Effect, HarnessSnapshot, Standing, effect_key
from contracts.protocols import Harness


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The change of one place: its effect, and its files on both sides."""

    harness: Harness
    prefix: str
    """What stands in front of its paths in the whole harness."""
    effect: Effect
    before: HarnessSnapshot
    after: HarnessSnapshot

    @property
    def back(self) -> "Part":
        """The same change the other way round, under a key of its own."""
        key = effect_key("undo", self.effect.key, self.effect.decision_id, self.effect.target)
        turned = replace(
            self.effect,
            key=key,
            kind="undo",
            before=self.after.revision,
            after=self.before.revision,
        )
        return replace(self, effect=turned, before=self.after, after=self.before)

    async def standing(self) -> Standing:
        """Where the place stands between the two sides."""
        return await self.harness.standing(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the change of one place ended, and why when it was not done."""

    state: Literal["done", "aborted", "stuck"]
    reason: str | None = None


Outcome = Mapping[str, Ended]
"""By the key of each part's effect."""


EffectOf = Callable[[str, HarnessSnapshot, HarnessSnapshot], Effect]
"""The effect that changes a target from one side to the other."""


def parts_of(
    places: Places, before: HarnessSnapshot, after: HarnessSnapshot, effect_of: EffectOf
) -> tuple[Part, ...]:
    """The parts of a change, one a place that it touches, in the order of the places.

    Raises:
        PolicyRefused: a path is of no place.
    """
    old, new = places.split(before), places.split(after)
    found: list[Part] = []
    for place in places.places:
        target = place.harness.target
        was, becomes = old[target], new[target]
        if was.revision != becomes.revision:
            found.append(
                Part(
                    harness=place.harness, prefix=place.prefix,
                    effect=effect_of(target, was, becomes), before=was, after=becomes,
                )
            )  # fmt: skip
    return tuple(found)


async def switch_all(places: Places, parts: Sequence[Part], before: HarnessSnapshot) -> Outcome:
    """Bring every part to its after, or every part back to its before.

    Args:
        places: the whole harness: places that the change does not touch are compared as well.
        parts: in the order in which they are switched; some may be switched already.
        before: the whole harness before the change.

    Raises:
        ConnectorError: a place cannot be reached, so nothing is decided; ask again later.
    """
    stood = [await part.standing() for part in parts]
    if all(one == "after" for one in stood):
        return {part.effect.key: Ended(state="done") for part in parts}
    if all(one == "before" for one in stood) and (moved := await _moved(places, parts, before)):
        stop = stopped(moved, switched=False)
        return {part.effect.key: stop for part in parts}
    standing = list(zip(parts, stood, strict=True))
    for part, one in standing:
        why = await _stopped_by(part, _stage) if one in ("before", "mixed") else None
        if why is not None:
            return await _give_up(parts, part, why)
    # A foreign place first: it says itself which files, and nothing else is switched in vain.
    for part, one in sorted(standing, key=lambda pair: pair[1] != "foreign"):
        steps = (_stage, _switch) if one == "foreign" else (_switch,)
        why = await _forward(part, *steps) if one != "after" else None
        if why is not None:
            return await _give_up(parts, part, why)
    return {part.effect.key: Ended(state="done") for part in parts}


Step = Callable[[Part], Awaitable[None]]


async def _moved(places: Places, parts: Sequence[Part], before: HarnessSnapshot) -> tuple[str, ...]:
    """Paths of places that the change does not touch, where they are not what it was made on."""
    touched = {part.effect.target for part in parts}
    old = places.split(before)
    found: list[str] = []
    for place in places.places:
        target = place.harness.target
        if target not in touched:
            now = await place.harness.read()
            found += [f"{place.prefix}{path}" for path in now.changed(old[target])]
    return tuple(found)


async def _forward(part: Part, *steps: Step) -> Ended | None:
    """Take the steps of a part and read it back; why it is not done, None when it is."""
    why = await _stopped_by(part, *steps)
    if why is not None:
        return why
    if await part.standing() == "after":
        return None
    now = await part.harness.read()
    return stopped(_named(part, now.changed(part.after)), switched=True)


async def _stage(part: Part) -> None:
    await part.harness.stage(part.effect, part.before, part.after)


async def _switch(part: Part) -> None:
    await part.harness.switch(part.effect, part.before, part.after)


async def _stopped_by(part: Part, *steps: Step) -> Ended | None:
    """Take the steps; why one of them cannot be taken, now or ever.

    Raises:
        ConnectorError: the place cannot be reached; ask again later.
    """
    try:
        for step in steps:
            await step(part)
    except ForeignChange as foreign:
        return stopped(_named(part, foreign.paths), switched=foreign.switched)
    except (ConnectorError, PolicyRefused) as error:
        if isinstance(error, ConnectorError) and error.retryable:
            raise
        return Ended(state="stuck", reason=f"refused: {error}")
    return None


async def _give_up(parts: Sequence[Part], failed: Part, why: Ended) -> Outcome:
    """Put every other part back to its before."""
    ended = {failed.effect.key: why}
    for part in reversed(parts):
        if part is not failed:
            ended[part.effect.key] = await _back(part)
    return ended


async def _back(part: Part) -> Ended:
    """Put one part back to its before, unless somebody changed it since."""
    if await part.standing() == "before":
        return Ended(state="aborted", reason="not_changed: another place could not be")
    turned = part.back
    stop = await _forward(turned, _stage, _switch)
    await part.harness.discard(turned.effect)
    if stop is None:
        return Ended(state="aborted", reason="rolled_back: another place could not be changed")
    return Ended(state="stuck", reason=f"not_rolled_back: {stop.reason}")


def stopped(paths: Sequence[str], *, switched: bool) -> Ended:
    """A foreign file stopped the switch: before any file of ours was visible, or after."""
    listed = ", ".join(paths)
    if switched:
        return Ended(state="stuck", reason=f"foreign_change: {listed} changed in the middle")
    return Ended(state="aborted", reason=f"base_moved: {listed} changed since")


def _named(part: Part, paths: Sequence[str]) -> list[str]:
    return [f"{part.prefix}{path}" for path in paths]
