"""A source of traces from its settings: which reader, at which address, with whose keys."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from configs.settings import TraceSettings
from connectors.traces.calls import Limit
from connectors.traces.files import FilesSource
from contracts.errors import ConfigError
from contracts.protocols import TraceSource

LANGFUSE_CLOUD = "https://cloud.langfuse.com"
LANGSMITH_CLOUD = "https://api.smith.langchain.com"
PHOENIX_LOCAL = "http://localhost:6006"
PHOENIX_LIMIT = Limit(requests=100_000, seconds=60)  # a server of one's own has none


def open_trace_source(
    spec: TraceSettings,
    key: str,
    root: Path,
    *,
    budget_s: float,
    environ: Mapping[str, str] | None = None,
) -> TraceSource:
    """The source that `spec` describes.

    Args:
        spec: one entry of `traces`.
        key: its place in the settings, such as `traces.0`, for messages.
        root: the folder that relative paths start from.
        budget_s: wall clock for one read.
        environ: where keys are looked up; None: this process's environment.

    Raises:
        ConfigError: a key of the settings or a variable of the environment is missing.
    """
    env = Variables(os.environ if environ is None else environ, spec.env_prefix, key, spec.kind)
    if spec.kind in ("files", "otlp"):
        if spec.path is None:
            raise ConfigError(f"{key}.path: missing; a file, folder or glob")
        wanted = spec.format or ("otlp-json" if spec.kind == "otlp" else None)
        return FilesSource(
            [root / spec.path], format=wanted, environment=spec.environment, name=spec.kind
        )
    if spec.kind == "langfuse":
        return _langfuse(spec, env, budget_s)
    if spec.kind == "langsmith":
        return _langsmith(spec, env, budget_s)
    return _phoenix(spec, env, budget_s)


def _langfuse(spec: TraceSettings, env: "Variables", budget_s: float) -> TraceSource:
    from connectors.traces.langfuse.source import (  # noqa: PLC0415  (only if used)
        GENERAL_A_MINUTE,
        LangfuseSource,
    )

    base_url = spec.base_url or env.first("LANGFUSE_BASE_URL", "LANGFUSE_HOST") or LANGFUSE_CLOUD
    return LangfuseSource(
        base_url=base_url,
        public_key=env.secret("LANGFUSE_PUBLIC_KEY"),
        secret_key=env.secret("LANGFUSE_SECRET_KEY"),
        environment=spec.environment,
        general_a_minute=spec.requests_per_minute or GENERAL_A_MINUTE,
        budget_s=budget_s,
    )


def _langsmith(spec: TraceSettings, env: "Variables", budget_s: float) -> TraceSource:
    from connectors.traces.langsmith.source import (  # noqa: PLC0415  (only if used)
        LIMITS,
        LangSmithSource,
    )

    project = spec.project or env.first("LANGSMITH_PROJECT", "LANGCHAIN_PROJECT")
    if not project:
        raise env.missing("LANGSMITH_PROJECT", option="project", what="the tracing project's name")
    base_url = spec.base_url or env.first("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
    return LangSmithSource(
        api_url=base_url or LANGSMITH_CLOUD,
        api_key=env.secret("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY"),
        project=project,
        workspace_id=spec.workspace or env.first("LANGSMITH_WORKSPACE_ID"),
        environment=spec.environment,
        allowed_blob_hosts=spec.blob_hosts,
        limits=_at_most(spec.requests_per_minute, LIMITS),
        budget_s=budget_s,
    )


def _phoenix(spec: TraceSettings, env: "Variables", budget_s: float) -> TraceSource:
    from connectors.traces.phoenix import PhoenixSource  # noqa: PLC0415  (only if used)

    found = env.first("PHOENIX_API_KEY")
    return PhoenixSource(
        base_url=spec.base_url or env.first("PHOENIX_COLLECTOR_ENDPOINT") or PHOENIX_LOCAL,
        project=spec.project or env.first("PHOENIX_PROJECT_NAME") or "default",
        api_key=SecretStr(found) if found else None,
        environment=spec.environment,
        limits=_at_most(spec.requests_per_minute, {"general": PHOENIX_LIMIT}),
        budget_s=budget_s,
    )


def _at_most(requests_per_minute: int | None, limits: Mapping[str, Limit]) -> Mapping[str, Limit]:
    """The limits, each no higher than what the operator's plan allows."""
    if requests_per_minute is None:
        return limits
    asked = Limit(requests=requests_per_minute, seconds=60)
    return {
        klass: asked if asked.requests / 60 < limit.requests / limit.seconds else limit
        for klass, limit in limits.items()
    }


class Variables:
    """The environment under a source's own prefix."""

    def __init__(self, environ: Mapping[str, str], prefix: str, key: str, kind: str) -> None:
        self._environ = environ
        self._prefix = prefix
        self._key = key
        self._where = f"{key} ({kind})"

    def first(self, *names: str) -> str | None:
        """The value of the first of the variables that is set and not empty."""
        return next((v for name in names if (v := self._environ.get(self._prefix + name))), None)

    def secret(self, *names: str) -> SecretStr:
        """The same, where one is needed.

        Raises:
            ConfigError: none is set.
        """
        found = self.first(*names)
        if found is None:
            raise ConfigError(f"{self._where}: set {self._prefix}{names[0]} in the environment")
        return SecretStr(found)

    def missing(self, name: str, *, option: str, what: str) -> ConfigError:
        """What to say where neither the settings nor the environment hold something."""
        place = f"--tracing-{option}" if self._key.startswith("--") else f"{self._key}.{option}"
        return ConfigError(
            f"{self._where}: {what} is missing; give {place}, or set {self._prefix}{name}"
        )
