"""Graders outside our process: the operator's own functions."""
