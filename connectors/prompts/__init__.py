"""Managed prompts as text that a person can read and an edit can anchor in."""
