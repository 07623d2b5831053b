"""The library behind the research desk: articles worked out from their number, and what goes wrong.

As in the refund agent's back office, a fault depends on a draw made of the run's seed and the tool,
so two runs with one seed and one question see one world. Nothing here sleeps.
"""

import hashlib
from dataclasses import dataclass

TOPICS = (
    "tidal power", "sourdough", "glass recycling", "night trains", "bird migration", "wool felting",
    "roof gardens", "salt marshes", "bicycle lanes", "bog oak", "kelp farming", "clay plaster",
)  # fmt: skip
_VERBS = ("grew", "spread", "fell", "recovered", "doubled", "slowed")
_PLACES = ("Jutland", "Galicia", "Carinthia", "Zeeland", "Lapland", "Savoy", "Istria")


class LibraryError(Exception):
    """The library refused a call; `str(error)` goes to the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What goes wrong, and how often. Shares are 0..1 of the runs that call the tool."""

    index_down: float = 0.0
    """`search` answers, without an error, that it failed."""
    withdrawn: float = 0.0
    """`read_article`: the publisher withdrew the licence."""
    unpaid: float = 0.0
    """`read_article`: the library did not pay for the licence; told in almost the same words."""
    desk_full: float = 0.0
    """`save_note` does not answer in time."""
    new_wording: bool = False
    """`cite` refuses a year of two digits in the words of its newer release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """One article."""

    number: int
    """Of three digits."""

    @property
    def id(self) -> str:
        """As the library writes it."""
        return f"B-{self.number}"

    @property
    def topic(self) -> str:
        """What it is about."""
        return TOPICS[self.number % len(TOPICS)]

    @property
    def year(self) -> str:
        """Of print."""
        return str(1990 + self.number % 33)

    @property
    def says(self) -> str:
        """Its one sentence."""
        place = _PLACES[self.number % len(_PLACES)]
        return f"{self.topic.capitalize()} {_VERBS[self.number % len(_VERBS)]} in {place}."


def article_of(article_id: str) -> Article:
    """The article with this id.

    Raises:
        LibraryError: there is none.
    """
    digits = article_id.removeprefix("B-")
    if not (article_id.startswith("B-") and digits.isdigit() and len(digits) == 3):
        raise LibraryError(f"there is no article {article_id!r}")
    return Article(number=int(digits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Answers the calls of one run."""

    trouble: Trouble
    seed: int

    def search(self, topic: str) -> dict[str, object]:
        """Articles about a topic."""
        if self._draw("search") < self.trouble.index_down:
            return {"ok": False, "error": "the index is being rebuilt", "articles": []}
        if topic not in TOPICS:
            return {"ok": True, "articles": []}
        first = 100 + TOPICS.index(topic) - 100 % len(TOPICS)
        numbers = [first + len(TOPICS) * (2 + (self.seed + k * 7) % 60) for k in range(2)]
        found = [Article(number=n) for n in numbers]
        return {"ok": True, "articles": [{"id": a.id, "topic": a.topic} for a in found]}

    def read_article(self, article_id: str) -> dict[str, object]:
        """The text of an article."""
        article = article_of(article_id)
        draw = self._draw("read_article")
        if draw < self.trouble.withdrawn:
            raise LibraryError(
                f"article {article.id} cannot be read: its licence was withdrawn by the publisher"
            )
        if draw > 1 - self.trouble.unpaid:
            raise LibraryError(
                f"article {article.id} cannot be read: its licence was not paid by the library"
            )
        return {"id": article.id, "year": article.year, "text": article.says}

    def cite(self, article_id: str, year: str) -> dict[str, object]:
        """The line that names an article as a source."""
        article = article_of(article_id)
        if len(year) != 4 or not year.isdigit():
            if self.trouble.new_wording:
                raise LibraryError(f"{year!r} is no year: please give all four digits of it")
            raise LibraryError(f"the year must have four digits, got {year!r}")
        return {"citation": f"{article.topic.capitalize()}, {article.id}, {year}"}

    def save_note(self, text: str) -> dict[str, object]:
        """Keep a note for the reader."""
        if self._draw("save_note") < self.trouble.desk_full:
            raise LibraryError("HTTP 504 Gateway Timeout: the desk did not answer in time")
        return {"saved": True, "characters": len(text)}

    def _draw(self, tool: str) -> float:
        digest = hashlib.sha256(f"{self.seed}|{tool}".encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64
