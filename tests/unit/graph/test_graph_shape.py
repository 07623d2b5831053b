"""The graph is the picture: these nodes, these arrows, and packages that are ours."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import get_type_hints

import pytest

from graph.app import RECURSION_LIMIT, graph
from graph.build import build
from graph.cli.checks import PACKAGES
from graph.state import LoopState
from nodes.answer import answer
from nodes.apply import apply
from nodes.decide import decide
from nodes.evolution.node import evolution
from nodes.gate.node import gate
from nodes.handoff import handoff
from nodes.insights.node import insights
from nodes.learn import learn
from nodes.plan import plan
from nodes.review import review
from nodes.router import router
from nodes.watch import watch

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


NODES: dict[str, Callable[..., object]] = {
    "router": router, "insights": insights, "answer": answer, "evolution": evolution,
    "plan": plan, "review": review, "decide": decide, "gate": gate, "apply": apply,
    "watch": watch, "handoff": handoff, "learn": learn,
}  # fmt: skip


def test_these_are_all_nodes() -> None:
    assert set(build().nodes) == set(NODES)


@pytest.mark.parametrize("name", NODES)
def test_every_key_a_node_reads_or_writes_is_in_the_state(name: str) -> None:
    hints = get_type_hints(NODES[name])
    for declared in (hints["state"], hints["return"]):
        keys = set(get_type_hints(declared))
        assert keys, declared
        assert keys <= set(get_type_hints(LoopState)), declared


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_ours(package: str) -> None:
    """A stranger's package of the same name would win silently."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).resolve().is_relative_to(REPOSITORY)
