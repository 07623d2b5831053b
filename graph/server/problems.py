"""Errors as answers: one JSON shape, the right status, never a stack or a secret."""

import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from configs.redaction import redact
from contracts.errors import (
    ConfigError,
    ConnectorError,
    PolicyRefused,
    StaleBase,
    TracemendError,
    UsageError,
)
from contracts.json_types import Json

_log = logging.getLogger("tracemend.server")

ANSWER_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On every answer: it is data for its caller alone, never a page of this origin."""


class Problem(Exception):  # the word of RFC 9457
    """An answer that is not what was asked for.

    Attributes:
        status: the HTTP status.
        detail: one sentence for the caller: what was wrong and what to do.
        more: further keys of the answer's body, such as `decision` on a 409.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        more: Mapping[str, Json] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.more, self.headers = dict(more or {}), dict(headers or {})


def answer(problem: Problem) -> JSONResponse:
    """The problem as `{detail, …}`."""
    headers = {**ANSWER_HEADERS, **problem.headers}
    if problem.status == 401:
        headers.setdefault("WWW-Authenticate", "Bearer")
    body = {"detail": redact(problem.detail), **problem.more}
    return JSONResponse(body, status_code=problem.status, headers=headers)


def status_of(error: TracemendError) -> int:
    """The HTTP status of an error of ours."""
    if isinstance(error, StaleBase):
        return 412
    if isinstance(error, ConfigError):
        return 500
    if isinstance(error, PolicyRefused | UsageError):
        return 422
    if isinstance(error, ConnectorError):
        return 502
    return 500


def install(app: FastAPI) -> None:
    """Every error of this application is answered here."""

    @app.exception_handler(Problem)
    async def _problem(_: Request, error: Problem) -> JSONResponse:
        return answer(error)

    @app.exception_handler(TracemendError)
    async def _ours(_: Request, error: TracemendError) -> JSONResponse:
        return answer(Problem(status_of(error), str(error)))

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return answer(Problem(422, f"{where}: {first['msg']}"))

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> JSONResponse:
        return answer(Problem(error.status_code, str(error.detail), headers=error.headers))

    @app.exception_handler(Exception)
    async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
        _log.error("unforeseen error", exc_info=error, extra={"path": request.url.path})
        return answer(Problem(500, "internal error; it is in the server's log"))
