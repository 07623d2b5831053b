"""What one source file says of prompts: paths that it names, managed prompts, long texts. Pure."""

import re
from dataclasses import dataclass
from typing import Final, Literal

MIN_WORDS: Final = 12
"""Words from which a text in code may steer a model; shorter ones are messages."""
MOST_OF_FILE: Final = 400
"""Of each kind in one file."""
HINT: Final = re.compile(
    r"prompt|system|instruct|persona|guideline|polic(?:y|ies)\Z|rules\Z|preamble|backstory|\Agoal\Z",
    re.IGNORECASE,
)
"""Names of what holds instructions."""
OPENING: Final = re.compile(
    r"\s*(?:#+[^\n]*\n\s*)?(?:you are|you're|your (?:task|job|role|goal)|act as)\b", re.IGNORECASE
)
"""How instructions begin, whatever the name of what holds them."""

Vendor = Literal["langfuse", "langsmith", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathNamed:
    """A path, or a part of one, that code opens or names."""

    pattern: str
    """With `*` for what only shows when the code runs."""
    line: int
    how: str
    """What is called with it, such as `open` or `glob`; `named`: nothing that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFetched:
    """A managed prompt that code fetches by name."""

    name: str
    line: int
    how: str
    vendor: Vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeText:
    """A long text in code. Its words are for comparing; nobody is shown them."""

    name: str
    """What it is assigned to or passed as; empty: nothing that is known."""
    line: int
    end_line: int
    text: str
    instructs: bool
    """Whether it reads as instructions: by its name, by where it is passed, or by its opening."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInFile:
    """All of one file."""

    paths: tuple[PathNamed, ...] = ()
    prompts: tuple[PromptFetched, ...] = ()
    texts: tuple[CodeText, ...] = ()
    problem: str | None = None
    """Why it could only be searched as text."""


def long_enough(text: str) -> bool:
    """Whether a text has words enough; a list of paths or a table of data has few."""
    return len(re.findall(r"\S*[^\W\d_]\S*", text[:4_000])) >= MIN_WORDS


def prompt_of_hub(name: str) -> str:
    """A prompt's name without the owner `-`, the commit and the tag behind it."""
    return name.partition(":")[0].removeprefix("-/")
