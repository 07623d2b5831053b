"""Where hand-offs are delivered."""
