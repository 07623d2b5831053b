"""How ready a project is to be improved: eight properties, each worked out from what is there."""
