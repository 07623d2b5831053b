"""Langfuse: its rows in every shape, its exports, and its API as a source of traces."""
