"""What a graph server passes to every node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The project a run works for: a slug looked up in the registry, never a path.

    None where a caller sends no context, such as on a resume: then it is the project that the
    thread was bound to by its first step.
    """

    project: str | None = None
