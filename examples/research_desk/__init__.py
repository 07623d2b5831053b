"""Three agents that answer a reader's question from a small library: a second world of faults."""
