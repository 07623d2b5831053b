"""From traces to findings: detect, group, compare, diagnose, and make cases of what failed."""
