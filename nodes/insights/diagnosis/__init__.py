"""Rules of diagnosis: each says a cause, where a fix belongs, and what would refute it."""
