"""Back into the operator's own tool: findings as marks on traces, gates as experiments."""
