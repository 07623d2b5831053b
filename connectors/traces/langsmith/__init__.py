"""LangSmith: runs of either API generation, batch bodies and bulk exports as recorded spans."""
