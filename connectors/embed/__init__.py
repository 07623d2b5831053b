"""Texts to vectors, without a network."""
