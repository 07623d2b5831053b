"""Whether a delivery comes from who knows the secret: over its bytes, before anything reads them.

Every comparison takes constant time and every secret is tried, so that an answer's delay tells
nothing. Nothing here raises or logs: a caller learns good, bad or old, never what was expected.
"""

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal

from contracts.alerts import HookSource

Proof = Literal["good", "bad", "old"]
"""The outcome. "old": rightly signed, but so long ago (or ahead) that it may be a replay."""

REPLAY_SECONDS = 300
"""Langfuse signs again when it tries again later, so an honest call is never older."""
SECRET_HEADER = "x-tracemend-secret"  # noqa: S105  # a header's name
SIGNATURE_HEADER = "x-tracemend-signature"

_MAX_SIGNATURES = 8
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SECONDS = re.compile(r"[0-9]{1,12}")
_SHA256 = "sha256="


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """What a caller presents.

    Attributes:
        raw: the body's bytes as they arrived.
        headers: every header, lower-case names; several values where it was sent several times.
        url_secrets: values of `?secret=`.
    """

    raw: bytes
    headers: Mapping[str, Sequence[str]]
    url_secrets: Sequence[str] = ()

    def one(self, name: str) -> str | None:
        """The header's value; None also where it was sent twice, since nobody means that."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else None


def prove(
    source: HookSource, presented: Presented, secrets: Sequence[bytes], now: datetime
) -> Proof:
    """Whether any of the secrets made this delivery.

    Args:
        source: whose rules count.
        presented: what the caller sent.
        secrets: several while one is replaced; with none every delivery is bad.
        now: for signatures that carry their time.
    """
    if source == "langfuse":
        return _timed(presented, "x-langfuse-signature", "v1", secrets, now)
    if source == "langsmith" and "x-langsmith-signature" in presented.headers:
        signature = presented.one("x-langsmith-signature") or ""
        return _good(_signs(secrets, presented.raw, [signature.removeprefix(_SHA256)]))
    if source == "generic" and SIGNATURE_HEADER in presented.headers:
        if "t=" in (presented.one(SIGNATURE_HEADER) or ""):
            return _timed(presented, SIGNATURE_HEADER, "sha256", secrets, now)
        signature = presented.one(SIGNATURE_HEADER) or ""
        return _good(_signs(secrets, presented.raw, [signature.removeprefix(_SHA256)]))
    in_url = presented.url_secrets if source == "langsmith" else ()
    return _good(_knows(secrets, [*_sent_secrets(presented), *in_url]))


def _good(fits: bool) -> Proof:
    return "good" if fits else "bad"


def _sent_secrets(presented: Presented) -> list[str]:
    """The secret as `Authorization: Bearer …` or in our own header."""
    scheme, _, credentials = (presented.one("authorization") or "").strip().partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else ""
    return [bearer, presented.one(SECRET_HEADER) or ""]


def _knows(secrets: Iterable[bytes], given: Sequence[str]) -> bool:
    """Whether a given text is one of the secrets; hashed first, so that lengths do not show."""
    hashes = [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in given if text]
    fits = False
    for secret in secrets:
        expected = sha256(secret).digest()
        for found in hashes:
            fits |= hmac.compare_digest(expected, found)
    return fits


def _signs(secrets: Iterable[bytes], message: bytes, digests: Sequence[str]) -> bool:
    """Whether one of the hex digests is the HMAC-SHA256 of the message under a secret."""
    given = [digest.lower() for digest in digests if _DIGEST.fullmatch(digest.lower())]
    fits = False
    for secret in secrets:
        expected = hmac.new(secret, message, sha256).hexdigest()
        for digest in given[:_MAX_SIGNATURES]:
            fits |= hmac.compare_digest(expected, digest)
    return fits


def _timed(
    presented: Presented, header: str, name: str, secrets: Sequence[bytes], now: datetime
) -> Proof:
    """`t=<unix seconds>,<name>=<hex>`, signed over `<t>.<body>`; several digests are allowed."""
    pairs = [part.strip().partition("=") for part in (presented.one(header) or "").split(",")]
    times = [value for key, _, value in pairs if key == "t"]
    digests = [value for key, _, value in pairs if key == name]
    signed_at = times[0] if len(times) == 1 and _SECONDS.fullmatch(times[0]) else ""
    message = signed_at.encode() + b"." + presented.raw
    if not _signs(secrets, message, digests) or not signed_at:
        return "bad"
    return "old" if abs(now.timestamp() - int(signed_at)) > REPLAY_SECONDS else "good"
