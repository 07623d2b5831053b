"""Who changed what, and why: the lines of a harness file, and the story of a release."""
