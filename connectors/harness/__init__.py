"""The agent's editable text, where it lives: read it exactly, change it exactly once."""
