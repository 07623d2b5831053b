"""The repository around the agent, read only: its source files, bounded."""
