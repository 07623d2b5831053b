"""Deliver one hand-off as a JSON POST that its receiver can check and need not take twice.

The body's bytes are signed like our own generic hook takes them: header `x-tracemend-signature`
with `t=<unix seconds>,sha256=<hex>`, the HMAC-SHA256 of `<t>.<body>`. The header
`idempotency-key` is the same for every try of one filing, so a receiver that keeps it takes a
ticket once. Redirects are refused: a signed body goes to the address that was configured, or
nowhere. What the receiver answers is not read, beyond its status.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

import httpx

from contracts.errors import ConnectorError

SIGNATURE_HEADER = "x-tracemend-signature"
KEY_HEADER = "idempotency-key"
TRIES = 3
FIRST_WAIT_S = 1.0
GROWTH = 4.0
"""Each wait is so many times the one before: 1 s, 4 s."""
TIMEOUT_S = 5.0
"""Three tries and the waits between them stay well within a lease of the ledger."""
_AGAIN = frozenset({408, 425, 429})
"""Besides every 5xx: statuses after which the same call may be taken."""

Wait = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where tickets go.

    Attributes:
        url: as configured by the operator; nothing of a trace is ever part of it.
        secret: signs the body; None: it goes unsigned.
        timeout_s: of one try, the whole answer included.
        wait: sleeps between tries.
    """

    url: str
    secret: bytes | None
    timeout_s: float = TIMEOUT_S
    wait: Wait = asyncio.sleep

    async def send(self, body: bytes, *, key: str, now: Callable[[], datetime]) -> None:
        """POST these bytes; three tries where another one could help.

        Args:
            body: the JSON document.
            key: the same whenever this ticket is sent.
            now: for the signature's time; each try is signed anew.

        Raises:
            ConnectorError: the receiver did not take it. The message names neither the secret nor
                the address beyond its host.
        """
        problem = ""
        pause = FIRST_WAIT_S
        async with httpx.AsyncClient(follow_redirects=False, trust_env=False) as client:
            for number in range(1, TRIES + 1):
                said = await self._try(client, body, key, now())
                if said is None:
                    return
                problem = said.problem
                if not said.again:
                    break
                if number < TRIES:
                    await self.wait(pause)
                    pause *= GROWTH
        raise ConnectorError(problem, backend="handoffs", operation="send", retryable=True)

    async def _try(
        self, client: httpx.AsyncClient, body: bytes, key: str, at: datetime
    ) -> "_Refusal | None":
        headers = {"content-type": "application/json", KEY_HEADER: key}
        if self.secret is not None:
            headers[SIGNATURE_HEADER] = signature(self.secret, body, at)
        host = httpx.URL(self.url).host
        try:
            async with asyncio.timeout(self.timeout_s):
                request = client.build_request("POST", self.url, content=body, headers=headers)
                answer = await client.send(request, stream=True)  # its body is not read
                await answer.aclose()
        except TimeoutError:
            return _Refusal(f"{host}: no answer within {self.timeout_s:g} s")
        except httpx.HTTPError as error:
            return _Refusal(f"{host}: not reached ({type(error).__name__})")
        if answer.is_success:
            return None
        if answer.is_redirect:
            return _Refusal(
                f"{host}: answered {answer.status_code}, a redirect, which is not followed; "
                "set handoffs.webhook to the final address", again=False,
            )  # fmt: skip
        again = answer.is_server_error or answer.status_code in _AGAIN
        return _Refusal(f"{host}: answered {answer.status_code}", again=again)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a try failed, and whether the next one could do better."""

    problem: str
    again: bool = True


def signature(secret: bytes, body: bytes, at: datetime) -> str:
    """The value of the signature header for these bytes at this time."""
    seconds = str(int(at.timestamp()))
    digest = hmac.new(secret, seconds.encode() + b"." + body, sha256).hexdigest()
    return f"t={seconds},sha256={digest}"
