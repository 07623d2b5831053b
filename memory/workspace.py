"""Everything of one project in one place: its settings, its ledger, its folders.

`TRACEMEND_HOME` (default: `.tracemend/` beside the nearest `tracemend.yaml` upward) holds
`projects.yaml`, `ledger.sqlite`, `checkpoints.sqlite` and `work/`. A project is a slug in
`projects.yaml`; a path never comes from outside.
"""

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile

import yaml
from langgraph.runtime import Runtime
from sqlalchemy import select

from configs.redaction import use_names
from configs.settings import FILE_NAME, Settings, load_settings
from contracts.context import RunContext
from contracts.errors import ConfigError, UsageError
from memory.budget import install_vocabulary
from memory.database import Place, open_engine
from memory.ledger import Ledger, open_ledger
from memory.schema import incidents

HOME_VARIABLE = "TRACEMEND_HOME"
DATABASE_VARIABLE = "TRACEMEND_DATABASE_URL"
"""`postgresql://user:password@host/name`: checkpoints and ledger of a cluster. Only from the
environment, since it holds a password."""
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """What a node opens: one project's things."""

    project: str
    home: Path
    root: Path
    """The operator's repository: where `tracemend.yaml` is."""
    settings: Settings
    ledger: Ledger

    @property
    def work(self) -> Path:
        """Scratch on the same disk as the ledger; nothing in it is the only copy of anything."""
        return self.home / "work"


def find_home(start: Path | None = None) -> Path:
    """`TRACEMEND_HOME`, else `.tracemend/` beside the nearest `tracemend.yaml` upward.

    Raises:
        ConfigError: neither is there.
    """
    named = os.environ.get(HOME_VARIABLE)
    if named:
        return Path(named).resolve()
    return find_root(start) / ".tracemend"


def find_root(start: Path | None = None) -> Path:
    """The nearest folder upward that holds a `tracemend.yaml`.

    Raises:
        ConfigError: there is none.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder
    raise ConfigError(
        f"no {FILE_NAME} in {here} or above; run `tracemend init` in the agent's repository, "
        f"or set {HOME_VARIABLE}"
    )


def read_registry(home: Path) -> Mapping[str, Path]:
    """Slug to folder of every project of an installation.

    Raises:
        ConfigError: the file is damaged.
    """
    file = home / "projects.yaml"
    try:
        stat = file.stat()
    except FileNotFoundError:
        return {}
    return _registry(file, (stat.st_mtime_ns, stat.st_size, stat.st_ino))


@lru_cache(maxsize=16)
def _registry(file: Path, _stamp: tuple[int, int, int]) -> Mapping[str, Path]:
    """The file as it is now: a server asks every second for every project."""
    data = yaml.safe_load(file.read_text("utf-8")) or {}
    if not isinstance(data, dict) or not all(
        isinstance(k, str) and _SLUG.fullmatch(k) and isinstance(v, str) for k, v in data.items()
    ):
        raise ConfigError(f"{file}: must map project slugs to folders, such as `refunds: /srv/a`")
    return {slug: Path(folder) for slug, folder in data.items()}


def register(home: Path, project: str, root: Path) -> None:
    """Enter a project, atomically.

    Raises:
        UsageError: the slug is not one, or stands for another folder already.
    """
    if not _SLUG.fullmatch(project):
        raise UsageError(
            f"project {project!r}: use lower-case letters, digits and hyphens, 40 at most"
        )
    known = dict(read_registry(home))
    if known.get(project, root) != root:
        raise UsageError(f"project {project!r} is {known[project]} already; choose another name")
    home.mkdir(parents=True, exist_ok=True)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", "utf-8")
    known[project] = root
    text = yaml.safe_dump({slug: str(folder) for slug, folder in sorted(known.items())})
    with NamedTemporaryFile("w", encoding="utf-8", dir=home, delete=False) as part:
        part.write(text)
    Path(part.name).replace(home / "projects.yaml")


def ledger_place(home: Path) -> Place:
    """Where the installation's ledger is: its SQLite file, or the database that is named.

    Raises:
        ConfigError: the variable holds no PostgreSQL URL.
    """
    named = os.environ.get(DATABASE_VARIABLE)
    if not named:
        return home / "ledger.sqlite"
    scheme, _, rest = named.partition("://")
    if scheme not in ("postgresql", "postgres", "postgresql+psycopg") or not rest:
        raise ConfigError(f"{DATABASE_VARIABLE}: needs postgresql://user:password@host/name")
    return f"postgresql+psycopg://{rest}"


@lru_cache(maxsize=1024)  # more than an installation has: each keeps its connections
def _open(home: Path, project: str, _stamp: int) -> Workspace:
    root = read_registry(home).get(project)
    if root is None:
        known = ", ".join(sorted(read_registry(home))) or "none yet"
        raise UsageError(
            f"project {project!r} is not in {home / 'projects.yaml'} (known: {known}); "
            "`tracemend init` enters it"
        )
    settings = load_settings(root / FILE_NAME)
    if settings.project != project:
        raise ConfigError(
            f"project: got {settings.project!r}, the registry knows this folder as {project!r} "
            f"({root / FILE_NAME})"
        )
    install_vocabulary(home / "tiktoken")
    ledger = open_ledger(ledger_place(home), project)
    return Workspace(project=project, home=home, root=root, settings=settings, ledger=ledger)


def open_project(home: Path, project: str) -> Workspace:
    """The workspace of a project, cached per process until its `tracemend.yaml` changes.

    The names that the project's settings mask are in use from here on in this context.

    Raises:
        UsageError: the registry has no such project.
        ConfigError: its settings are wrong.
    """
    root = read_registry(home).get(project)
    file = root / FILE_NAME if root is not None else home
    stamp = file.stat().st_mtime_ns if file.exists() else 0
    ws = _open(home, project, stamp)
    use_names(ws.settings.redaction.names)
    return ws


@lru_cache(maxsize=4096)
def project_of_thread(home: Path, thread: str) -> str:
    """The project that a thread is bound to; a binding never changes.

    Raises:
        UsageError: no project has this thread.
    """
    place = ledger_place(home)
    engine = open_engine(place)
    try:
        with engine.connect() as plain:
            found: str | None = plain.execute(
                select(incidents.c.project).where(incidents.c.thread == thread)
            ).scalar_one_or_none()
    finally:
        if isinstance(place, Path):  # PostgreSQL's pool is the whole process's
            engine.dispose()
    if found is None:
        raise UsageError(
            f"thread {thread} has no project: start the run with the context "
            '{"project": "<slug>"}'
        )
    return found


async def open_workspace(runtime: Runtime[RunContext]) -> Workspace:
    """The workspace of the run that a node belongs to.

    The project is the run's context, or the one that the thread was bound to by its first step.

    Raises:
        UsageError: no such project, or no project at all.
    """
    context = runtime.context
    # A server may hand the context over as a plain mapping when the caller sent one.
    named = context.get("project") if isinstance(context, Mapping) else (
        context.project if context is not None else None
    )  # fmt: skip
    thread = thread_of(runtime)
    ws = await asyncio.to_thread(_open_for, named, thread)
    use_names(ws.settings.redaction.names)  # the thread's context is gone with it
    return ws


def thread_of(runtime: Runtime[RunContext]) -> str:
    """The id of the thread a node runs on.

    Raises:
        UsageError: the graph was called without a thread; nothing could be resumed then.
    """
    info = runtime.execution_info
    if info is None or not info.thread_id:
        raise UsageError("the graph needs a thread: pass configurable.thread_id")
    return info.thread_id


def _open_for(named: object, thread: str) -> Workspace:
    home = find_home()
    if named is not None and not (isinstance(named, str) and _SLUG.fullmatch(named)):
        raise UsageError(f"context.project: got {named!r}, needs a slug such as 'refunds'")
    return open_project(home, named or project_of_thread(home, thread))
