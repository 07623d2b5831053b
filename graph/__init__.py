"""Assembly, and the ways in."""
