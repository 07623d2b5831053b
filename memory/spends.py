"""What calls of models used, in tokens and money. Unknown cost is kept as unknown."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection, func, select

from contracts.json_types import content_id
from memory.database import Database, rfc3339
from memory.schema import spends

Purpose = Literal["diagnose", "screen", "triage", "ask", "draft", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """A sum of calls."""

    calls: int
    tokens: int
    """Input and output."""
    cost_usd: float | None
    """None: the cost of some call is not known."""
    known_usd: float = 0.0
    """Of the calls whose cost is known; never more than was spent."""


class Spends:
    """The calls of one project."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(
        self,
        tx: Connection,
        purpose: Purpose,
        model: str,
        *,
        key: str,
        tokens: int,
        cost_usd: float | None,
        thread: str | None = None,
    ) -> None:
        """Note calls once under their key, such as thread and step: a re-run adds nothing."""
        self._db.insert_once(
            tx, spends,
            {"id": content_id("$-", self._db.project, purpose, key), "purpose": purpose,
             "model": model, "tokens": tokens, "cost_usd": cost_usd, "thread": thread,
             "at": self._db.now()},
        )  # fmt: skip

    def of_thread(self, thread: str) -> Spent:
        """What one run used so far."""
        return self._sum(thread=thread, since=None)

    def since(self, at: datetime) -> Spent:
        """What the project used from a moment on."""
        return self._sum(thread=None, since=at)

    def _sum(self, *, thread: str | None, since: datetime | None) -> Spent:
        count, known = func.count(), func.count(spends.c.cost_usd)
        tokens, cost = func.sum(spends.c.tokens), func.sum(spends.c.cost_usd)
        asked = select(count, known, tokens, cost).where(spends.c.project == self._db.project)
        if thread is not None:
            asked = asked.where(spends.c.thread == thread)
        if since is not None:
            asked = asked.where(spends.c.at >= rfc3339(since))
        with self._db.read() as tx:
            calls, priced, used, money = tx.execute(asked).one()
        known_cost = float(money or 0.0) if priced == calls else None
        return Spent(
            calls=calls, tokens=int(used or 0), cost_usd=known_cost, known_usd=float(money or 0.0)
        )
