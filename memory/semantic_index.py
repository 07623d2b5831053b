"""Chroma as an index over the vectors of the ledger: it can be thrown away and made again.

It holds ids and vectors and no text. Only explicit vectors are given to it: its own embedding
function would want a network. A collection belongs to one project, one kind and one embedder, since
a filter inside a collection is slow. Ids are the ledger's, so that writing twice changes nothing.
"""

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np

from contracts.errors import ConfigError, TracemendError
from memory.vectors import Stamp, Vector

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.client import Client
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

BATCH = 1_000
CURRENT = "current"
LOCK = "lock"
REMOVE_S = 5.0

_held: dict[Path, int] = {}
"""Folders that this process owns, and the open lock files; owned until it ends."""
_opening = threading.Lock()


def own(folder: Path) -> bool:
    """Become the one process that opens the folder's Chroma, or stay it. False: another is it."""
    with _opening:
        if folder in _held:
            return True
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        _held[folder] = fd
        return True


def disown(folder: Path) -> None:
    """Let another process own the folder."""
    with _opening:
        fd = _held.pop(folder, None)
        if fd is not None:
            os.close(fd)


class ChromaIndex:
    """Collections of one project, in one client."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._open: dict[str, Collection] = {}

    def standing(self, name: str) -> Stamp | None:
        """How far a collection is; None: there is none."""
        found = self._find(name)
        if found is None:
            return None
        seen = (found.metadata or {}).get("seen", "")
        return Stamp(count=found.count(), newest=str(seen))

    def put(self, name: str, rows: Sequence[tuple[str, Vector]]) -> None:
        """Write vectors, oldest first, each with its time; the collection is made when new."""
        if not rows:
            return
        collection = self._client.get_or_create_collection(
            name, embedding_function=None, metadata={"seen": ""},
            configuration={"hnsw": {"space": "ip", "ef_construction": 128, "ef_search": 128}},
        )  # fmt: skip
        size = min(BATCH, self._client.get_max_batch_size())
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            numbers = [np.frombuffer(one.data, dtype="<f4") for _, one in part]
            collection.upsert(ids=[one.id for _, one in part], embeddings=[*numbers])
            # Said after the rows are in: whoever is killed between writes them once more.
            collection.modify(metadata={"seen": part[-1][0]})

    def near(self, name: str, vector: Sequence[float], limit: int) -> list[tuple[str, float]]:
        """Ids with their likeness, the best first; approximate."""
        asked = np.asarray([vector], dtype=np.float32)
        try:
            found = self._opened(name).query(asked, n_results=limit, include=["distances"])
        except Exception:  # noqa: BLE001  # made anew elsewhere, or it raises again
            self._open.pop(name, None)
            found = self._opened(name).query(asked, n_results=limit, include=["distances"])
        distances = (found["distances"] or [[]])[0]
        pairs = zip(found["ids"][0], distances, strict=True)
        return [(which, 1.0 - float(distance)) for which, distance in pairs]

    def _opened(self, name: str) -> "Collection":
        """The collection; opening one takes as long as asking it."""
        if name not in self._open:
            self._open[name] = self._client.get_collection(name, embedding_function=None)
        return self._open[name]

    def keep_only(self, name: str, known: set[str]) -> int:
        """Delete what the ledger does not hold any more. How many there were."""
        found = self._find(name)
        gone = [one for one in found.get(include=[])["ids"] if one not in known] if found else []
        for start in range(0, len(gone), BATCH):
            if found is not None:
                found.delete(ids=gone[start : start + BATCH])
        return len(gone)

    def drop(self, name: str) -> None:
        """Delete a collection, if it is there."""
        self._open.pop(name, None)
        if self._find(name) is not None:
            self._client.delete_collection(name)

    def rename(self, name: str, to: str) -> None:
        """Give a collection the name of another, which is deleted first."""
        self.drop(to)
        self._open.pop(name, None)
        found = self._find(name)
        if found is not None:
            found.modify(name=to)

    def close(self) -> None:
        """Let go of the files."""
        self._client.close()

    def _find(self, name: str) -> "Collection | None":
        from chromadb.errors import NotFoundError  # noqa: PLC0415

        try:
            return self._client.get_collection(name, embedding_function=None)
        except NotFoundError:
            return None


def within(seconds: float, does: Callable[[], T]) -> T:
    """What `does` returns or raises, unless it takes longer: Chroma's client waits for ever.

    Raises:
        IndexLate: it does. The call is left behind in its thread.
    """
    kept: list[T | BaseException] = []

    def run() -> None:
        try:
            kept.append(does())
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            kept.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not kept:
        raise IndexLate(f"it does not answer within {seconds:g} s")
    if isinstance(kept[0], BaseException):
        raise kept[0]
    return kept[0]


class IndexLate(TracemendError):
    """The index did not answer in time; everything is compared without it."""


_clients: dict[str, ChromaIndex] = {}


def open_folder(folder: Path) -> ChromaIndex:
    """The index in a folder that this process owns; what a killed rebuild left is removed."""
    current = folder / CURRENT
    name = current.read_text("utf-8").strip() if current.exists() else ""
    if not name or not (folder / name).is_dir():
        name = _new_generation(folder)
        point(folder, name)
    for other in folder.glob("g-*"):
        if other.name != name:
            shutil.rmtree(other, ignore_errors=True)
    return _client(folder / name)


@contextmanager
def rebuilt(folder: Path) -> Iterator[ChromaIndex]:
    """A new, empty index beside the one in use; takes its place at the end, if nothing failed.

    The old one is deleted with its files: Chroma itself leaves deleted vectors in them.
    """
    current = folder / CURRENT
    old = current.read_text("utf-8").strip() if current.exists() else ""
    name = _new_generation(folder)
    yield _client(folder / name)
    point(folder, name)
    if old:
        served = _clients.pop(str(folder / old), None)
        if served is not None:
            served.close()
        remove(folder / old)


def remove(folder: Path) -> None:
    """Remove a folder that a client has just closed, whole.

    Chroma's own threads may still write a file into it, and then one removal leaves some behind.

    Raises:
        TracemendError: it is still there after a while; it is removed when the index is opened.
    """
    until = time.monotonic() + REMOVE_S
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > until:
            raise TracemendError(
                f"memory: the old index {folder} is still in use and could not be removed; run "
                "`tracemend memory reindex` when no other process of ours runs"
            )
        time.sleep(0.02)


def point(folder: Path, name: str) -> None:
    """Say which generation holds, atomically."""
    with NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as part:
        part.write(name + "\n")
    Path(part.name).replace(folder / CURRENT)


def open_server(url: str) -> ChromaIndex:
    """The index in a Chroma server.

    Raises:
        ConfigError: nobody answers there.
    """
    known = _clients.get(url)
    if known is not None:
        return known
    import chromadb  # noqa: PLC0415  # three seconds, and only large memories need it
    from chromadb.config import Settings  # noqa: PLC0415

    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 8000)
    try:
        client = chromadb.HttpClient(
            host=parts.hostname or "", port=port, ssl=secure,
            settings=Settings(anonymized_telemetry=False),
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001  # the client's errors share no class
        raise ConfigError(
            f"memory.chroma_url: {url} does not answer ({type(error).__name__}); start "
            "`chroma run`, or leave the key out"
        ) from None
    return _clients.setdefault(url, ChromaIndex(_closable(client)))


def _closable(client: "ClientAPI") -> "Client":
    # The package types its own clients as the interface, which lacks `close`.
    return cast("Client", client)


def _new_generation(folder: Path) -> str:
    name = f"g-{uuid4().hex[:12]}"
    (folder / name).mkdir(parents=True)
    return name


def _client(path: Path) -> ChromaIndex:
    with _opening:
        known = _clients.get(str(path))
        if known is None:
            import chromadb  # noqa: PLC0415
            from chromadb.config import Settings  # noqa: PLC0415

            client = chromadb.PersistentClient(path, settings=Settings(anonymized_telemetry=False))
            known = _clients[str(path)] = ChromaIndex(_closable(client))
        return known
