"""The embedder that the settings name."""

from functools import lru_cache
from typing import Literal

from connectors.embed.hashed import HashEmbedder
from connectors.embed.minilm import MiniLmEmbedder
from contracts.protocols import Embedder


@lru_cache(maxsize=2)
def open_embedder(name: Literal["hash", "minilm", "off"]) -> Embedder | None:
    """The embedder of that name, once a process; None for `off`.

    Raises:
        ConfigError: it needs an extra that is not installed.
    """
    if name == "off":
        return None
    return HashEmbedder() if name == "hash" else MiniLmEmbedder()
