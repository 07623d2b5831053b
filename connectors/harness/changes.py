"""Is a change one of this place? Asked by every place before it touches anything."""

from connectors.harness.paths import Include, checked_path
from contracts.errors import PolicyRefused, UsageError
from contracts.harness import Effect, HarnessSnapshot


def changed_paths(
    target: str,
    effect: Effect,
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    *,
    include: Include | None = None,
) -> tuple[str, ...]:
    """The paths that a change touches, sorted.

    Args:
        target: name of the place.
        effect: names the place and both revisions; must be of this one and of these snapshots.
        before: the place's files before.
        after: the place's files after.
        include: what belongs to the place; None: the place tells by itself.

    Raises:
        UsageError: the effect is of another place or of other snapshots.
        PolicyRefused: a path is unsafe or no part of the place.
    """
    if (effect.target, effect.before, effect.after) != (target, before.revision, after.revision):
        raise UsageError(f"effect {effect.key[:16]}: not of this target and these snapshots")
    changed = before.changed(after)
    for path in changed:
        if include is not None and not include.matches(checked_path(path)):
            raise PolicyRefused(f"path {path!r}: not in the harness; no `include` names it")
    return changed
