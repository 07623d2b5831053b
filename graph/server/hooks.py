"""Webhooks: verify, one insert, 202. What the alert leads to is the dispatcher's work.

The order is part of the promise: size, project and secret, proof over the raw bytes, age, rate,
content type, and only then does anything read the body.
"""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from configs.redaction import use_names
from connectors.alerts.body import BadDelivery, read_object
from connectors.alerts.kept import title_of
from connectors.alerts.langfuse import changes_named
from connectors.alerts.proofs import Presented, Proof, prove
from connectors.alerts.reading import Arrival
from connectors.alerts.repeats import to_enter
from connectors.alerts.senders import READERS
from contracts.alerts import HOOK_SOURCES, Alert, HookSource
from contracts.errors import ConfigError, UsageError
from contracts.json_types import sha256_hex
from graph.server.deps import dispatcher_of, installation_of
from graph.server.limits import address_of, check
from graph.server.problems import Problem
from graph.server.raw_body import read_raw
from memory.database import utc_now
from memory.workspace import Workspace, open_project, read_registry

REFUSED = "not accepted: no such hook, or its signature or secret is not right"
"""The same words for a project that is not there, one without a secret and a wrong signature."""

router = APIRouter(tags=["hooks"])
_log = logging.getLogger("tracemend.hooks")
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_NO_SECRET = b"\x00 compared with where there is no secret, so that an answer takes as long"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delivery:
    """One call of a hook."""

    source: HookSource
    project: str
    presented: Presented


def secret_variable(ws: Workspace, source: HookSource) -> str:
    """The environment variable that holds the secret of a project's hook."""
    named: str | None = getattr(ws.settings.hooks, source).secret_env
    default = f"TRACEMEND_HOOK_{source}_{ws.project}".upper().replace("-", "_")
    return named or default


async def _receive(source: HookSource, project: str, request: Request) -> JSONResponse:
    delivery = _Delivery(source=source, project=project, presented=await _presented(request))
    home = installation_of(request).home
    ws, proof = await asyncio.to_thread(_proven, home, delivery, _said_before(request))
    if ws is None or proof == "bad":
        check(request, "failed_auth", f"hook|{address_of(request)}")
        _log.warning("hook refused", extra={"source": source, "project": _shown(project)})
        raise Problem(401, REFUSED)
    if proof == "old":
        _log.warning("hook too old", extra={"source": source, "project": project})
        raise Problem(401, "not accepted: signed too long ago; compare the clocks of both sides")
    check(request, "per_hook", f"{source}|{project}")
    _check_content(request)
    alert, is_new = await asyncio.to_thread(_take, ws, delivery)
    _tell(ws, alert, is_new)
    if is_new:
        dispatcher_of(request).wake()
    return JSONResponse({"accepted": True, "key": alert.key}, status_code=202)


async def _presented(request: Request) -> Presented:
    raw = await read_raw(request, installation_of(request).settings.limits.body_bytes)
    headers: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        headers.setdefault(name, []).append(value)
    in_url = request.query_params.getlist("secret")
    # What logs the request later finds no query: it may hold the secret.
    request.scope["query_string"] = b""
    return Presented(raw=raw, headers=headers, url_secrets=in_url)


def _said_before(request: Request) -> set[str]:
    """What this server has logged about its set-up: once is enough, whoever calls."""
    state = request.app.state
    if not hasattr(state, "said_of_hooks"):
        state.said_of_hooks = set()
    said: set[str] = state.said_of_hooks
    return said


def _proven(home: Path, delivery: _Delivery, said: set[str]) -> tuple[Workspace | None, Proof]:
    """The project, and whether its hook's secret made this delivery. Blocking."""
    ws = _workspace(home, delivery.project, said)
    secrets = _secrets(ws, delivery.source, said) if ws is not None else []
    if ws is None or not secrets:
        now = _now(ws)
        prove(delivery.source, delivery.presented, [_NO_SECRET], now)
        return ws, "bad"
    return ws, prove(delivery.source, delivery.presented, secrets, _now(ws))


def _workspace(home: Path, project: str, said: set[str]) -> Workspace | None:
    """The project; None where there is none.

    Raises:
        Problem: 503 where its settings cannot be read: senders try again after it, and do not after
            a 401, so that an alert would be lost to a typing error.
    """
    if not _SLUG.fullmatch(project) or project not in read_registry(home):
        return None
    try:
        return open_project(home, project)
    except (ConfigError, UsageError) as error:
        problem = str(error)
        if problem not in said:
            said.add(problem)
            _log.error(
                "hook of a project that cannot be opened",
                extra={"project": project, "problem": problem},
            )
        raise Problem(
            503, "not now: the project cannot be opened; see the server's log",
            headers={"Retry-After": "60"},
        ) from None  # fmt: skip


def _secrets(ws: Workspace, source: HookSource, said: set[str]) -> list[bytes]:
    variable = secret_variable(ws, source)
    parts = [part.strip() for part in os.environ.get(variable, "").split(",")]
    secrets = [part.encode("utf-8", "surrogateescape") for part in parts if part]
    if not secrets and variable not in said:
        said.add(variable)
        _log.warning("hook without a secret: set its variable", extra={"variable": variable})
    return secrets


def _now(ws: Workspace | None) -> datetime:
    """The ledger's clock: what is compared with times in the ledger comes from the same one."""
    return ws.ledger.db.clock() if ws is not None else utc_now()


def _check_content(request: Request) -> None:
    """Only plain JSON goes on.

    Raises:
        Problem: 415.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "send `Content-Type: application/json`")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Problem(415, "send the body without `Content-Encoding`")


def _take(ws: Workspace, delivery: _Delivery) -> tuple[Alert, bool]:
    """Read the delivery and enter it: one insert. Blocking.

    Raises:
        Problem: 400 for what is no JSON, 422 for what makes no alert; nothing was stored.
    """
    use_names(ws.settings.redaction.names)
    raw, now = delivery.presented.raw, _now(ws)
    said_key = (delivery.presented.one("idempotency-key") or "").strip()
    arrival = Arrival(
        now=now, longest=ws.settings.analysis.window, kept=ws.settings.retention.alerts,
        digest=sha256_hex(raw), said_key=said_key or None, is_ours=partial(_is_ours, ws),
    )  # fmt: skip
    try:
        ping = to_enter(READERS[delivery.source](read_object(raw), arrival), now)
    except BadDelivery as error:
        raise Problem(400 if error.problem == "syntax" else 422, str(error)) from None
    is_new = ws.ledger.alerts.receive(ping.alert, unless=ping.unless, since=ping.since)
    return ping.alert, is_new


def _is_ours(ws: Workspace, message: str) -> bool:
    """Whether a commit message names a revision that is in this project's ledger."""
    return any(
        stored.proposal.revision == revision
        for proposal, revision in changes_named(message)
        for stored in ws.ledger.proposals.revisions(proposal)
    )


def _tell(ws: Workspace, alert: Alert, is_new: bool) -> None:
    said = {"source": alert.source, "project": ws.project, "key": alert.key}
    if not is_new:
        _log.info("hook repeated", extra=said)
    elif alert.ignored is not None:
        _log.info("hook starts nothing", extra={**said, "why": title_of(alert.ignored)})
    else:
        _log.info("hook accepted", extra={**said, "kind": alert.kind})


def _shown(project: str) -> str:
    """A project of a caller who proved nothing, as it may stand in a log."""
    return project if _SLUG.fullmatch(project) else "(no slug)"


def _endpoint(source: HookSource) -> Callable[[str, Request], Awaitable[Response]]:
    async def receive(project: str, request: Request) -> Response:
        return await _receive(source, project, request)

    receive.__doc__ = (
        f"Take one delivery of {source}; what it starts is decided after the answer.\n\n"
        "A repeated delivery is answered as the first one was."
    )
    return receive


_ANSWERS: dict[int | str, dict[str, Any]] = {
    202: {"description": "kept, or kept before: `{accepted, key}`"},
    400: {"description": "the body is no JSON, or broke off"},
    401: {"description": "no such hook, or its proof is not right"},
    408: {"description": "the body did not arrive in time"},
    413: {"description": "the body is too large"},
    415: {"description": "not `application/json`"},
    422: {"description": "the body makes no alert; one sentence says why"},
    429: {"description": "too many; `Retry-After` in seconds"},
    503: {"description": "the project's settings cannot be read; `Retry-After` in seconds"},
}
_BODY = {"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}}

for _source in HOOK_SOURCES:
    router.add_api_route(
        f"/hooks/{_source}/{{project}}", _endpoint(_source), methods=["POST"], status_code=202,
        name=f"hook_{_source}", summary=f"Webhook of {_source}", responses=_ANSWERS,
        openapi_extra=_BODY, response_class=JSONResponse,
    )  # fmt: skip
