"""What the answer of a backend means: a value, or one of a few errors that callers tell apart.

Every error is one line for a person: the backend, the path without query values, the status, what
to do. No key, header, query value or body is in a message.

CallError (SourceError)
├── TooMuch        the backend could not answer in time: ask for less (a shorter window)
├── NotThere       no such thing, or no such endpoint (`html`)
├── Refused        the key does not open this
├── BadRequest     the backend does not understand the request (`body`)
├── Broken         the answer is torn or is not JSON
├── Unreachable    nobody answers at that address
├── Limited        429; `Calls` waits and tries again, it does not leave there
└── BudgetSpent    the time of the job is over, or would be before the backend lets us in
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from connectors.traces.salvage import load
from connectors.traces.waits import asked_wait_s
from contracts.errors import SourceError
from contracts.json_types import Json

KEPT_BODY = 2000  # characters of an answer that an error keeps for its catcher
ALWAYS = 1 << 30
_BUSY = frozenset({502, 503, 504})
_SLOW = frozenset({408, 413, 422, 524})
_MISSING = frozenset({404, 405, 410, 501})
_REFUSED = frozenset({401, 402, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    """Keys in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an error says of the call it comes from."""

    backend: str
    what: str
    """Method and path, without query values."""
    hint: str = ""
    """What to look at when the key is refused."""


class CallError(SourceError):
    """A call failed after the retries that make sense for its kind.

    Attributes:
        status: the HTTP status, None where there was none.
        again: how many retries this failure is given.
        wait_s: seconds the backend asks to wait, None where it does not say.
    """

    later_helps = False

    def __init__(
        self,
        why: str,
        asked: Asked,
        *,
        status: int | None = None,
        again: int = 0,
        wait_s: float | None = None,
    ) -> None:
        answered = f" ({status})" if status is not None else ""
        super().__init__(
            f"{asked.backend}: {asked.what}{answered}: {why}",
            backend=asked.backend,
            operation=asked.what,
            retryable=self.later_helps,
        )
        self.status = status
        self.again = again
        self.wait_s = wait_s


class TooMuch(CallError):
    """The backend gave up or was too slow: halve what is asked for."""

    later_helps = True


class NotThere(CallError):
    """404. `html`: what came is not JSON, so the server does not know the endpoint at all."""

    html = False


class Refused(CallError):
    """401 or 403."""


class BadRequest(CallError):
    """The backend does not understand or allow the request. `body` is the start of its answer."""

    body = ""


class Broken(CallError):
    """The answer was cut off or is not JSON, twice."""

    later_helps = True


class Unreachable(CallError):
    """No connection."""

    later_helps = True


class Limited(CallError):
    """429: the backend counts more calls than it allows."""

    later_helps = True


class BudgetSpent(CallError):
    """The time of the job is over."""

    later_helps = True


def parsed(reply: Reply, asked: Asked) -> Json:
    """The value of an answer.

    Raises:
        CallError: it is a failure or not JSON.
    """
    reply = accepted(reply, asked)
    if 300 <= reply.status < 400:
        why = "redirects to another address; set the base URL to that one"
        raise Broken(why, asked, status=reply.status)
    if reply.status == 204:
        return None
    document = load(reply.body)
    if document.torn_at is not None:
        page = reply.body.lstrip()[:1] == b"<"
        why = "answers with a page; is the base URL right?" if page else "answers with torn JSON"
        raise Broken(why, asked, status=reply.status, again=1)
    return document.value


def accepted(reply: Reply, asked: Asked) -> Reply:
    """The answer itself, redirects included, unless it is a failure.

    Raises:
        CallError: the status says so.
    """
    if reply.status < 400:
        return reply
    slow = reply.status == 429 or reply.status >= 500 or reply.status in _SLOW
    raise _later(reply, asked) if slow and reply.status not in _MISSING else _never(reply, asked)


def _later(reply: Reply, asked: Asked) -> CallError:
    """A failure that passes, or that a smaller question avoids."""
    status = reply.status
    wait_s = asked_wait_s(reply.headers, datetime.now(UTC))
    if status == 429:
        return Limited("asks us to slow down", asked, status=status, again=ALWAYS, wait_s=wait_s)
    if status in _BUSY:
        why = "is not available now; ask again later, or for less"
        return TooMuch(why, asked, status=status, again=2, wait_s=wait_s)
    # A query that ran out of time would only do so again; another failure may be a passing one.
    again = 0 if status in _SLOW else 1
    return TooMuch("could not answer; ask for less", asked, status=status, again=again)


def _never(reply: Reply, asked: Asked) -> CallError:
    """A failure that asking again does not change."""
    status = reply.status
    if status in _MISSING:
        missing = NotThere("does not have this", asked, status=status)
        missing.html = load(reply.body).torn_at is not None
        return missing
    if status in _REFUSED:
        why = "refuses the key" + (f"; {asked.hint}" if asked.hint else "")
        return Refused(why, asked, status=status)
    bad = BadRequest("does not take the request", asked, status=status)
    bad.body = reply.body.decode("utf-8", "replace")[:KEPT_BODY]
    return bad
