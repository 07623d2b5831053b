"""The settings of one project: packaged defaults < tracemend.yaml < environment < command line."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from configs.gate_settings import GateSettings, ProbeSettings
from configs.harness_settings import DraftingSettings, HarnessSettings, Target
from contracts.errors import ConfigError
from contracts.json_types import Json

FILE_NAME = "tracemend.yaml"
_ENV_PREFIX = "TRACEMEND__"
_SPAN = re.compile(r"(\d+)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _span(value: object) -> object:
    """`24h`, `7d`, `90m` as a timedelta; anything else goes on to pydantic."""
    match = _SPAN.fullmatch(value) if isinstance(value, str) else None
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]]) if match else value


MAX_SPAN = timedelta(days=3660)
TimeSpan = Annotated[timedelta, BeforeValidator(_span)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TraceSettings(_Section):
    """One place to read traces from. Keys and secrets come from the environment only."""

    kind: Literal["langfuse", "langsmith", "phoenix", "otlp", "files"]
    path: str | None = None
    """Kinds files and otlp: a file, folder or glob, from the folder of `tracemend.yaml`."""
    format: str | None = None
    """Kind files: read only this format; None: whatever is found."""
    base_url: str | None = None
    environment: str | None = None
    """Only traces of this environment; None: all (but never our own)."""
    project: str | None = None
    """Kinds langsmith and phoenix: the tracing project's name."""
    workspace: str | None = None
    """Kind langsmith: the workspace's id, for keys of an organization."""
    env_prefix: str = Field(default="", pattern=r"^[A-Z0-9_]*$")
    """In front of the usual variables: `REFUNDS_` reads `REFUNDS_LANGFUSE_PUBLIC_KEY`."""
    requests_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    """What the plan allows on the main endpoint; None: what the vendor's paid plans allow."""
    blob_hosts: tuple[str, ...] = ()
    """Kind langsmith: hosts besides the API's own that presigned payloads are fetched from."""


class ScoreRule(_Section):
    """When a recorded score says that its trace failed."""

    name: str
    """Of the score or feedback key, as the backend records it."""
    below: float | None = None
    """Numbers less than this fail; a recorded true or false counts as 1 or 0."""
    above: float | None = None
    """Numbers greater than this fail."""
    equals: tuple[str, ...] = ()
    """Categories that fail."""
    severity: Literal["low", "medium", "high", "critical"] = "medium"

    @model_validator(mode="after")
    def _can_fail(self) -> "ScoreRule":
        if self.below is None and self.above is None and not self.equals:
            raise ValueError("needs below, above or equals")
        return self


class AnalysisSettings(_Section):
    """Which time is looked at, how long reading may take, and what counts as chronic."""

    window: TimeSpan = Field(gt=timedelta(0), le=MAX_SPAN)
    baseline: TimeSpan = Field(gt=timedelta(0), le=MAX_SPAN)
    chronic_floor: float = Field(ge=0, le=1)
    read_within: TimeSpan = Field(gt=timedelta(0), le=MAX_SPAN)
    """Wall clock for reading one window; what was not read by then is missing, and said."""
    scores: tuple[ScoreRule, ...]
    """Which recorded scores and feedback are failures; none: they are not looked at."""


class AlertSettings(_Section):
    """How an alert's window is read."""

    settle: TimeSpan = Field(ge=timedelta(0), le=timedelta(days=1))
    """How long after the end of an alert's window its traces are first read."""
    late: TimeSpan = Field(ge=timedelta(0), le=timedelta(days=1))
    """How long a window without traces, or with open ones, is read again before it is concluded."""


class HookSettings(_Section):
    """One webhook of the server."""

    secret_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The variable that holds its secret (several, by commas, while one is replaced); None:
    `TRACEMEND_HOOK_<SOURCE>_<PROJECT>`, upper case, `-` as `_`."""


class HooksSettings(_Section):
    """The webhooks, by source. One whose variable is not set answers nobody."""

    langfuse: HookSettings = HookSettings()
    langsmith: HookSettings = HookSettings()
    alertmanager: HookSettings = HookSettings()
    generic: HookSettings = HookSettings()


class ScheduleSettings(_Section):
    """One schedule. It only starts runs; a slot starts one run, whatever was down."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    cron: str
    """Five fields, such as `0 7 * * 1-5`."""
    run: Literal["analyze", "watch", "retention"]
    timezone: str = "UTC"


class RetentionSettings(_Section):
    """What the schedule `retention` removes. Decisions, releases and the audit log stay."""

    checkpoints: TimeSpan = Field(gt=timedelta(0), le=MAX_SPAN)
    """Checkpoints of runs that ended longer ago."""
    alerts: TimeSpan = Field(gt=timedelta(0), le=MAX_SPAN)
    """Deliveries of alerts older than this."""


class RedactionSettings(_Section):
    """What is masked beside the packaged rules, wherever text leaves memory."""

    names: tuple[str, ...] = ()
    """Names of people, customers or products, as whole words in any case."""


class ModelSettings(_Section):
    """`provider:name` of any LangChain chat model; None: no model."""

    router: str | None
    analyst: str | None
    editor: str | None
    samples: int = Field(ge=1, le=9)
    """How often the analyst is asked about one finding, independently."""
    screen_traces: int = Field(ge=0, le=10_000)
    """Traces of a window that the router model reads, condensed, for what rules cannot see."""


class ReviewSettings(_Section):
    """Who reviews, and how long a card waits."""

    expires_days: float = Field(gt=0)
    second_person: Literal["low", "medium", "high", "never"]
    reviewer: str | None


class BudgetSettings(_Section):
    """Money for analysis and drafting."""

    max_usd: float = Field(ge=0)
    max_usd_per_day: float = Field(ge=0)
    analysis_tokens: int = Field(ge=0)
    """Model tokens of one analysis, screening and diagnosis together."""
    drafting_tokens: int = Field(ge=0)


class MemorySettings(_Section):
    """How findings and lessons are recalled by meaning."""

    embedder: Literal["hash", "minilm", "off"]
    """`hash` needs nothing; `minilm` the extra of that name; `off`: recall by signature alone."""
    chroma_url: str | None = Field(default=None, pattern=r"^https?://[^/@]+/?$")
    """A Chroma server for several processes; None: a folder beside the ledger, one process."""


class HandoffSettings(_Section):
    """Where tickets for what text cannot fix are delivered."""

    webhook: str | None = Field(default=None, pattern=r"^https?://[^\s@]+$")
    """POST of the ticket as JSON; None: they are only listed."""
    secret_env: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The variable that holds the secret which signs the body; unset: unsigned."""


class Settings(_Section):
    """The whole of `tracemend.yaml`, validated and frozen."""

    version: Literal[1]
    project: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    traces: tuple[TraceSettings, ...]
    analysis: AnalysisSettings
    harness: HarnessSettings
    probe: ProbeSettings | None
    cases: tuple[str, ...]
    gate: GateSettings
    models: ModelSettings
    drafting: DraftingSettings
    review: ReviewSettings
    budget: BudgetSettings
    redaction: RedactionSettings
    memory: MemorySettings
    handoffs: HandoffSettings
    playbooks: tuple[str, ...]
    """Folders of the operator's own playbooks."""
    alerts: AlertSettings
    hooks: HooksSettings
    schedules: tuple[ScheduleSettings, ...]
    retention: RetentionSettings


def load_settings(
    file: Path,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Json] | None = None,
) -> Settings:
    """Read and join the four layers.

    Args:
        file: the project's `tracemend.yaml`.
        environ: the environment; `TRACEMEND__GATE__MARGIN` sets `gate.margin`.
        overrides: dotted key to value, from the command line.

    Raises:
        ConfigError: names the file, the key's path and, for an unknown key, the nearest known one.
    """
    text = resources.files("configs").joinpath("defaults.yaml").read_text("utf-8")
    merged: dict[str, Json] = yaml.safe_load(text)
    _merge(merged, _read_yaml(file), file.name)
    layers = [*_from_environment(os.environ if environ is None else environ)]
    layers += [(key, value, "command line") for key, value in (overrides or {}).items()]
    for key, value, origin in layers:
        _set(merged, key.split("."), value, origin)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        several = isinstance(merged.get("harness"), list)
        raise ConfigError(_sentence(error, file.name, several=several)) from None


def _read_yaml(file: Path) -> Mapping[str, Json]:
    try:
        data = yaml.safe_load(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file}: there is no such file; `tracemend init` writes one") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        why = getattr(error, "problem", None) or "not UTF-8"
        raise ConfigError(f"{file.name}{line}: not valid YAML: {why}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{file.name}: must hold keys and values, such as `version: 1`")
    return cast("Mapping[str, Json]", data)


def _merge(base: MutableMapping[str, Json], over: Mapping[str, Json], origin: str) -> None:
    """Sections are joined key by key; lists and single values are replaced."""
    for key, value in over.items():
        if not isinstance(key, str):
            raise ConfigError(f"{origin}: the key {key!r} is not a word; quote it")
        mine = base.get(key)
        if isinstance(mine, MutableMapping) and isinstance(value, Mapping):
            _merge(mine, value, origin)
        else:
            base[key] = value


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Json, str]]:
    for name in sorted(environ):
        if name.startswith(_ENV_PREFIX):
            key = name[len(_ENV_PREFIX) :].lower().replace("__", ".")
            yield key, yaml.safe_load(environ[name]), name


def _set(base: MutableMapping[str, Json], path: Sequence[str], value: Json, origin: str) -> None:
    here = base
    for part in path[:-1]:
        inner = here.get(part)
        if not isinstance(inner, MutableMapping):
            raise ConfigError(f"{origin}: there is no section {part!r}")
        here = inner
    here[path[-1]] = value


def _sentence(error: ValidationError, file_name: str, *, several: bool) -> str:
    """The first problem in one line: key path, what was got, what is needed, where.

    `several`: whether `harness` is written as a list of places.
    """
    first = error.errors()[0]
    path = ".".join(str(part) for part in _as_written(first["loc"], several=several))
    if first["type"] == "extra_forbidden":
        known = _known_keys(first["loc"])
        near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
        return f"{path}: unknown key; {hint} ({file_name})"
    if first["type"] == "missing":
        return f"{path}: missing; add it ({file_name})"
    got = repr(first["input"])
    return f"{path}: got {got[:80]}, {first['msg'][:160]} ({file_name})"


def _as_written(loc: Sequence[int | str], *, several: bool) -> Sequence[int | str]:
    """The key's path as the file has it: one place of the harness stands there without a list."""
    if loc[:2] != ("harness", "targets"):
        return loc
    number, inside = loc[2:3], [part for part in loc[3:] if part not in _KINDS]
    return ("harness", *(number if several else ()), *inside)


def _known_keys(loc: Sequence[int | str]) -> list[str]:
    """Keys of the section that holds the last part of `loc`."""
    model: type[BaseModel] = Settings
    for part in loc[:-1]:
        field = model.model_fields.get(str(part))
        inner = _KINDS.get(str(part)) if field is None else _model_in(field.annotation)
        model = inner or model
    return [*model.model_fields, *(("invariants",) if model in _KINDS.values() else ())]


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The settings model inside `X`, `X | None` or `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model_in(a))), None)


_KINDS: Mapping[str, type[BaseModel]] = {
    cast("str", get_args(model.model_fields["kind"].annotation)[0]): model
    for model in cast("Sequence[type[BaseModel]]", get_args(get_args(Target)[0]))
}
"""The kinds of places of a harness."""
