"""Which of several tested edits stand together: e-BH over their e-values. A report, no verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FALSE_SHARE: Final = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Portfolio:
    """The edits whose "no harm on sealed cases" survives looking at all of them."""

    survive: tuple[str, ...]
    """Largest e-value first. At most a tenth of these claims is false, on average over projects."""
    others: tuple[str, ...]
    """Tested, and not strong enough beside the others."""
    untested: tuple[str, ...]
    """No sealed case was run with them."""
    needed: float | None
    """The e-value that the strongest of the others would have needed; None: there is none."""

    def in_words(self) -> str:
        """One sentence for a person."""
        tested = len(self.survive) + len(self.others)
        if not tested:
            return "No edit was tested on sealed cases yet."
        return (
            f"{len(self.survive)} of {tested} tested edits are shown to do no harm when all are "
            f"looked at together (at most {FALSE_SHARE:.0%} of such claims false on average)."
        )


def portfolio(e_values: Mapping[str, float | None], share: float = FALSE_SHARE) -> Portfolio:
    """The e-BH procedure: the largest k whose k-th largest e-value is at least m / (k share).

    It holds whatever the edits have in common, since their tests share sealed cases.

    Args:
        e_values: by edit, the last of the e-process on its sealed differences; None: none ran.
        share: of false claims among those that survive, 0..1.

    Raises:
        ValueError: a share outside 0..1, or an e-value below 0.
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"a share is between 0 and 1, got {share!r}")
    tested = {name: e for name, e in e_values.items() if e is not None}
    if any(not e >= 0.0 for e in tested.values()):
        raise ValueError(f"an e-value is at least 0: {tested!r}")
    order = sorted(tested, key=lambda name: (-tested[name], name))
    m = len(order)
    strong = [k for k in range(1, m + 1) if tested[order[k - 1]] * k * share >= m * (1 - 1e-12)]
    kept = max(strong, default=0)
    return Portfolio(
        survive=tuple(order[:kept]),
        others=tuple(order[kept:]),
        untested=tuple(sorted(name for name, e in e_values.items() if e is None)),
        needed=m / ((kept + 1) * share) if kept < m else None,
    )
