"""Commands whose exit code is an answer: what a shell's convention says, and nothing else."""

import re
from collections.abc import Mapping

from contracts.json_types import Json
from nodes.insights.detect.words import exit_code

COMMAND_KEYS = ("command", "cmd", "script", "code")
ANSWERS_BY_EXIT_ONE = frozenset(
    {"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "diff", "cmp", "comm", "test", "[",
     "[[", "pgrep", "which", "expr", "false", "ls-files"}
)  # fmt: skip
"""POSIX: 1 means no match, different, or false; 2 and above is a failure."""

_ONLY_EXIT = re.compile(
    r"\W*(?:\w*error:?\s*)?(?:command |process )?(?:failed |exited |ended )?(?:with )?"
    r"(?:exit(?:ed)?|return(?:ed)?|non-zero)[ _]*(?:with )?(?:status|code)?\W{0,3}1\W*\Z",
    re.IGNORECASE,
)
_WRAPPER = re.compile(r"\A(?:sudo|env|time|nice|command|cd\s+\S+\s*&&|\w+=\S*)\s+")


def command_of(arguments: Mapping[str, Json] | None) -> str | None:
    """The command or code that a tool of a shell or an interpreter was given."""
    for key in COMMAND_KEYS:
        value = arguments.get(key) if arguments else None
        if isinstance(value, list):
            value = " ".join(part for part in value if isinstance(part, str))
        if isinstance(value, str):
            return value
    return None


def is_answer(command: str, text: str) -> bool:
    """Whether a failed command only says "nothing found", "different" or "false"."""
    if not _ONLY_EXIT.match(text.strip()[:200]):
        return False
    last = re.split(r"\|\||&&|\||;", command.strip())[-1].strip() or command
    for candidate in (command.strip(), last):
        plain = candidate
        while match := _WRAPPER.match(plain):
            plain = plain[match.end() :]
        words = plain.split(None, 2)
        name = words[0].rpartition("/")[2] if words else ""
        if name == "git" and len(words) > 1:
            name = words[1]
        if name in ANSWERS_BY_EXIT_ONE:
            return True
    return False


def silently_failed(text: str) -> bool:
    """Whether the output of a command that nobody marked as failed tells of a failure.

    A program's error text with exit code 1 or none is what was asked for, such as a failing test.
    """
    code = exit_code(text)
    return (code is not None and code >= 2) or "command not found" in text[:300]
