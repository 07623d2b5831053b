"""Run the operator's agent on an input with a given harness, and observe."""
