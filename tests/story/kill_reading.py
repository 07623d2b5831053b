"""As `kill_at.py`, in a process that keeps the standing of its reads after every batch.

    python kill_reading.py before|after module:Class.function N -- words of the command

A real one keeps it every quarter of a minute, which is too long for a story.
"""

import nodes.insights.analyze
from tests.story.kill_at import main

if __name__ == "__main__":
    nodes.insights.analyze.SAVE_EVERY_S = 0.0
    main()
