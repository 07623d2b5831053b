"""Detectors of failures without a model: one a file, pure over a normalised trace."""
