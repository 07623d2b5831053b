"""One installation of a cluster as tests see it: ledger, tokens, and calls of its servers."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import httpx

from contracts.people import Role
from memory.database import open_engine
from memory.ledger import Ledger, open_ledger
from memory.proposals import StoredProposal
from memory.tokens import Tokens
from tests.postgres import driver_url
from tests.story.worlds import PROJECT, World, build_world

SECRET = "made-up-secret-of-the-hook"  # noqa: S105
WITHIN_SECONDS = 180.0
"""For anything that is waited for: a busy machine with two cores, several servers at once."""

T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, within: float = WITHIN_SECONDS) -> T:
    """What `look` finds, asked again until it finds something."""
    end = time.monotonic() + within
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        assert time.monotonic() < end, f"not within {within:.0f} s: {what}"
        time.sleep(0.05)


def recorded_world(root: Path) -> World:
    """A repository with a stormy day of traces, whose alerts are looked at without delay."""
    world = build_world(root, requests=100)
    settings = root / "tracemend.yaml"
    text = settings.read_text("utf-8")
    settings.write_text(text.replace("settle: 60s", "settle: 0s"), "utf-8")
    assert "settle: 0s" in settings.read_text("utf-8")
    return world


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """An installation, on its own SQLite files or on a PostgreSQL database."""

    world: World
    database: str | None = None

    @property
    def environ(self) -> dict[str, str]:
        """Of its servers."""
        named = {"TRACEMEND_DATABASE_URL": self.database} if self.database else {}
        secrets = {"TRACEMEND_HOOK_GENERIC_REFUNDS": SECRET}
        # Settings of limits: the tests ask as often as they like.
        free = {"TRACEMEND_SERVER__LIMITS__PER_TOKEN": "100000/minute"}
        return {**self.world.environ, **named, **secrets, **free}

    @property
    def place(self) -> Path | str:
        """Where its ledger is."""
        if self.database:
            return driver_url(self.database)
        return self.world.root / ".tracemend" / "ledger.sqlite"

    @contextmanager
    def looking(self) -> Iterator[Ledger]:
        """The ledger for a look."""
        ledger = open_ledger(self.place, PROJECT)
        try:
            yield ledger
        finally:
            ledger.close()

    def token(
        self, name: str, roles: Sequence[Role], projects: Sequence[str] | None = (PROJECT,)
    ) -> str:
        """A new token's text."""
        engine = open_engine(self.place)
        try:
            return Tokens(engine).create(name, roles, projects=projects, expires_at=None)[1]
        finally:
            engine.dispose()

    def alert(self, url: str, key: str) -> httpx.Response:
        """A delivery of the generic hook about the stormy day."""
        now = datetime.now(UTC)
        window = {"start": now - timedelta(days=1), "end": now}
        body = {
            "key": key, "title": "refunds fail", "group": "refunds-fail",
            "window": {name: at.isoformat() for name, at in window.items()},
        }  # fmt: skip
        headers = {"Authorization": f"Bearer {SECRET}"}
        return httpx.post(f"{url}/hooks/generic/{PROJECT}", json=body, headers=headers, timeout=30)

    def card(self) -> StoredProposal:
        """The proposal that waits for a person, once there is one."""
        with self.looking() as ledger:

            def look() -> StoredProposal | None:
                found = [p for p in ledger.proposals.all_latest() if p.state == "waiting"]
                waits = ledger.incidents.listed(state="waiting")
                return found[0] if found and waits else None

            return until(look, "a card that waits")

    def decide(self, url: str, token: str, stored: StoredProposal, key: str) -> httpx.Response:
        """A yes on exactly that text."""
        proposal = stored.proposal
        headers = {
            "Authorization": f"Bearer {token}", "If-Match": f'"{proposal.hash}"',
            "Idempotency-Key": key,
        }  # fmt: skip
        return httpx.post(
            f"{url}/proposals/{proposal.id}/decision", json={"type": "approve"}, headers=headers,
            timeout=60,
        )  # fmt: skip

    def applied_once(self, before: dict[str, bytes], within: float = WITHIN_SECONDS) -> None:
        """Wait for the end; then: one decision, one release, its bytes, one lesson, a whole log."""
        with self.looking() as ledger:

            def over() -> bool:
                return bool(ledger.effects.releases()) and not ledger.incidents.unfinished()

            until(over, "the end of the run", within)
            (release,) = ledger.effects.releases()
            proposal = ledger.proposals.latest(release.proposal).proposal
            assert len(ledger.proposals.decisions(proposal.id, proposal.revision, "approve")) == 1
            assert len(ledger.knowledge.lessons()) == 1
            assert ledger.audit.verify().ok
            expected = ledger.artifacts.snapshot(proposal.candidate_revision)
        after = self.world.harness()
        assert after == {path: file.data for path, file in expected.files.items()}
        assert after != before
