"""How a fault of an apply is told: run until it has an end, then compared with the promises."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contracts.harness import EffectKind
from tests.apply_worlds import ApplyWorld, Said

TRIES = 6


class Broken(AssertionError):
    """A promise was not kept; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of the change, as three columns of the table."""

    result: str
    ledger: str
    said: str
    """What the next command says; empty: nothing is left to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, and the story that is told of it in a folder."""

    id: str
    what: str
    tell: Callable[[Path], Told]


@dataclass(slots=True)
class Ending:
    """The node, run until it has an end."""

    world: ApplyWorld
    thread: str = "t-apply"
    said: list[Said] = field(default_factory=list)

    def run(self) -> Said:
        """The first call that ended."""
        for _ in range(TRIES):
            done = self.world.do(thread=self.thread)
            self.said.append(done)
            if done.applied in ("done", "aborted", "stuck"):
                return done
        raise Broken(f"no end after {TRIES} calls: {self.said[-1]}")


def judged(
    world: ApplyWorld,
    last: Said,
    *,
    by_hand: Mapping[str, bytes] | None = None,
    undone: bool = False,
) -> Told:
    """Compare harness, ledger and audit log with the promises.

    Args:
        world: after the last call.
        last: that call.
        by_hand: files that a person wrote meanwhile; they must be as they were left.
        undone: the change was an undo.

    Raises:
        Broken: a promise was not kept.
    """
    edits = by_hand or {}
    now, releases = world.harness(), world.releases()
    kind: EffectKind = "undo" if undone else "apply"
    states = {effect.state for effect in world.effects(kind)}
    hold(world.audit_ok(), "the audit log does not verify")
    hold(all(now.get(path) == data for path, data in edits.items()), "a hand edit was lost")
    hold("intended" not in states, f"an effect has no end: {states}")
    ours = {path: data for path, data in now.items() if path not in edits}
    left, reached = (world.after, world.before) if undone else (world.before, world.after)
    sides = [{p: d for p, d in side.items() if p not in edits} for side in (left, reached)]
    if last.applied == "done":
        hold(ours == sides[1], "done, and the harness is not what was approved")
        hold(len(releases) == 1 + undone, f"{len(releases)} releases")
        hold(states == {"done"}, f"done, and the effects are {states}")
        return Told(result="applied once", ledger=world.state(), said="")
    hold(len(releases) == int(undone), f"{last.applied}, and there is a release of it")
    hold(ours == sides[0], f"{last.applied}, and a file of ours is not what it was")
    reasons = {e.reason for e in world.effects(kind) if e.reason}
    hold(bool(reasons), f"{last.applied}, and nothing says why")
    return Told(result="not at all", ledger=world.state(), said="; ".join(sorted(reasons)))


def hold(kept: bool, promise: str) -> None:
    """Raise `Broken` unless the promise was kept."""
    if not kept:
        raise Broken(promise)
