"""Vectors of hashed letters: nothing to install, nothing to download, the same on every machine.

Every word, with a blank before and after it, is cut into pieces of 3 to 5 letters; each piece is
hashed (CRC-32) to one of 512 places and a sign. Texts that share words, or forms of them, are
close. It knows no synonyms: `refused` and `denied` are strangers to it.
"""

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from connectors.embed.words import words_of

DIM = 512
PIECES = range(3, 6)
MAX_WORD = 64
"""Letters of one word; longer ones are encoded data."""


class HashEmbedder:
    """Implements `contracts.protocols.Embedder`."""

    name = f"hash-{PIECES.start}-{PIECES.stop - 1}-{DIM}"
    dim = DIM

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [_vector(text).tolist() for text in texts]


def _vector(text: str) -> NDArray[np.float32]:
    made = np.zeros(DIM, dtype=np.float64)
    for word, count in Counter(words_of(text)).items():
        places, signs = _word(word[:MAX_WORD])
        # A word said ten times tells more than one said once, but not ten times as much.
        made[places] += signs * (1.0 + math.log(count))
    length = float(np.sqrt(made @ made))
    return (made / length if length else made).astype(np.float32)


@lru_cache(maxsize=32_768)
def _word(word: str) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Places and sums of signs of one word's pieces; words come again and again."""
    padded = f" {word} "
    sums: dict[int, float] = {}
    for size in PIECES:
        for start in range(len(padded) - size + 1):
            piece = padded[start : start + size].encode("utf-8", "surrogatepass")
            hashed = zlib.crc32(piece)
            place = hashed % DIM
            sums[place] = sums.get(place, 0.0) + (1.0 if hashed & 0x8000_0000 else -1.0)
    places = np.fromiter(sums.keys(), dtype=np.intp, count=len(sums))
    return places, np.fromiter(sums.values(), dtype=np.float64, count=len(sums))
