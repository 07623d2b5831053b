"""Bearers of a real identity provider on loopback, which signs with real keys."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from configs.server_settings import LimitSettings, OidcSettings, ServerSettings
from graph.server import oidc
from tests.approval_worlds import Inbox, installation, wait
from tests.fakes.serving import Mishaps, serve
from tests.serving_app import Served, serve_app

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EDWARDS = ed25519.Ed25519PrivateKey.generate()
CURVE = ec.generate_private_key(ec.SECP256R1())
P = "p-4k7q2m6xza"


@dataclass(slots=True)
class Provider:
    """An identity provider: discovery, keys, and a pen."""

    keys: list[dict[str, Any]]
    url: str = ""
    issuer: str | None = None
    mishaps: Mishaps = field(init=False)

    def __post_init__(self) -> None:
        routes = [
            Route("/.well-known/openid-configuration", self.discovery),
            Route("/keys", self.jwks),
        ]
        self.mishaps = Mishaps(Starlette(routes=routes))

    async def discovery(self, _: Request) -> Response:
        return JSONResponse({"issuer": self.issuer or self.url, "jwks_uri": f"{self.url}/keys"})

    async def jwks(self, _: Request) -> Response:
        return JSONResponse({"keys": self.keys})

    def bearer(
        self, *, key: Any = RSA, alg: str = "RS256", kid: str | None = "rsa", **claims: Any
    ) -> str:
        now = int(time.time())
        said = {
            "iss": self.url, "aud": "tracemend", "exp": now + 300, "iat": now, "sub": "42",
            "email": "ann@example.com", "tracemend_roles": ["reviewer"],
            "tracemend_projects": ["refunds"], **claims,
        }  # fmt: skip
        kept = {name: value for name, value in said.items() if value is not None}
        head = {} if kid is None else {"kid": kid}
        return jwt.encode(kept, key, algorithm=alg, headers=head)


def public(algorithm: Any, key: Any, kid: str, alg: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    return {**made, "kid": kid, "alg": alg, "use": "sig"}


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider(
        [
            public(RSAAlgorithm, RSA, "rsa", "RS256"), public(ECAlgorithm, CURVE, "ec", "ES256"),
            public(OKPAlgorithm, EDWARDS, "ed", "EdDSA"),
        ]
    )  # fmt: skip
    with serve(made.mishaps) as url:
        made.url = url
        yield made


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = installation(tmp_path, "refunds", "billing")
    wait(made)
    return made


@pytest.fixture
def served(inbox: Inbox, provider: Provider) -> Iterator[Served]:
    settings = ServerSettings(
        oidc=OidcSettings(issuer=provider.url, audience="tracemend"),
        limits=LimitSettings(failed_auth="10000/minute"),
    )
    with serve_app(inbox.home, settings=settings) as server:
        yield server


def get(served: Served, bearer: str, path: str = f"/proposals/{P}") -> httpx.Response:
    return httpx.get(
        served.url + path, headers={"Authorization": f"Bearer {bearer}"}, timeout=30
    )  # fmt: skip


def test_a_signed_in_person_decides_under_the_name_of_the_claim(
    inbox: Inbox, served: Served, provider: Provider
) -> None:
    bearer = provider.bearer()
    tag = get(served, bearer).headers["etag"]
    given = httpx.post(
        f"{served.url}/proposals/{P}/decision", json={"type": "approve"},
        headers={"Authorization": f"Bearer {bearer}", "If-Match": tag}, timeout=30,
    )  # fmt: skip
    assert given.status_code == 200, given.text
    (decision,) = inbox.decisions(P)
    assert (decision.by, decision.via) == ("ann@example.com", "api")
    assert get(served, provider.bearer(key=CURVE, alg="ES256", kid="ec")).status_code == 200


def test_forged_expired_and_foreign_bearers_are_all_refused_alike(
    served: Served, provider: Provider
) -> None:
    now = int(time.time())
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head, body, signature = provider.bearer().split(".")
    forged = {
        "alg none": jwt.encode({"iss": provider.url}, "", algorithm="none", headers={"kid": "rsa"}),
        "signature cut off": f"{head}.{body}.",
        "body changed": f"{head}.{body[:-4]}AAAA.{signature}",
        "HS256 with the public key": hs256(pem, provider),
        "another key under a known id": provider.bearer(key=OTHER),
        "the id of the other key": provider.bearer(kid="ec"),
        "an unknown key id": provider.bearer(key=OTHER, kid="new"),
        "no key id": provider.bearer(kid=None),
        "an algorithm we do not take": provider.bearer(alg="RS512"),
        "an algorithm that only the provider takes": provider.bearer(
            key=EDWARDS, alg="EdDSA", kid="ed"
        ),
        "another audience": provider.bearer(aud="somebody-else"),
        "no audience": provider.bearer(aud=None),
        "another issuer": provider.bearer(iss="https://evil.example"),
        "no issuer": provider.bearer(iss=None),
        "expired": provider.bearer(exp=now - 120),
        "no expiry": provider.bearer(exp=None),
        "not yet": provider.bearer(nbf=now + 600),
        "an address nobody proved": provider.bearer(email_verified=False),
        "no name": provider.bearer(email=None),
        "the system's name": provider.bearer(email="Tracemend"),
        "a name of two lines": provider.bearer(email="ann\nroot"),
        "no token at all": "x.y.z",
        "a very long one": "a" * 20_000,
    }
    answers = {what: get(served, bearer) for what, bearer in forged.items()}
    assert {what: r.status_code for what, r in answers.items()} == dict.fromkeys(forged, 401)
    assert {r.text for r in answers.values()} == {answers["expired"].text}
    assert get(served, provider.bearer(exp=now - 30)).status_code == 200  # within the leeway


def hs256(pem: bytes, provider: Provider) -> str:
    """What PyJWT itself refuses to sign: the public key taken for a shared secret."""
    import base64
    import hashlib
    import hmac

    def part(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    claims = jwt.decode(provider.bearer(), options={"verify_signature": False})
    text = part(json.dumps({"alg": "HS256", "kid": "rsa"}).encode()) + b"."
    text += part(json.dumps(claims).encode())
    return (text + b"." + part(hmac.new(pem, text, hashlib.sha256).digest())).decode()


def test_roles_and_projects_come_from_claims_and_from_nowhere_else(
    served: Served, provider: Provider
) -> None:
    def seen(**claims: Any) -> int:
        return get(served, provider.bearer(**claims)).status_code

    def listed(**claims: Any) -> list[str]:
        found = get(served, provider.bearer(**claims), "/proposals").json()["proposals"]
        return [one["id"] for one in found]

    assert seen(tracemend_projects=None) == 404
    assert listed(tracemend_projects=None) == []
    assert listed(tracemend_projects=["billing"]) == []
    assert listed(tracemend_projects="*") == []
    assert listed(tracemend_projects={"refunds": True}) == []
    assert listed() == [P]
    assert listed(tracemend_roles="reviewer viewer") == [P]
    assert listed(tracemend_roles=["root", "admins"]) == []
    assert listed(tracemend_roles=None) == []


def test_a_provider_that_is_down_stops_its_bearers_and_not_ours(
    served: Served, provider: Provider
) -> None:
    provider.mishaps.status(500, times=1000)
    answer = get(served, provider.bearer())
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert get(served, served.token("ben", ("viewer",))).status_code == 200
    asked = len(provider.mishaps.seen)
    for _ in range(5):
        assert get(served, provider.bearer()).status_code == 503
    assert len(provider.mishaps.seen) == asked  # it is not asked again at once


def test_unknown_key_ids_do_not_make_us_ask_again_and_again(
    served: Served, provider: Provider
) -> None:
    assert get(served, provider.bearer()).status_code == 200
    for number in range(20):
        assert get(served, provider.bearer(key=OTHER, kid=f"k{number}")).status_code == 401
    assert len(provider.mishaps.asked("/keys")) == 1


def test_a_rotated_key_is_fetched_after_the_pause(
    served: Served, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "REFETCH_SECONDS", 0.0)
    assert get(served, provider.bearer()).status_code == 200
    provider.keys = [public(RSAAlgorithm, OTHER, "new", "RS256")]
    assert get(served, provider.bearer(key=OTHER, kid="new")).status_code == 200


def test_a_discovery_document_of_another_issuer_is_not_believed(
    served: Served, provider: Provider
) -> None:
    provider.issuer = "https://evil.example"
    assert get(served, provider.bearer()).status_code == 503
