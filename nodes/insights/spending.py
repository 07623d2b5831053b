"""What the models of one analysis may still use, in tokens and money, and what they used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import Connection

from contracts.json_types import Json
from memory.budget import count_tokens
from memory.spends import Purpose, Spent
from memory.workspace import Workspace

ANSWER_TOKENS = 2_000
"""The most that an answer about traces may take; calls are made only where it still has room."""
DAY = timedelta(days=1)


def count(text: str) -> int:
    """Tokens of a text, by the carried vocabulary, else estimated."""
    return count_tokens(text).tokens


@dataclass(slots=True)
class Meter:
    """Bounds the calls of one run; what they used is in the ledger, under keys that count once."""

    ws: Workspace
    thread: str
    used: dict[Purpose, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What was not asked for want of budget, a sentence each."""
    unpriced: int = 0
    """Calls of this analysis whose cost nobody knows."""
    cost_usd: float = 0.0
    """Of the calls whose cost is known."""

    @property
    def limit(self) -> int:
        """Tokens for the whole analysis."""
        return self.ws.settings.budget.analysis_tokens

    @property
    def left(self) -> int:
        """Tokens that are not used yet."""
        return max(0, self.limit - sum(self.used.values()))

    def refusal(self, *, calls: int = 1, tokens: int = 0) -> str | None:
        """Why the next calls cannot be made; None: they can.

        Args:
            calls: how many are made at once; each may cost what the calls so far did on average.
            tokens: what they may take together, answers included.
        """
        if tokens > self.left:
            return f"the token budget of the analysis is used up ({self.left} of {self.limit} left)"
        return money_refusal(self.ws, self.thread, calls=calls)

    def count(self, purpose: Purpose, tokens: int, cost_usd: float | None) -> None:
        """Take a call into this analysis' sums, whether it was made now or by a killed try."""
        self.used[purpose] = self.used.get(purpose, 0) + tokens
        self.unpriced += cost_usd is None and tokens > 0
        self.cost_usd += cost_usd or 0.0

    def keep(
        self, tx: Connection, purpose: Purpose, model: str, *, step: str, tokens: int,
        cost_usd: float | None,
    ) -> None:  # fmt: skip
        """Note a call in the ledger, once."""
        if tokens:
            self.ws.ledger.spends.add(
                tx, purpose, model, key=f"{self.thread}:{step}", tokens=tokens,
                cost_usd=cost_usd, thread=self.thread,
            )  # fmt: skip

    def report(self) -> dict[str, Json]:
        """Numbers for the state: tokens by step, the limit, the cost if all of it is known."""
        notes = list(self.notes)
        if self.unpriced:
            notes.append(
                f"the cost of {self.unpriced} calls is not known: tokens bound them, not money"
            )
        used: Mapping[str, Json] = {str(purpose): n for purpose, n in sorted(self.used.items())}
        return {
            "tokens": dict(used), "limit": self.limit,
            "cost_usd": None if self.unpriced else round(self.cost_usd, 6),
            "known_usd": round(self.cost_usd, 6), "notes": list(notes),
        }  # fmt: skip


def money_refusal(ws: Workspace, thread: str, *, calls: int = 1) -> str | None:
    """Why money forbids the next calls of a run, whatever they are for; None: it does not.

    Args:
        ws: the project.
        thread: of the run; what it used for anything so far counts.
        calls: how many are made at once; each may cost what the calls so far did on average.
    """
    budget, spends = ws.settings.budget, ws.ledger.spends
    run = spends.of_thread(thread)
    day = spends.since(ws.ledger.db.clock() - DAY)
    ahead = calls * _mean_usd(run)
    if run.known_usd + ahead > budget.max_usd or budget.max_usd == 0:
        return f"budget.max_usd ({budget.max_usd:g}) leaves no room for it"
    if day.known_usd + ahead > budget.max_usd_per_day or budget.max_usd_per_day == 0:
        return f"budget.max_usd_per_day ({budget.max_usd_per_day:g}) leaves no room for it"
    return None


def _mean_usd(spent: Spent) -> float:
    return spent.known_usd / spent.calls if spent.calls else 0.0
