"""Run one block of a gate and store it whole, with the use and the baseline run that it makes."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from contracts.gate import Block, Case, CaseId, GatePlan, Graded
from contracts.harness import HarnessSnapshot
from contracts.json_types import sha256_hex
from contracts.protocols import Probe
from memory.cases import fingerprint
from memory.workspace import Workspace
from nodes.gate.opening import sealed_members
from nodes.gate.run_one import run_one
from nodes.gate.schedule import BlockToRun

Arm = Literal["B", "C"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the blocks of one gate, or of one trial, have in common."""

    ws: Workspace
    key: str
    """Under which its blocks are stored: the proposal's hash, or the trial's own."""
    plan: GatePlan
    cases: Mapping[CaseId, Case]
    arms: Mapping[Arm, HarnessSnapshot]
    counted: bool = True
    """Its sealed runs are a use of the sealed set."""

    def drawn(self, block: BlockToRun) -> str:
        """The place of a block among those that may run at once: by seed, neither case nor arm."""
        text = f"{self.plan.seed}|order|{_place(block)}"
        return sha256_hex(text.encode("utf-8", "surrogatepass"))

    async def run(self, probe: Probe, block: BlockToRun) -> Block:
        """Run each arm of a block, one right after the other, and store the block whole.

        Raises:
            ProbeError: the agent cannot be started.
            ConfigError: a judge is asked for and its model cannot be opened.
        """
        runs: dict[Arm, Graded] = {}
        for arm in block.arms:
            runs[arm] = await run_one(
                self.ws, probe, self.cases[block.case], self.arms[arm], seed=block.seed,
                deadline_s=self.plan.deadline_s,
            )  # fmt: skip
        stored = Block(
            phase=block.phase, case=block.case, index=block.index, attempt=block.attempt,
            first=block.first, baseline=runs.get("B"), candidate=runs["C"],
        )  # fmt: skip
        await asyncio.to_thread(self._store, stored)
        return stored

    def _store(self, block: Block) -> None:
        """The block, the use that it makes of a sealed case, and its baseline run, or nothing."""
        ledger = self.ws.ledger

        def also(tx: Connection) -> None:
            if self.counted and block.phase == "sealed":
                member = next(m for m in sealed_members(self.plan) if m.case == block.case)
                ledger.sealed.used(tx, self.key, member)
            if block.baseline is not None:
                ledger.case_runs.add(
                    tx, "gate", fingerprint(self.cases[block.case]), self.arms["B"].revision,
                    block.baseline, key=f"{self.key}|{_place(block)}",
                )  # fmt: skip

        ledger.gate.put_block(self.key, block, also)


def _place(block: Block | BlockToRun) -> str:
    return f"{block.phase}|{block.case}|{block.index}|{block.attempt}"
