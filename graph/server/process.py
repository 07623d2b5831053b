"""The server as a process: one for each SQLite installation, from its lock to its last slice."""

import asyncio
import fcntl
import ipaddress
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from configs.server_settings import ServerSettings
from contracts.errors import ConfigError, UsageError
from graph.installation import Installation
from graph.server.app import create_app
from graph.server.logs import configure
from memory.database import rfc3339, utc_now
from memory.workspace import ledger_place

LOCK_NAME = "serve.lock"
DRAIN_SECONDS = 5
"""How long answers that are being sent may take after a signal; streams are cut then."""
STOP_SECONDS = 10.0
"""How long everything may take after a signal. Then the process ends as if it was killed, which
loses nothing either."""
THREADS = 32

Say = Callable[[str], None]


def serve_forever(home: Path, settings: ServerSettings, *, say: Say) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        home: the installation.
        settings: of the server; its host and port are listened on.
        say: told one line once requests are answered, and how to make the first token.

    Raises:
        UsageError: another process serves this installation, or the address cannot be taken.
        ConfigError: settings, ledger or checkpointer cannot be opened, or nobody could be told
            apart on an address that others can reach.
    """
    with serve_lock(home) as lock, listening(settings.host, settings.port) as listener:
        url = url_of(settings.host, listener.getsockname()[1])
        lock(url)
        asyncio.run(_serve(home, settings, listener, url, say))


async def _serve(
    home: Path, settings: ServerSettings, listener: socket.socket, url: str, say: Say
) -> None:
    configure()
    # Handlers wait for the ledger in threads; the usual number, by cores, is too few for that.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=THREADS))
    app = create_app(home, settings=settings)
    server = _Server(_config(app))
    async with app.router.lifespan_context(app):
        installation: Installation = app.state.installation
        hint = await asyncio.to_thread(_first_token, installation, settings.host)

        def listens() -> None:
            number = len(installation.projects())
            say(f"serving on {url} ({number} {'project' if number == 1 else 'projects'}){hint}")

        server.on_started, server.on_stop = listens, lambda: _stopping(app)
        await server.serve(sockets=[listener])


def _config(app: FastAPI) -> uvicorn.Config:
    # The lifespan is entered here, so that its errors are ours. Requests are logged by our own
    # middleware.
    return uvicorn.Config(
        app, lifespan="off", log_config=None, access_log=False, ws="none", server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )  # fmt: skip


class _Server(uvicorn.Server):
    """Tells when it listens and when it is told to stop, and does not raise the signal again."""

    on_started: Callable[[], None]
    on_stop: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.on_stop()
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # raised again they would end us with another code than 0


def _stopping(app: FastAPI) -> None:
    """Not ready from here on; and an end in any case."""
    app.state.stopping = True
    last = threading.Timer(STOP_SECONDS, os._exit, args=(0,))
    last.daemon = True
    last.start()


def _first_token(installation: Installation, host: str) -> str:
    """What to add to the line of the start; empty where somebody can sign in.

    Raises:
        ConfigError: others can reach the address, and there is no way to sign in.
    """
    now = rfc3339(utc_now())
    usable = any(
        token.revoked_at is None and (token.expires_at is None or token.expires_at > now)
        for token in installation.tokens.listed()
    )
    if usable or installation.settings.oidc is not None:
        return ""
    make = "tracemend token create --name NAME --role admin"
    if not is_loopback(host):
        raise ConfigError(
            f"host: {host} can be reached from outside and there is no token yet; make one first: "
            f"`{make}`"
        )
    return f"; no token yet: `{make}`"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(host: str, port: int) -> str:
    """The address as clients on this machine write it."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket.

    Raises:
        UsageError: the address cannot be taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        taken = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        number = error.errno or 0  # of a name that is not found it is negative
        why = os.strerror(number) if number > 0 else error.strerror
        raise UsageError(
            f"{host}:{port}: cannot listen there: {why}; `--port 0` takes a free port"
        ) from error
    with taken:
        yield taken


@contextmanager
def serve_lock(home: Path) -> Iterator[Callable[[str], None]]:
    """Be the one server of a SQLite installation; yields what notes our URL in the lock's file.

    The lock is the kernel's and ends with the process, whatever kills it; the file's text only
    says who has it. On PostgreSQL any number of replicas may serve.

    Raises:
        UsageError: another process serves it.
    """
    if isinstance(ledger_place(home), str):
        yield lambda _url: None
        return
    if not home.is_dir():
        raise UsageError(f"{home}: there is no installation; `tracemend init` makes one")
    with (home / LOCK_NAME).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise UsageError(f"{home} is served already{_holder(file.read())}") from error

        def note(url: str) -> None:
            file.seek(0)
            file.truncate()
            file.write(json.dumps({"pid": os.getpid(), "url": url}))
            file.flush()

        yield note


def _holder(text: str) -> str:
    try:
        said = json.loads(text)
        return f" by process {int(said['pid'])} on {said['url']}; stop that one first"
    except (ValueError, KeyError, TypeError):
        return " by another process; stop that one first"
