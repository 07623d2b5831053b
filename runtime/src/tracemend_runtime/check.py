"""Ask one function of the operator's about one run: the other side of `python` assertions.

Run as a script, with the folder of `tracemend.yaml` as working directory. It reads one JSON object
on stdin, `{"function": "checks.refunds.queued", "args": {…}, "run": {…}}`, and prints one line,
`{"holds": true | false | null, "why": text | null}`. The function is called with the run as a
dictionary (`input`, `output`, `tools`, `seconds`, `usage`) and with `args` by name. It returns True
or False; an AssertionError is False. Anything else is null: nobody knows, which is never a pass.
"""

import contextlib
import importlib
import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

MAX_WHY = 300


def holds(
    function: str, run: Mapping[str, object], args: Mapping[str, object]
) -> dict[str, object]:
    """What the function says, as the line to print."""
    module, _, name = function.rpartition(".")
    try:
        called = getattr(importlib.import_module(module), name)
        said = called(run, **args)
    except AssertionError as error:
        return {"holds": False, "why": _short(str(error))}
    except BaseException:  # noqa: BLE001  also `sys.exit()` in a check answers nothing
        last = traceback.format_exc().strip().splitlines()[-1]
        return {"holds": None, "why": _short(last)}
    if isinstance(said, bool):
        return {"holds": said, "why": None}
    return {"holds": None, "why": f"returned {type(said).__name__}, not True or False"}


def _short(text: str) -> str:
    return " ".join(text.split())[:MAX_WHY]


def main() -> None:
    """Read the request, call the function, print the answer; whatever it prints goes to stderr."""
    request = json.loads(sys.stdin.buffer.read())
    # A script's own folder stands first, and would hide modules of the same name.
    sys.path[0] = str(Path.cwd())
    with contextlib.redirect_stdout(sys.stderr):
        answer = holds(request["function"], request["run"], request.get("args") or {})
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
