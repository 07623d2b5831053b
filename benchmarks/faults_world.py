"""The worlds that stories begin in: recorded traces, a card that waits, a release to take back."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from benchmarks.faults_points import Stage
from benchmarks.faults_server import Start, serving
from contracts.people import Role
from memory.database import Place, open_engine
from memory.ledger import Ledger, open_ledger
from memory.tokens import Tokens
from memory.workspace import DATABASE_VARIABLE
from tests.story.worlds import PROJECT, World, build_world, copy_world

REQUESTS, SEALED = 60, 32
SECRET_VARIABLE = f"TRACEMEND_HOOK_GENERIC_{PROJECT.upper()}"
SECRET = "only-for-a-test-of-kills"  # noqa: S105  # guards nothing
ROLES: tuple[Role, ...] = ("reviewer", "operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One installation: its folder, its database when it is not in the folder, who may call."""

    world: World
    token: str = field(repr=False)
    start: datetime
    end: datetime
    """The window that its traces lie in."""
    database: str | None = None

    @property
    def home(self) -> Path:
        """The installation's folder."""
        return self.world.root / ".tracemend"

    @property
    def place(self) -> Place:
        """Where its ledger is."""
        if self.database is None:
            return self.home / "ledger.sqlite"
        return f"postgresql+psycopg://{self.database.partition('://')[2]}"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its servers."""
        more = {} if self.database is None else {DATABASE_VARIABLE: self.database}
        return {**self.world.environ, SECRET_VARIABLE: SECRET, **more}

    @property
    def bearer(self) -> dict[str, str]:
        """Headers of a person who may decide and start runs."""
        return {"Authorization": f"Bearer {self.token}"}

    @contextmanager
    def looking(self) -> Iterator[Ledger]:
        """The ledger, beside whatever runs; closed afterwards."""
        ledger = open_ledger(self.place, PROJECT)
        try:
            yield ledger
        finally:
            ledger.close()


class Mode(Protocol):
    """A way to run Tracemend: what is copied for a story, and which processes serve it."""

    @property
    def name(self) -> str:
        """As the command line knows it."""
        ...

    @property
    def several(self) -> bool:
        """Whether more than one process may take up the work."""
        ...

    @property
    def own_protocol(self) -> bool:
        """Whether our routes speak the Agent Protocol, and refuse what comes too late by it."""
        ...

    def first(self, site: Site) -> Site:
        """A recorded world on SQLite, moved to where this mode keeps its rows."""
        ...

    def copy(self, site: Site, root: Path) -> Site:
        """The same installation elsewhere, with its rows; nothing may run on `site` meanwhile."""
        ...

    def drop(self, site: Site) -> None:
        """Remove what `copy` made outside the folder."""
        ...

    def starts(self, site: Site) -> list[Start]:
        """The processes of one installation, the one that is to be killed first."""
        ...


class Embedded:
    """`tracemend serve` on SQLite: one process, started again after a kill."""

    name = "embedded"
    several = False
    own_protocol = True

    def first(self, site: Site) -> Site:
        """It is there already."""
        return site

    def copy(self, site: Site, root: Path) -> Site:
        """A copy of the folder holds everything."""
        return replace(site, world=copy_world(site.world, root))

    def drop(self, site: Site) -> None:
        """Nothing is outside."""
        del site

    def starts(self, site: Site) -> list[Start]:
        """One process."""
        return [serve_start(site, "server.log")]


def serve_start(site: Site, log: str) -> Start:
    """`tracemend serve` on a free port of loopback."""
    return Start(
        command=lambda killer: site.world.command(
            "serve", "--host", "127.0.0.1", "--port", "0", killer=killer
        ),
        cwd=site.world.root, environ=site.environ, log=site.world.root.parent / log,
        address=serving,
    )  # fmt: skip


def record_site(folder: Path) -> Site:
    """Record the agent's traces, enter the project, make a token; nothing was analysed yet."""
    made = build_world(folder / "made", requests=REQUESTS, sealed=SEALED)
    settings = made.root / "tracemend.yaml"
    text = settings.read_text("utf-8")
    quick = "alerts: {settle: 0s, late: 15m}"
    kept = [line for line in text.splitlines() if not line.startswith("alerts:")]
    settings.write_text("\n".join([*kept, quick, ""]), "utf-8")
    world = copy_world(made, folder / "recorded" / "agent")
    shutil.rmtree(made.root)
    now = datetime.now(UTC)
    site = Site(world=world, token="", start=now - timedelta(days=1), end=now)
    return replace(site, token=make_token(site.place))


def make_token(place: Place) -> str:
    """The token of a person who decides and starts runs."""
    engine = open_engine(place)
    try:
        return Tokens(engine).create("ann", ROLES, projects=[PROJECT], expires_at=None)[1]
    finally:
        engine.dispose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The worlds of one mode, each made once."""

    recorded: Site
    waiting: Site
    applied: Site

    def at(self, stage: Stage) -> Site:
        """Where a story of this stage begins."""
        if stage in ("alert", "whole"):
            return self.recorded
        return self.applied if stage == "undo" else self.waiting
