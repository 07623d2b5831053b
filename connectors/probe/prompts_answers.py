"""What the prompt proxy answers, and what of it a run must not be graded on."""

import json
from dataclasses import dataclass
from typing import Self

from connectors.probe.loopback import Reply
from connectors.probe.wire import clean
from contracts.json_types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A reply, and what it says about the run."""

    reply: Reply
    problem: str | None = None
    """Why the run is not what production would see; None: it is."""
    refused: str | None = None
    """What the agent wanted to write, such as `POST /commits`; None: nothing."""

    @classmethod
    def of(cls, status: int, value: Json) -> Self:
        """A plain answer."""
        return cls(reply=_reply(status, value))


def not_found(what: str, problem: str | None = None) -> Answered:
    """404; with a problem the run counts as missing."""
    value = {"error": "LangfuseNotFoundError", "message": f"{shown(what)} not found"}
    return Answered(reply=_reply(404, value), problem=problem)


def refused(method: str, path: str) -> Answered:
    """403: nothing is written by a run of the gate."""
    value = {"error": "Forbidden", "message": "nothing is written by a run of the gate"}
    return Answered(reply=_reply(403, value), refused=f"{method} {shown(path)}")


def shown(text: str) -> str:
    """A name out of a request, for a message."""
    return clean(text, 80) or "a prompt without a name"


def _reply(status: int, value: Json) -> Reply:
    return Reply(status=status, body=json.dumps(value).encode())
