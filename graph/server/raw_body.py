"""The bytes of a body as they were sent, never more of them than allowed."""

import asyncio

from fastapi import Request
from starlette.requests import ClientDisconnect

from graph.server.problems import Problem

READ_SECONDS = 30.0
"""How long a body may take to arrive; senders give up sooner themselves."""


async def read_raw(request: Request, limit: int, *, within_s: float = READ_SECONDS) -> bytes:
    """The body, exactly as it arrived.

    Args:
        request: whose body nobody has read yet.
        limit: in bytes. A declared length above it is refused unread; a body that is longer than
            declared, or declares none, is refused at the first byte too many.
        within_s: for the whole body.

    Raises:
        Problem: 413 too large, 408 too slow, 400 broken off.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(within_s):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
    except TimeoutError:
        raise Problem(408, f"the body did not arrive within {within_s:g} s") from None
    except ClientDisconnect:
        raise Problem(400, "the body broke off") from None
    return b"".join(parts)


def _too_large(limit: int) -> Problem:
    return Problem(413, f"the body is larger than {limit} bytes (`limits.body_bytes`)")
