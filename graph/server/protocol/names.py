"""Names of the protocol: one graph, one assistant a project."""

from uuid import NAMESPACE_URL, UUID, uuid5

from graph.server.problems import Problem

GRAPH = "tracemend"
"""The graph's id, as in `langgraph.json`."""


def assistant_id(project: str) -> UUID:
    """The assistant of a project: the same on every server and after every restart."""
    return uuid5(NAMESPACE_URL, f"tracemend|assistant|{project}")


def uuid_of(text: str, what: str) -> str:
    """The id in its one spelling.

    Raises:
        Problem: 422, it is no UUID.
    """
    try:
        return str(UUID(text))
    except ValueError:
        raise Problem(422, f"{what}: needs a UUID") from None
