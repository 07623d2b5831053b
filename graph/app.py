"""`graph`: the compiled loop for LangGraph servers, which bring their own checkpointer."""

from graph.build import build

RECURSION_LIMIT = 10_000
"""The gate loops to itself once a slice (a minute at most): this is days, not a bound on work."""

graph = build().compile(name="tracemend").with_config(recursion_limit=RECURSION_LIMIT)
