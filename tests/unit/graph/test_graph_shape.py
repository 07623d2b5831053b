"""The graph is the picture: these nodes, these arrows, and packages that are ours."""

import importlib.util
from pathlib import Path

import pytest

from graph.app import RECURSION_LIMIT, graph
from graph.build import build
from graph.cli.checks import PACKAGES
from graph.state import LoopState

REPOSITORY = Path(__file__).resolve().parents[3]

ARROWS = {
    "__start__": {"router"},
    "router": {"insights", "watch", "apply", "plan", "__end__"},
    "insights": {"answer", "evolution", "handoff", "__end__"},
    "evolution": {"plan", "handoff"},
    "plan": {"review", "learn"},
    "review": {"decide"},
    "decide": {"gate", "apply", "plan", "learn", "evolution", "review"},
    "gate": {"gate", "apply", "plan", "learn"},
    "apply": {"learn", "evolution"},
    "watch": {"learn", "apply", "plan"},
    "answer": {"__end__"},
    "handoff": {"__end__"},
    "learn": {"__end__"},
}


def test_nodes_and_arrows_are_those_of_the_picture() -> None:
    drawn = build().compile().get_graph()
    arrows: dict[str, set[str]] = {}
    for edge in drawn.edges:
        arrows.setdefault(edge.source, set()).add(edge.target)
    assert arrows == ARROWS


def test_the_served_graph_has_no_checkpointer_and_room_for_a_long_gate() -> None:
    assert graph.checkpointer is None
    assert graph.config is not None
    assert graph.config["recursion_limit"] == RECURSION_LIMIT


def test_every_key_a_node_writes_is_in_the_state() -> None:
    for name, node in build().nodes.items():
        hints = node.runnable.afunc.__annotations__["return"]  # type: ignore[attr-defined]
        keys = set(hints.__annotations__) if hasattr(hints, "__annotations__") else set()
        assert keys, name
        assert keys <= set(LoopState.__annotations__) | {"request"}, name


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_ours(package: str) -> None:
    """A stranger's package of the same name would win silently."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).resolve().is_relative_to(REPOSITORY)
