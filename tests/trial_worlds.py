"""A project whose agent is a scripted probe, for trials of the gate: real ledger, files, cases."""

import hashlib
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from contracts.errors import ProbeError
from contracts.findings import FindingId
from contracts.harness import HarnessSnapshot, Observation, Usage
from contracts.json_types import Json, JsonObject
from contracts.proposals import Draft, Proposal, ProposalId
from memory.workspace import Workspace
from tests.run_worlds import make_project

PROMPT = "instructions/agent.md"
NOUNS = (
    "parcel knife lamp chair invoice refund label mirror kettle blanket "
    "ladder teapot garden printer ribbon saddle basket candle hammer violin"
)


class ScriptedProbe:
    """An agent that does what its prompt says, so that an edit's effect is known.

    `breaks: N` in the prompt: it fails on the inputs whose number ends so. `knows: hard`: it can
    do the hard ones. `flaky: N`: it fails on N of 100 runs, by the run's seed and the arm's text.
    """

    def __init__(self, *, dies_after: int | None = None) -> None:
        self.runs: list[tuple[str, str]] = []
        """(input, revision) of every run."""
        self._dies_after = dies_after

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Answer "done", or "cannot"."""
        del deadline_s
        if self._dies_after is not None and len(self.runs) >= self._dies_after:
            raise ProbeError("the worker is gone", backend="scripted", operation="run")
        text = str(case_input)
        self.runs.append((text, harness.revision))
        prompt = harness.files[PROMPT].data.decode()
        can = "hard" not in text or "knows: hard" in prompt
        broken = re.search(r"breaks: (\d)", prompt)
        if broken and re.search(rf"{broken.group(1)}\b", text):
            can = False
        flaky = re.search(r"flaky: (\d+)", prompt)
        if flaky and _percent(f"{text}|{seed}|{len(self.runs)}") < int(flaky.group(1)):
            can = not can
        return Observation(
            output="done" if can else "cannot", usage=Usage(cost_usd=0.001), seconds=0.001
        )


def _percent(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 100


def message(kind: str, number: int) -> str:
    """An input that is no near copy of any other."""
    nouns = NOUNS.split()
    one, two = nouns[number % len(nouns)], nouns[(number // len(nouns) + 7) % len(nouns)]
    filler = hashlib.sha256(f"{kind}{number}".encode()).hexdigest()
    words = " ".join(filler[i : i + 5] for i in range(0, 50, 5))
    return f"{kind} {one} {two} {words} {number}"


def trial_project(
    tmp_path: Path, *, sealed: int = 8, known: int = 3, prompt: str = "Be kind.\n", **gate: Any
) -> Workspace:
    """A project with `known` hard training cases and `sealed` easy sealed ones."""
    root = tmp_path / "agent"
    (root / "instructions").mkdir(parents=True)
    (root / PROMPT).write_text(prompt, "utf-8")
    cases: list[dict[str, Any]] = []
    for kind, count, tag in (("hard", known, "training"), ("easy", sealed, "sealed")):
        cases += [
            {
                "id": f"{kind}-{i}", "input": {"message": message(kind, i)}, "tags": [tag],
                "assert": [{"contains": "done"}],
            }
            for i in range(count)
        ]  # fmt: skip
    (root / "cases.yaml").write_text(yaml.safe_dump(cases), "utf-8")
    return make_project(
        tmp_path / "home", root, cases=["cases.yaml"], gate=gate,
        harness={"kind": "directory", "root": ".", "include": ["instructions/*.md"]},
        probe={"kind": "worker", "command": ["true"], "concurrency": 1},
    )  # fmt: skip


def plant(ws: Workspace, name: str, text: str, expect: str | None) -> None:
    """A planted edit that replaces the prompt."""
    folder = ws.root / "planted" / name
    (folder / "instructions").mkdir(parents=True)
    (folder / PROMPT).write_text(text, "utf-8")
    if expect is not None:
        (folder / "expect.txt").write_text(expect, "utf-8")


def proposed(
    ws: Workspace, base: HarnessSnapshot, candidate: HarnessSnapshot, plan: JsonObject | None = None
) -> Proposal:
    """A proposal in the ledger that waits for a decision, with both of its harnesses."""
    made = Proposal(
        id=ProposalId(f"p-{candidate.revision[:10]}"), revision=1, project=ws.project,
        thread="t-1", finding_id=FindingId("f-3qk7m2xza4"), base_revision=base.revision,
        candidate_revision=candidate.revision, files=(),
        draft=Draft(author="playbook:x", why="", falsifier="", operations=()),
        checks=(), risk="low", risk_reasons=(), lines_added=1, lines_removed=0,
        created_at=ws.ledger.db.clock(), plan=plan or {},
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.artifacts.put_snapshot(tx, base)
        ws.ledger.artifacts.put_snapshot(tx, candidate)
        ws.ledger.proposals.insert(tx, made, state="waiting")
    return made
