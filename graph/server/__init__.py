"""The embedded server: Agent Protocol, hooks, approvals, auth, health."""
