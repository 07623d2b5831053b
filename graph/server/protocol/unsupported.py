"""What this server does not do: each says what to use instead."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter

from graph.server.deps import PrincipalDep
from graph.server.problems import Problem

router = APIRouter()

_ANY = ("GET", "POST", "PUT", "PATCH", "DELETE")
_CRONS = "crons: use `schedules` in tracemend.yaml; a cron elsewhere can POST /hooks/generic"
_STORE = "the store: what is remembered is in the ledger; see GET /findings and /proposals"
_ASSISTANTS = "assistants are the projects: `tracemend init` enters one, its settings are its file"
_BATCH = "runs/batch: send each run by itself; they are queued here"
_EVENTS = "this stream: use POST .../runs/stream or GET .../runs/{run_id}/stream"

_TABLE: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("/assistants", ("POST",), _ASSISTANTS),
    ("/assistants/{one}", ("PATCH", "DELETE"), _ASSISTANTS),
    ("/assistants/{one}/latest", ("POST",), _ASSISTANTS),
    ("/threads/prune", ("POST",), "prune: delete threads one by one, or set `retention`"),
    ("/threads/{one}/copy", ("POST",), "copy: a decision belongs to one thread; start a new one"),
    ("/threads/{one}/storage", ("GET",), "storage: read the thread's state instead"),
    ("/threads/{one}/stream", _ANY, _EVENTS),
    ("/threads/{one}/stream/events", _ANY, _EVENTS),
    ("/threads/{one}/commands", ("POST",), "commands: use POST .../runs with `command.resume`"),
    ("/threads/{one}/runs/crons", _ANY, _CRONS),
    ("/runs/crons", _ANY, _CRONS),
    ("/runs/crons/{rest:path}", _ANY, _CRONS),
    ("/runs/cancel", ("POST",), "runs/cancel: cancel one run by its own path"),
    ("/runs/batch", ("POST",), _BATCH),
    ("/store/{rest:path}", _ANY, _STORE),
    ("/a2a/{rest:path}", _ANY, "a2a: use the routes of threads and runs"),
    ("/mcp", _ANY, "mcp: use the routes of threads and runs"),
    ("/mcp/{rest:path}", _ANY, "mcp: use the routes of threads and runs"),
)


def _refusing(sentence: str) -> Callable[[PrincipalDep], Awaitable[None]]:
    async def refuse(caller: PrincipalDep) -> None:
        del caller  # who is nobody gets 401 first
        raise Problem(501, f"not supported: {sentence}")

    return refuse


for _path, _methods, _sentence in _TABLE:
    router.add_api_route(
        _path, _refusing(_sentence), methods=list(_methods), include_in_schema=False,
        name=f"unsupported {_path}",
    )  # fmt: skip
