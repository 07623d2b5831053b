"""Cases: where they come from, what they are worth, how they travel, and how they are run."""
