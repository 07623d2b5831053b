"""Who calls: names, roles, and what each role may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["viewer", "reviewer", "operator", "admin"]
"""viewer reads · reviewer also decides · operator also starts and stops runs, but never decides ·
admin does all of it. A person who does both holds both roles."""

Permission = Literal["read", "decide", "run", "admin"]

ROLES: Mapping[Role, frozenset[Permission]] = {
    "viewer": frozenset({"read"}),
    "reviewer": frozenset({"read", "decide"}),
    "operator": frozenset({"read", "run"}),
    "admin": frozenset({"read", "decide", "run", "admin"}),
}
"""An operator's token sits in pipelines; it must not be able to approve what a pipeline started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller.

    Attributes:
        name: the person's (or the pipeline's) name; it stands in decisions and in the audit log.
        roles: what the caller may do.
        projects: slugs that the caller may see; None: all of the installation.
        token: id of the token, never its secret; None for a bearer of a foreign identity provider.
    """

    name: str
    roles: frozenset[Role]
    projects: frozenset[str] | None = None
    token: str | None = None

    def sees(self, project: str) -> bool:
        """Whether rows of this project may be shown at all."""
        return self.projects is None or project in self.projects

    def may(self, permission: Permission, project: str) -> bool:
        """Whether the caller may do this in this project."""
        return self.sees(project) and any(permission in ROLES[role] for role in self.roles)


SYSTEM_NAME = "tracemend"
"""Under which the clock's decisions stand; no person may have it."""


def is_name(name: str) -> bool:
    """Whether a decision may stand under this name: printable, and not the system's own."""
    text = name.strip()
    return 0 < len(text) <= 200 and text.isprintable() and text.lower() != SYSTEM_NAME
