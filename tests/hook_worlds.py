"""The hooks as they are served: the routes and an installation behind them, nothing that works on.

The dispatcher is there and told, but not running: what a hook did is the row it left.
"""

import hmac
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from configs.server_settings import ServerSettings
from graph.dispatch import Dispatcher
from graph.installation import open_installation
from graph.server import hooks, limits, problems
from memory.alerts import StoredAlert
from memory.ledger import Ledger
from memory.workspace import open_project, register
from tests.fakes.serving import running

PROJECT, OTHER = "refunds", "front-desk"
SECRETS = {
    "langfuse": "lf-whsec_made_up_for_these_tests",
    "langsmith": "made-up-langsmith-secret",
    "alertmanager": "made-up-alertmanager-secret",
    "generic": "made-up-generic-secret",
}
SETTINGS = "version: 1\nproject: {project}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """A server that listens on loopback, and the ledger behind it."""

    url: str
    home: Path
    app: FastAPI

    def ledger(self, project: str = PROJECT) -> Ledger:
        """The ledger that the server itself has open."""
        return open_project(self.home, project).ledger

    def rows(self, project: str = PROJECT) -> list[StoredAlert]:
        """Every delivery that was kept, oldest first."""
        return self.ledger(project).alerts.listed()[::-1]

    def set_clock(self, now: datetime, project: str = PROJECT) -> None:
        """What time it is for this project from here on."""
        self.ledger(project).db.clock = lambda: now

    def post(
        self,
        source: str,
        body: object,
        headers: Mapping[str, str] | None = None,
        *,
        project: str = PROJECT,
        query: str = "",
    ) -> httpx.Response:
        """Send a body: bytes as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", **(headers or {})}
        return httpx.post(
            f"{self.url}/hooks/{source}/{project}{query}", content=raw, headers=sent, timeout=30
        )

    def proven(self, source: str, body: object, **more: Any) -> httpx.Response:
        """Send a body with the proof that this source's sender would give."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        now = int(self.ledger().db.clock().timestamp())
        return self.post(
            source, raw, {**proof(source, raw, now), **more.pop("headers", {})}, **more
        )


def signature(secret: str, message: bytes) -> str:
    """HMAC-SHA256 in hex."""
    return hmac.new(secret.encode(), message, sha256).hexdigest()


def proof(source: str, raw: bytes, now: int, secret: str | None = None) -> dict[str, str]:
    """The header by which a sender proves itself."""
    secret = secret or SECRETS[source]
    if source == "langfuse":
        signed = signature(secret, f"{now}.".encode() + raw)
        return {"x-langfuse-signature": f"t={now},v1={signed}"}
    return {"authorization": f"Bearer {secret}"}


def make_home(root: Path, *projects: str) -> Path:
    """An installation with these projects."""
    home = (root / "home").resolve()
    for project in projects or (PROJECT, OTHER):
        folder = root / project
        folder.mkdir(parents=True)
        (folder / "tracemend.yaml").write_text(SETTINGS.format(project=project), "utf-8")
        register(home, project, folder)
    return home


def set_secrets(patch: pytest.MonkeyPatch) -> None:
    """The variables of the first project; the other has none."""
    for source, secret in SECRETS.items():
        patch.setenv(f"TRACEMEND_HOOK_{source}_{PROJECT}".upper(), secret)


def make_app(home: Path, settings: ServerSettings) -> FastAPI:
    """The hooks' routes with the guards and error answers of the whole application."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_installation(home, settings=settings) as installation:
            app.state.installation = installation
            app.state.dispatcher = Dispatcher(installation)
            yield

    app = FastAPI(lifespan=lifespan)
    problems.install(app)
    limits.install(app, settings)
    app.include_router(hooks.router)
    return app


@contextmanager
def serve_hooks(home: Path, *, settings: ServerSettings | None = None) -> Iterator[Hooks]:
    """Run the hooks under uvicorn on a free port of 127.0.0.1; stopped at the end."""
    app = make_app(home, settings or ServerSettings())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEMEND_HOME", str(home))
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_config=None, lifespan="on", ws="none",
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        with running(config, stops_within_s=30) as (url, _):
            yield Hooks(url=url, home=home, app=app)
