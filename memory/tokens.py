"""Tokens of the server: `tm_<id>_<secret>`, of which only a hash is kept.

The secret has 256 random bits, so one SHA-256 is as good as a slow hash, and costs a request
nothing. Tokens belong to the installation; each is bounded to projects and roles.
"""

import hmac
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import Connection, Engine, RowMapping, select, update

from contracts.errors import UsageError
from contracts.json_types import sha256_hex
from contracts.people import Principal, Role
from memory.database import Clock, rfc3339, utc_now
from memory.migrate import READS
from memory.schema import tokens

PREFIX = "tm_"
USED_EVERY = timedelta(minutes=1)
"""How exactly `last_used_at` is kept: a request that comes sooner writes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A token without its secret. Times are RFC 3339 UTC; `projects` None: all."""

    id: str
    name: str
    roles: tuple[Role, ...]
    projects: tuple[str, ...] | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class Tokens:
    """All tokens of an installation."""

    def __init__(self, engine: Engine, *, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock

    def create(
        self, name: str, roles: Sequence[Role], *, projects: Sequence[str] | None,
        expires_at: datetime | None,
    ) -> tuple[TokenRow, str]:  # fmt: skip
        """Make a token; its text is returned here and never again."""
        id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        row = {
            "id": id_, "name": name, "roles": sorted(set(roles)),
            "projects": None if projects is None else sorted(set(projects)),
            "hash": sha256_hex(secret.encode()), "at": rfc3339(self._clock()),
            "expires_at": None if expires_at is None else rfc3339(expires_at),
        }  # fmt: skip
        with self._engine.begin() as tx:
            tx.execute(tokens.insert().values(**row))
        return self.get(id_), f"{PREFIX}{id_}_{secret}"

    def get(self, token_id: str) -> TokenRow:
        """One token.

        Raises:
            UsageError: there is no such token.
        """
        row = self._row(token_id)
        if row is None:
            raise UsageError(f"{token_id}: no such token; `tracemend token list` shows them")
        return _token(row)

    def listed(self) -> list[TokenRow]:
        """All tokens, oldest first."""
        with self._read() as tx:
            return [_token(r) for r in tx.execute(select(tokens).order_by(tokens.c.at)).mappings()]

    def revoke(self, token_id: str) -> TokenRow:
        """End a token now; ending it twice changes nothing."""
        self.get(token_id)
        mine = (tokens.c.id == token_id) & tokens.c.revoked_at.is_(None)
        with self._engine.begin() as tx:
            tx.execute(update(tokens).where(mine).values(revoked_at=rfc3339(self._clock())))
        return self.get(token_id)

    def principal(self, text: str) -> Principal | None:
        """Who this token stands for; None: it is none of ours, revoked or expired."""
        id_, _, secret = text.removeprefix(PREFIX).partition("_")
        row = self._row(id_)
        # Compared in any case, so that an unknown id takes as long as a wrong secret.
        known = row["hash"] if row is not None else sha256_hex(b"")
        same = hmac.compare_digest(known, sha256_hex(secret.encode("utf-8", "surrogatepass")))
        if row is None or not same or not text.startswith(PREFIX) or row["revoked_at"] is not None:
            return None
        if row["expires_at"] is not None and row["expires_at"] <= rfc3339(self._clock()):
            return None
        self._used(row)
        projects = row["projects"]
        return Principal(
            name=row["name"], roles=frozenset(cast("list[Role]", row["roles"])),
            projects=None if projects is None else frozenset(projects), token=row["id"],
        )  # fmt: skip

    def _used(self, row: RowMapping) -> None:
        """Note the use, unless it was noted less than a minute ago."""
        now = self._clock()
        before, c = rfc3339(now - USED_EVERY), tokens.c
        if row["last_used_at"] is not None and row["last_used_at"] > before:
            return
        stale = (c.id == row["id"]) & (c.last_used_at.is_(None) | (c.last_used_at <= before))
        with self._engine.begin() as tx:
            tx.execute(update(tokens).where(stale).values(last_used_at=rfc3339(now)))

    def _row(self, token_id: str) -> RowMapping | None:
        with self._read() as tx:
            return tx.execute(select(tokens).where(tokens.c.id == token_id)).mappings().first()

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """Every request asks for its token: it must not wait for who writes just now."""
        with self._engine.connect() as plain:
            yield plain.execution_options(**{READS: True})


def _token(row: RowMapping) -> TokenRow:
    projects = row["projects"]
    return TokenRow(
        id=row["id"], name=row["name"], roles=tuple(row["roles"]),
        projects=None if projects is None else tuple(projects), created_at=row["at"],
        expires_at=row["expires_at"], revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )  # fmt: skip
