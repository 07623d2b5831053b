"""A small project with case files and a real worker, for `tracemend cases`."""

import json
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from contracts.errors import TracemendError
from contracts.gate import Case, CaseTag
from graph.cli.main import app
from memory.cases import case_id
from memory.workspace import Workspace
from tests.run_worlds import PROJECT, make_project

WORKER = """
import json, os, sys
from pathlib import Path

def say(**message):
    print(json.dumps(message), flush=True)

say(op="ready", v=1, concurrency=2)
for line in sys.stdin:
    ask = json.loads(line)
    if ask["op"] == "stop":
        break
    asked = ask["input"]["message"]
    rules = (Path(ask["harness"]) / "instructions/main.md").read_text()
    usage = {"cost_usd": 0.01}
    if "crash" in asked:
        os._exit(3)
    if "raise" in asked:
        say(id=ask["id"], error="KeyError: <no street>", usage=usage)
    elif "lost" in asked:
        say(id=ask["id"], missing="the recorder was off", usage=usage)
    else:
        say(id=ask["id"], output=f"{rules.strip()}: {asked}", usage=usage)
"""
CASES = """\
# What we promised; ask Ann.
- id: c-parcel
  input: {message: "Where is my parcel?"}
  assert: [{contains: queued}]
- id: c-cancel    # the old complaint
  input: {message: "Cancel my order, please"}
  tags: [guard]
  assert:
    - contains: queued
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseWorld:
    """The project, and the commands on it."""

    ws: Workspace

    def run(self, *words: str, stdin: str | None = None) -> Ran:
        """A command as a person runs it; an error of ours is its line on stderr and its code."""
        done = CliRunner().invoke(app, ["cases", *words, "--project", PROJECT], input=stdin)
        error = done.exception
        if isinstance(error, TracemendError):
            line = f"tracemend: {error}\n"
            return Ran(code=error.exit_code, out=done.stdout, err=done.stderr + line)
        if error is not None and not isinstance(error, SystemExit):
            raise error
        return Ran(code=done.exit_code, out=done.stdout, err=done.stderr)

    def json(self, *words: str, code: int = 0) -> Any:
        """The document of a command."""
        done = self.run(*words, "--json")
        assert done.code == code, (done.out, done.err)
        return json.loads(done.out)

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        path = self.ws.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
        return path

    def text(self, name: str) -> str:
        """A file of the project, with its line ends."""
        return (self.ws.root / name).read_bytes().decode("utf-8")


@contextmanager
def case_world(root: Path, home: Path, cases: str = CASES, **sections: Any) -> Iterator[CaseWorld]:
    """A project whose worker answers with its instructions and the request.

    A request that holds `crash` kills the worker, `raise` is the agent's own error, `lost` cannot
    be observed; every run costs a cent.
    """
    (root / "cases").mkdir(parents=True)
    (root / "instructions").mkdir()
    (root / "instructions/main.md").write_text("queued\n")
    (root / "worker.py").write_text(textwrap.dedent(WORKER))
    (root / "cases/ours.yaml").write_text(cases, "utf-8", newline="")
    probe = {"kind": "worker", "command": [sys.executable, "worker.py"], "timeout_s": 20}
    patterns = ["cases/*.yaml", "cases/*.jsonl"]
    ws = make_project(home, root, probe=probe, cases=patterns, **sections)
    yield CaseWorld(ws=ws)
    ws.ledger.close()


def many(count: int, tag: str = "training") -> str:
    """So many cases of as many families."""
    words = ["parcel", "refund", "invoice", "address", "voucher", "gift", "label", "courier"]
    lines = []
    for number in range(count):
        first, second = words[number % 8], words[(number // 8) % 8]
        ask = f"{'abcdefghijklmnopqrstuvwxyz'[number % 26] * 9} {first} {second} {'x' * number}"
        lines.append(
            f'- input: {{message: "{ask}"}}\n  tags: [{tag}]\n  assert: [{{contains: queued}}]\n'
        )
    return "".join(lines)


REFUND = '{"message": "Refund order A-1042"}'
HIDDEN = "zebra crossing at midnight"
SEALED = f'- {{input: {{message: "{HIDDEN}"}}, tags: [sealed], assert: [{{contains: queued}}]}}\n'


def mined(name: str, *tags: CaseTag, origin: str = "trace:t-9") -> Case:
    """A case as it is mined from a trace."""
    text = {"message": f"{name} {name} {name}"}
    return Case(
        id=case_id(text), input=text, assertions=({"not_empty": True},), tags=frozenset(tags),
        family="", origin=origin,
    )  # fmt: skip
