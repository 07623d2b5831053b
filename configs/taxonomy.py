"""Kinds of symptoms and causes, as `taxonomy.yaml` declares them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.errors import ConfigError
from contracts.findings import Remedy, Severity

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the least to the worst."""


class Kind(BaseModel):
    """What one kind of symptom means."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    severity: Literal["low", "medium", "high", "critical"]
    cause: str
    """What explains it where no rule knows better."""
    title: str
    """With `{place}`, `{code}` and `{with_code}`."""
    counted: bool = True
    """False: hits are hints, never findings."""
    confidence: float = Field(default=1.0, ge=0, le=1)
    """How often a hit is a failure that a careful reader would mark, where that was measured."""


class Cause(BaseModel):
    """Where the fix of one cause belongs, best first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    remedies: tuple[Remedy, ...]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    kinds: dict[str, Kind]
    causes: dict[str, Cause]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxonomy:
    """Kinds and causes by name."""

    kinds: Mapping[str, Kind]
    causes: Mapping[str, Cause]

    def severity(self, kind: str) -> Severity:
        """How bad a symptom of the kind is; unknown kinds are medium."""
        known = self.kinds.get(kind)
        return known.severity if known else "medium"

    def counted(self, kind: str) -> bool:
        """Whether a symptom of the kind makes its trace a failed one."""
        known = self.kinds.get(kind)
        return known.counted if known else True

    def confidence(self, kind: str) -> float:
        """How often a hit of the kind is a failure; 1 where nobody measured it."""
        known = self.kinds.get(kind)
        return known.confidence if known else 1.0

    def title(self, kind: str, place: str, code: str) -> str:
        """A line for a person."""
        known = self.kinds.get(kind)
        pattern = known.title if known else f"{kind} at {{place}}{{with_code}}"
        return pattern.format(
            place=place, code=code or "an error", with_code=f" ({code})" if code else ""
        )


def parse_taxonomy(text: str, name: str) -> Taxonomy:
    """Read a taxonomy.

    Raises:
        ConfigError: an unknown key, severity or remedy, or a kind whose cause is not declared.
    """
    try:
        file = _File.model_validate(yaml.safe_load(text))
    except (ValidationError, yaml.YAMLError) as error:
        raise ConfigError(f"{name}: {error}") from error
    for kind, meaning in file.kinds.items():
        if meaning.cause not in file.causes:
            raise ConfigError(f"{name}: kinds.{kind}.cause: {meaning.cause!r} is not in causes")
    for cause, fix in file.causes.items():
        if not fix.remedies:
            raise ConfigError(f"{name}: causes.{cause}.remedies: empty; write [none]")
    return Taxonomy(kinds=file.kinds, causes=file.causes)


@lru_cache(maxsize=1)
def taxonomy() -> Taxonomy:
    """The packaged taxonomy."""
    text = resources.files("configs").joinpath("taxonomy.yaml").read_text("utf-8")
    return parse_taxonomy(text, "taxonomy.yaml")
