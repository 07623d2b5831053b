"""One file a schema version, named by its number."""
