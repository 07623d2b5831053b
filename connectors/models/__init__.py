"""Chat models by name: optional everywhere, needed nowhere."""
