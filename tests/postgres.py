"""A throwaway PostgreSQL: a real server on a free loopback port, gone with the tests.

with postgres_server(tmp_path) as url:
    ledger = open_ledger(driver_url(fresh_database(url)), "refunds")
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

OWNER = "postgres"
START_SECONDS = 60.0
"""Generous: a busy machine starts it in a few seconds."""


def postgres_programs() -> Path | None:
    """The folder with `initdb` and `postgres`; None: PostgreSQL is not installed here."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


def need_postgres() -> Path:
    """`postgres_programs`; skips the test where it or its driver is not installed."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: add the extra `postgres`")
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: initdb is neither on PATH nor in /usr/lib")
    return programs


def driver_url(url: str) -> str:
    """The URL with SQLAlchemy's name of the driver, as `open_ledger` takes it."""
    return f"postgresql+psycopg://{url.partition('://')[2]}"


@contextmanager
def postgres_server(tmp: Path) -> Iterator[str]:
    """Start a server with an empty cluster; yields the URL of its first database.

    Args:
        tmp: where its log goes (`postgres.log`).
    """
    programs = need_postgres()
    # Not under `tmp`: pytest closes that to other users, and root may not run a server.
    data = Path(tempfile.mkdtemp(prefix="tracemend-pg-"))
    try:
        password = secrets.token_urlsafe(12)
        _init(programs, data, password)
        port = _free_port()
        with (tmp / "postgres.log").open("wb") as log:
            server = subprocess.Popen(
                [
                    str(programs / "postgres"), "-D", str(data / "cluster"), "-p", str(port),
                    "-h", "127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off",
                    "-c", "full_page_writes=off",
                    "-c", "max_connections=200", "-c", "shared_buffers=32MB",
                ],
                stdout=log, stderr=subprocess.STDOUT, cwd=data,
                user=OWNER if _root() else None, group=OWNER if _root() else None,
                extra_groups=[] if _root() else None,
            )  # fmt: skip
            url = f"postgresql://{OWNER}:{password}@127.0.0.1:{port}/postgres"
            try:
                _wait(url, server, tmp / "postgres.log")
                yield url
            finally:
                _stop(server)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def fresh_database(url: str) -> str:
    """The URL of a new, empty database on the same server."""
    import psycopg
    from psycopg import sql

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return f"{url.rpartition('/')[0]}/{name}"


def _root() -> bool:
    return os.geteuid() == 0


def _init(programs: Path, data: Path, password: str) -> None:
    secret = data / "password"
    secret.write_text(password, "ascii")
    if _root():
        for path in (data, secret):
            shutil.chown(path, OWNER, OWNER)
    subprocess.run(
        [
            str(programs / "initdb"), "-D", str(data / "cluster"), "-U", OWNER, "--no-sync",
            "--encoding=UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={secret}",
        ],
        check=True, capture_output=True, cwd=data, timeout=120,
        user=OWNER if _root() else None, group=OWNER if _root() else None,
        extra_groups=[] if _root() else None,
    )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    import psycopg

    until = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > until:
                said = log.read_text("utf-8", "replace")[-2000:]
                raise RuntimeError(f"PostgreSQL did not start: {said}") from error
            time.sleep(0.1)
        else:
            return


def _stop(server: "subprocess.Popen[bytes]") -> None:
    server.send_signal(signal.SIGQUIT)  # "immediate": nothing of it is kept, so nothing is saved
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
