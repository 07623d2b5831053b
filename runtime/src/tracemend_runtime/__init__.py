"""Worker loop for agents that Tracemend probes."""
