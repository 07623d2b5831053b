"""The loop as a graph: nodes in the order of execution, then edges. No logic."""

from langgraph.graph import END, START, StateGraph

from contracts.context import RunContext
from graph.state import LoopInput, LoopState
from nodes.answer import answer
from nodes.apply import after_apply, apply
from nodes.decide import after_decide, decide
from nodes.evolution.node import after_evolution, evolution
from nodes.gate.node import after_gate, gate
from nodes.handoff import handoff
from nodes.insights.node import after_insights, insights
from nodes.learn import learn
from nodes.plan import after_plan, plan
from nodes.review import review
from nodes.router import after_router, router
from nodes.watch import after_watch, watch

Builder = StateGraph[LoopState, RunContext, LoopInput, LoopState]


def build() -> Builder:
    """The uncompiled graph; a server compiles it with its own checkpointer."""
    builder: Builder = StateGraph(LoopState, context_schema=RunContext, input_schema=LoopInput)
    builder.add_node("router", router)
    builder.add_node("insights", insights)
    builder.add_node("answer", answer)
    builder.add_node("evolution", evolution)
    builder.add_node("plan", plan)
    builder.add_node("review", review)
    builder.add_node("decide", decide)
    builder.add_node("gate", gate)
    builder.add_node("apply", apply)
    builder.add_node("watch", watch)
    builder.add_node("handoff", handoff)
    builder.add_node("learn", learn)

    builder.add_edge(START, "router")
    builder.add_conditional_edges(
        "router", after_router, ["insights", "watch", "apply", "plan", END]
    )
    builder.add_conditional_edges(
        "insights", after_insights, ["answer", "evolution", "handoff", END]
    )
    builder.add_conditional_edges("evolution", after_evolution, ["plan", "handoff"])
    builder.add_conditional_edges("plan", after_plan, ["review", "learn"])
    builder.add_edge("review", "decide")
    builder.add_conditional_edges(
        "decide", after_decide, ["gate", "apply", "plan", "learn", "evolution", "review"]
    )
    builder.add_conditional_edges("gate", after_gate, ["gate", "apply", "plan", "learn"])
    builder.add_conditional_edges("apply", after_apply, ["learn", "evolution"])
    builder.add_conditional_edges("watch", after_watch, ["learn", "apply", "plan"])
    builder.add_edge("answer", END)
    builder.add_edge("handoff", END)
    builder.add_edge("learn", END)
    return builder
