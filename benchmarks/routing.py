"""Routing: is a finding worth an optimisation pass, and what does free text ask for?

    python -m benchmarks.routing [--json]

Reads the labelled cases of `routing_set.jsonl` (made by hand, each with the reason for its label)
and prints accuracy with its exact interval, the errors that matter most (work started that should
not have been, or an alarm dropped that should have been worked on), and tokens a decision. Rules
cost none. What a model would cost is counted with a scripted one that is sent the real prompt; how
well a model decides is not measured here.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from connectors.models.scripted import ScriptedAnswer, ScriptedModel
from contracts.findings import Change, Diagnosis, Finding, FindingId, Remedy, Severity, Signature
from contracts.json_types import Json
from nodes.insights.compare import rate_interval
from nodes.intent import by_model, by_words
from nodes.router import triage

SET: Final = Path(__file__).with_name("routing_set.jsonl")
NOW: Final = datetime(2026, 11, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One case: what was expected and what came."""

    name: str
    expected: str
    got: str
    why: str

    @property
    def right(self) -> bool:
        """Whether they are the same."""
        return self.expected == self.got


def finding_of(said: dict[str, Any], rank: int) -> Finding:
    """A finding as the set writes it in short."""
    units, total = int(said["units"]), int(said["total"])
    remedies = cast("tuple[Remedy, ...]", tuple(said["remedies"]))
    return Finding(
        id=FindingId(said["id"]), kind="tool_error",
        signature=Signature(f"tool_error:{said['id']}"), title=said["id"], units=units,
        units_total=total, rate=rate_interval(units, total), baseline_units=None,
        baseline_total=None, change=cast("Change", said["change"]), p_holm=None,
        severity=cast("Severity", said["severity"]),
        diagnosis=Diagnosis(
            cause="tool_failure", remedies=remedies, confidence=said["confidence"], summary="",
            falsifier="", parameters={},
        ),
        actionable=said["actionable"], why_not=None if said["actionable"] else "usual",
        exemplars=(), first_seen=NOW, last_seen=NOW, score=float(-rank),
    )  # fmt: skip


def triaged(case: dict[str, Any]) -> Decision:
    """The rule's word on one set of findings."""
    findings = [finding_of(said, rank) for rank, said in enumerate(case["findings"])]
    found = triage(findings, open_for=case.get("open_for"), asked=case.get("asked"))
    wanted = case["expect"]
    return Decision(
        name=case["case"], expected=f"{wanted['next']} {wanted['finding']}",
        got=f"{found.next} {found.finding}", why=case["why"],
    )  # fmt: skip


def worded(case: dict[str, Any]) -> Decision:
    """The keyword rules' word on one text."""
    got = by_words(case["text"]).intent
    return Decision(name=case["text"], expected=case["expect"], got=got, why=case["why"])


def wrong_ways(decisions: Sequence[Decision]) -> dict[str, int]:
    """Errors by what they cost: work nobody should do, and failures nobody looks at."""
    wrong = [(d.expected.split()[0], d.got.split()[0]) for d in decisions if not d.right]
    starts = ("evolution", "improve")
    return {
        "started": sum(got in starts and want not in starts for want, got in wrong),
        "dropped": sum(got == "end" and want != "end" for want, got in wrong),
        "other": sum(
            not (got in starts and want not in starts) and not (got == "end" and want != "end")
            for want, got in wrong
        ),
    }


async def model_tokens(texts: Sequence[dict[str, Any]]) -> float:
    """Tokens a decision that a model takes, with the real prompt and a short answer."""
    used = 0
    for case in texts:
        said = ScriptedAnswer(answer={"intent": case["expect"], "why": "it says so"})
        used += (await by_model(ScriptedModel([said]), "scripted", case["text"])).tokens
    return used / len(texts)


def measured(decisions: Sequence[Decision], tokens: float) -> dict[str, Json]:
    """Figures of one part."""
    right = sum(d.right for d in decisions)
    low, middle, high = rate_interval(right, len(decisions))
    return {
        "cases": len(decisions), "right": right, "accuracy": round(middle, 3),
        "interval": [round(low, 3), round(high, 3)], "wrong_way": dict(wrong_ways(decisions)),
        "tokens_a_decision": round(tokens, 1),
        "errors": [f"{d.name}: {d.got}, not {d.expected} ({d.why})"
                   for d in decisions if not d.right],
    }  # fmt: skip


def measure() -> dict[str, Json]:
    """The whole benchmark."""
    cases = [json.loads(line) for line in SET.read_text("utf-8").splitlines()]
    texts = [case for case in cases if "text" in case]
    return {
        "triage": measured([triaged(case) for case in cases if "case" in case], 0),
        "free text, by words": measured([worded(case) for case in texts], 0),
        "free text, tokens if a model is asked": round(asyncio.run(model_tokens(texts)), 1),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    figures = measure()
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    for part, found in figures.items():
        if not isinstance(found, dict):
            print(f"{part}: {found}")
            continue
        print(f"{part}: {found['right']} of {found['cases']} right ({found['accuracy']}, "
              f"95 % {found['interval']}), wrong way {found['wrong_way']}, "
              f"{found['tokens_a_decision']} tokens a decision")  # fmt: skip
        for error in cast("Sequence[str]", found["errors"]):
            print(f"  {error}")


if __name__ == "__main__":
    main()
