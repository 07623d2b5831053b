"""What a graph server passes to every node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The project a run works for: a slug looked up in the registry, never a path."""

    project: str
