"""The settings of one installation's server: `server.yaml` in its home < environment."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from limits import parse
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from contracts.errors import ConfigError

FILE_NAME = "server.yaml"
_ENV_PREFIX = "TRACEMEND_SERVER__"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LimitSettings(_Section):
    """What one caller may ask. Rates as in the library `limits`: `120/minute`."""

    body_bytes: int = Field(default=1_048_576, ge=1024, le=67_108_864)
    per_token: str = "600/minute"  # noqa: S105  # a rate
    per_hook: str = "6000/minute"
    """For each source and project; above it 429, which not every sender retries."""
    failed_auth: str = "30/minute"
    """Refused callers of one address."""

    @field_validator("per_token", "per_hook", "failed_auth")
    @classmethod
    def _is_a_rate(cls, value: str) -> str:
        try:
            parse(value)
        except ValueError:
            raise ValueError(f"got {value!r}, needs a rate such as `600/minute`") from None
        return value


class OidcSettings(_Section):
    """Bearer tokens of an identity provider, beside our own."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    """None: what the issuer's discovery document names."""
    name_claim: str = "email"
    roles_claim: str = "tracemend_roles"
    projects_claim: str = "tracemend_projects"
    """A list of slugs; a bearer without it sees nothing."""

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _is_not_read_by_others(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "https://none")
        if parts.scheme == "https" and parts.hostname:
            return value
        if parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1"):
            return value
        raise ValueError(f"got {value!r}, needs an https URL (http on loopback only)")


class ObserveSettings(_Section):
    """Our own traces, by OTLP over HTTP. Never into a project that we read."""

    otlp_endpoint: str | None = None
    service_name: str = "tracemend"


class ForeignSettings(_Section):
    """The LangGraph server that drives our threads, where our routes are mounted into it."""

    url: str
    token_env: str | None = None
    """The variable that holds the bearer token for it."""


class ServerSettings(_Section):
    """The whole of `server.yaml`."""

    host: str = "127.0.0.1"
    port: int = Field(default=8765, ge=0, le=65535)
    workers: int = Field(default=4, ge=1, le=64)
    """Runs that are driven at the same time in this process."""
    public_url: str | None = None
    limits: LimitSettings = LimitSettings()
    oidc: OidcSettings | None = None
    observe: ObserveSettings = ObserveSettings()
    foreign: ForeignSettings | None = None


def load_server_settings(home: Path, *, environ: Mapping[str, str] | None = None) -> ServerSettings:
    """Read `server.yaml` (it may be absent) and the environment.

    `TRACEMEND_SERVER__LIMITS__PER_TOKEN=60/minute` sets `limits.per_token`.

    Raises:
        ConfigError: names the key's path, what was got and where.
    """
    file = home / FILE_NAME
    data: dict[str, Any] = {}
    if file.exists():
        try:
            read = yaml.safe_load(file.read_text("utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: not valid YAML: {error}") from None
        if read is not None and not isinstance(read, dict):
            raise ConfigError(f"{file}: must hold keys and values, such as `port: 8765`")
        data = read or {}
    for name, value in sorted((os.environ if environ is None else environ).items()):
        if name.startswith(_ENV_PREFIX):
            here = data
            *path, last = name[len(_ENV_PREFIX) :].lower().split("__")
            for part in path:
                here = here.setdefault(part, {})
            here[last] = yaml.safe_load(value)
    try:
        return ServerSettings.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"{where}: {first['msg'][:160]} ({FILE_NAME}, or {_ENV_PREFIX}{where.upper()})"
        ) from None
