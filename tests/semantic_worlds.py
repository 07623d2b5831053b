"""Lessons and findings in a ledger, as the tests of the memory use them."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from connectors.embed.hashed import HashEmbedder
from contracts.findings import Finding, FindingId, Signature
from contracts.gate import Lesson
from memory.ledger import Ledger, open_ledger
from memory.semantic import SemanticMemory
from tests.card_worlds import finding
from tests.ledger_worlds import NOW, lesson

REPOSITORY = Path(__file__).resolve().parents[1]
TOOLS = ("payment_api", "search_docs", "send_mail", "calendar", "warehouse", "crm_lookup")


def about(number: int, **changes: object) -> Lesson:
    """A lesson of one of six tools, each with words of its own."""
    tool = TOOLS[number % len(TOOLS)]
    made = replace(
        lesson(f"{number:05d}"), signature=f"tool_timeout:{tool}:504", cause="tool_timeout",
        edit=f"playbook:retry: skills/retry-{tool}/SKILL.md", finding_id=f"f-{tool}",
        reason=f"note {chr(97 + number % 26)}{chr(97 + number // 26 % 26)}",
        at=NOW + timedelta(minutes=number),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def seen(tool: str, code: str = "504", **changes: object) -> Finding:
    """A finding at a tool."""
    made = replace(
        finding(tool=tool),
        id=FindingId(f"f-{tool}"),
        title=f"{tool} does not answer in time",
        signature=Signature(f"tool_timeout:{tool}:{code}"),
    )
    diagnosis = replace(made.diagnosis, summary=f"{tool} is slow, and the agent gives up.")
    return replace(made, diagnosis=diagnosis, **changes)  # type: ignore[arg-type]


def learned(ledger: Ledger, count: int, start: int = 0) -> None:
    """Keep lessons without their vectors, as an older release did."""
    with ledger.db.write() as tx:
        for number in range(start, start + count):
            ledger.knowledge.put_lesson(tx, about(number))


def memory_of(ledger: Ledger, home: Path, *, index_from: int = 50) -> SemanticMemory:
    """The memory with the hash; an index is used from 50 vectors on."""
    return SemanticMemory(ledger, HashEmbedder(), home, index_from=index_from)


def other_process(code: str, *words: str, quiet: bool = False) -> subprocess.Popen[str]:
    """Python in a process of its own, which the caller ends; `quiet`: nobody reads what it says."""
    out = subprocess.DEVNULL if quiet else subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=REPOSITORY, stdout=out, stderr=out, text=True
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill it as a machine does, and take up what is left of it."""
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def opened(folder: Path) -> Ledger:
    """A ledger in a folder."""
    return open_ledger(folder / "ledger.sqlite", "refunds")
