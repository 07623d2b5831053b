"""What one rule of the policy says of an edit: what it refuses, and what it only warns of. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Sentences, each naming its place; an edit with one in `refused` never reaches review."""

    refused: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()


def judged(refused: Iterable[str] = (), warned: Iterable[str] = ()) -> Judged:
    """Each sentence once, in order; what is refused is not warned of as well."""
    bad = tuple(dict.fromkeys(refused))
    return Judged(refused=bad, warned=tuple(s for s in dict.fromkeys(warned) if s not in bad))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A phrase that a rule found: where, what is wrong with it, its words, and how sure that is."""

    path: str
    place: str
    what: str
    words: str
    sure: bool


def by_phrase(heard: Iterable[Heard]) -> Judged:
    """Each phrase of a file told once, at the first place; unsure ones are warned of."""
    first: dict[tuple[str, str, str], Heard] = {}
    for one in heard:
        key = (one.path, one.what, " ".join(one.words.split()).casefold())
        kept = first.get(key)
        if kept is None or (one.sure and not kept.sure):
            first[key] = one
    sentences = [(h.sure, f"{h.place}: {h.what}: {quoted(h.words)}") for h in first.values()]
    return judged(
        [text for sure, text in sentences if sure], [text for sure, text in sentences if not sure]
    )


def quoted(text: str, limit: int = 60) -> str:
    """Words of an edit as a message quotes them: one line, cut, escaped."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= limit else flat[: limit - 1] + "…")
