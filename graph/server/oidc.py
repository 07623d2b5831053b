"""Bearer tokens of an identity provider (OpenID Connect), checked here: no call per request.

Source: OpenID Connect Core 1.0 section 3.1.3.7, Discovery 1.0; keys and signatures by PyJWT 2.15.
"""

import json
import time
from collections.abc import Mapping
from threading import Lock
from typing import cast
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt
from jwt import PyJWK, PyJWKClient

from configs.server_settings import OidcSettings
from contracts.json_types import Json
from contracts.people import ROLES, Principal, Role, is_name

ALGORITHMS = ("RS256", "ES256")
LEEWAY_SECONDS = 60
KEYS_SECONDS = 300.0
"""How long fetched keys are used before they are fetched again."""
REFETCH_SECONDS = 30.0
"""At most one fetch in this time, whatever key ids bearers name."""
TIMEOUT_SECONDS = 5.0
MAX_TOKEN_CHARS = 16_384
MAX_DISCOVERY_BYTES = 262_144


class ProviderDown(Exception):
    """The identity provider does not answer, so that its bearers cannot be told apart now."""


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class Oidc:
    """Verifies bearers of one issuer. Blocking; one instance serves all threads of a process."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._keys: PyJWKClient | None = None
        self._down_until = 0.0

    def principal(self, bearer: str) -> Principal | None:
        """Who the bearer stands for; None: it is not valid here, whatever the reason.

        Raises:
            ProviderDown: its keys cannot be fetched.
        """
        if len(bearer) > MAX_TOKEN_CHARS:
            return None
        try:
            head = jwt.get_unverified_header(bearer)
            kid, algorithm = head.get("kid"), head.get("alg")
            if algorithm not in ALGORITHMS or not isinstance(kid, str):
                return None
            key = self._key(kid)
            if key is None or key.algorithm_name != algorithm:
                return None
            claims = jwt.decode(
                bearer, key, algorithms=[algorithm], audience=self._settings.audience,
                issuer=self._settings.issuer, leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
            )  # fmt: skip
        except jwt.PyJWTError:
            return None
        return principal_of(cast("Mapping[str, Json]", claims), self._settings)

    def _key(self, kid: str) -> PyJWK | None:
        """The signing key of this id; None: the provider has none.

        Raises:
            ProviderDown: it could not be asked.
        """
        with self._lock:
            if time.monotonic() < self._down_until:
                raise ProviderDown
            try:
                if self._keys is None:
                    self._keys = PyJWKClient(
                        self._keys_url(), timeout=TIMEOUT_SECONDS, lifespan=KEYS_SECONDS,
                        cooldown_duration=REFETCH_SECONDS,
                    )  # fmt: skip
                return self._keys.get_signing_key(kid)
            except (jwt.PyJWKClientConnectionError, URLError, OSError, ValueError) as error:
                self._down_until = time.monotonic() + REFETCH_SECONDS / 6
                raise ProviderDown from error
            except jwt.PyJWKClientError:
                return None

    def _keys_url(self) -> str:
        """Where the keys are: as set, or as the issuer's discovery document names it."""
        if self._settings.jwks_url is not None:
            return self._settings.jwks_url
        place = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        opener = build_opener(_NoRedirect)
        with opener.open(Request(place), timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  # settings allow http(s) only
            document = json.loads(answer.read(MAX_DISCOVERY_BYTES))
        if document["issuer"] != self._settings.issuer:
            raise ValueError("the discovery document is of another issuer")
        found = str(document["jwks_uri"])
        if urlsplit(found).scheme != "https" and urlsplit(place).scheme == "https":
            raise ValueError("the discovery document names keys that others can change")
        return found


def principal_of(claims: Mapping[str, Json], settings: OidcSettings) -> Principal | None:
    """Verified claims as a caller; None: they name nobody.

    Roles that are none of ours are left out, and a bearer without a list of projects sees none.
    """
    name = _claim(claims, settings.name_claim)
    unverified = settings.name_claim == "email" and claims.get("email_verified") is False
    if unverified or not isinstance(name, str) or not is_name(name):
        return None
    roles = {word for word in _words(_claim(claims, settings.roles_claim)) if word in ROLES}
    return Principal(
        name=name.strip(), roles=frozenset(cast("set[Role]", roles)),
        projects=frozenset(_words(_claim(claims, settings.projects_claim))),
    )  # fmt: skip


def _claim(claims: Mapping[str, Json], path: str) -> Json:
    """The claim of this name, else the one at this path (`realm_access.roles`)."""
    if path in claims:
        return claims[path]
    here: Json = dict(claims)
    for part in path.split("."):
        if not isinstance(here, Mapping):
            return None
        here = here.get(part)
    return here


def _words(value: Json) -> list[str]:
    """A list of strings, or the words of one."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list | tuple):
        return [word for word in value if isinstance(word, str)]
    return []
