"""Which cases to seal: whole families that nobody who drafts has seen, drawn by a seed."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from contracts.gate import Case, CaseId


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What a split does; counts are of families."""

    chosen: tuple[Case, ...]
    """Training cases to be sealed now, with the tags that they get."""
    chosen_families: int
    sealed_before: int
    free: int
    """Neither sealed nor chosen, though nobody who drafts saw a case of theirs."""
    shown: int
    """Left out, since a case of theirs was shown to who drafts, or was retired."""


def split_cases(
    cases: Sequence[Case], shown: Collection[CaseId], *, share: float, seed: int
) -> Split:
    """Seal so many families that `share` of those that can be sealed, or are, is sealed.

    The order is SHA-256 of seed and family, so nobody can pick, and a second call with the same
    cases chooses nothing more. Guards and critical cases keep their tags and are not sealed by
    this: reports call them by name.

    Args:
        cases: the casebook, with the tags and families of now.
        shown: cases that an editor saw, or that were retired; their families stay as they are.
        share: of families, 0..1.
        seed: of the order.

    Raises:
        ValueError: the share is not between 0 and 1.
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"share: needs to be 0..1, got {share!r}")
    training: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if "training" in case.tags:
            training[case.family].append(case)
    seen = {case.family for case in cases if case.id in shown or "target" in case.tags}
    sealed = {case.family for case in cases if "sealed" in case.tags} - seen
    free = sorted(training.keys() - seen - sealed, key=lambda family: _drawn(seed, family))
    wanted = round(share * (len(free) + len(sealed))) - len(sealed)
    chosen = free[: max(0, wanted)]
    return Split(
        chosen=tuple(
            replace(case, tags=(case.tags - {"training"}) | {"sealed"})
            for family in sorted(chosen)
            for case in training[family]
        ),
        chosen_families=len(chosen), sealed_before=len(sealed), free=len(free) - len(chosen),
        shown=len(seen),
    )  # fmt: skip


def _drawn(seed: int, family: str) -> str:
    text = f"{seed}|{family}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest() + family
