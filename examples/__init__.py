"""Agents to try Tracemend on."""
