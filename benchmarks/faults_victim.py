"""Run Aegra in a process that kills itself at one point, as `tests/story/kill_at.py` does for ours.

python faults_victim.py before|after module:Class.function N -- PORT
"""

import os
import sys


def main() -> None:
    """Wrap the function, then serve."""
    import uvicorn  # noqa: PLC0415  # of Aegra's environment

    from tests.story.kill_at import wrap  # noqa: PLC0415

    os.chdir(os.environ["AEGRA_CWD"])
    words = sys.argv[1:]
    if words[0] != "--":
        wrap(words[0], words[1], int(words[2]))
    uvicorn.run("aegra_api.main:app", host="127.0.0.1", port=int(words[-1]))


if __name__ == "__main__":
    main()
