"""`app`: our routes for a LangGraph server that mounts them (`http.app` of `langgraph.json`).

That server speaks the Agent Protocol and keeps the threads; hooks, approvals, health and metrics
are ours, with the same tokens. `foreign` in `server.yaml` names it, so that alerts become runs
there; without it our own dispatcher drives them on our own checkpointer.

The server's own routes are guarded by `auth` beside this. It is imported here since there is a
server (Aegra 0.11) that lets everybody in when it cannot import it: so it does not start at all.
"""

from graph.server.app import create_app
from graph.server.auth import auth

__all__ = ["app", "auth"]

app = create_app(embedded=False)
