"""The gate's checks of itself: dealt results, one revision twice, the distance to an anchor.

None of them decides about an edit. What they find is kept in the ledger; a self-test that failed
turns the gate off (`Conditions.self_test`) until a later one does not.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contracts.codec import from_json
from contracts.errors import UsageError
from contracts.gate import ClaimState, GatePlan, GateReport
from contracts.harness import HarnessSnapshot, Revision
from contracts.json_types import Json, JsonObject
from contracts.protocols import Probe
from memory.gate_checks import CheckKind, GateCheck
from memory.workspace import Workspace
from nodes.casebook import read_casebook
from nodes.gate.design import PlanRefused
from nodes.gate.selftest import SelfTest, Stored, check_rule, lower_bound, stored_of
from nodes.gate.sizes import level_of
from nodes.gate.trial import (
    Say,
    Sides,
    Sorts,
    Trial,
    design_trial,
    run_trial,
    silent,
    trial_key,
)
from nodes.ports import open_harness

NEWEST_GATES: Final = 50
"""Gates that results are dealt from; more would say the same of the rule, and take longer."""
HARM_LEVEL: Final = 0.05
ANCHOR_EVERY: Final = 5
"""Accepts after which the loss since the anchor is due: each may hide one below the margin."""


async def self_test(ws: Workspace) -> SelfTest:
    """Deal the stored target results of the project's gates anew, and keep what was found.

    Runs no agent. Sound also where no gate has run yet, with zero deals. It does not clear what
    `back_to_back` found: only a later run of that does.
    """
    return await asyncio.to_thread(_self_test, ws)


def _self_test(ws: Workspace) -> SelfTest:
    gates = _stored_gates(ws)
    found = check_rule(gates, seed=len(gates))
    last = ws.ledger.gate_checks.last("self_test")
    standing = _problem_of(last) if last is not None and _is_from_twice(last) else None
    problem = found.off or standing
    body: dict[str, Json] = {
        "source": "back_to_back" if found.off is None and standing else "dealt",
        "gates": found.gates, "deals": found.deals, "held": found.held, "rate": found.rate,
        "lower": found.lower, "level": found.alpha, "problem": problem,
    }  # fmt: skip
    _keep(ws, "self_test", ok=problem is None, body=body)
    return found


def _problem_of(check: GateCheck) -> str | None:
    said = check.body.get("problem")
    return None if check.ok or said is None else str(said)


def _is_from_twice(check: GateCheck) -> bool:
    return not check.ok and check.body.get("source") == "back_to_back"


def _stored_gates(ws: Workspace) -> list[Stored]:
    """Target results of the newest gates that have a verdict."""
    proposals = [
        stored.proposal
        for latest in ws.ledger.proposals.all_latest()
        for stored in ws.ledger.proposals.revisions(latest.proposal.id)
        if stored.proposal.plan
    ]
    found: list[Stored] = []
    for proposal in reversed(proposals):
        report = ws.ledger.gate.report(proposal.hash)
        if report is None or report[0].verdict == "invalid":
            continue
        blocks = ws.ledger.gate.blocks(proposal.hash)
        one = stored_of(from_json(GatePlan, proposal.plan), blocks)
        found += [one] if one is not None else []
        if len(found) == NEWEST_GATES:
            break
    return found


def _keep(ws: Workspace, kind: CheckKind, *, ok: bool, body: JsonObject, subject: str = "") -> None:
    with ws.ledger.db.write() as tx:
        ws.ledger.gate_checks.put(tx, kind, ok=ok, body=body, subject=subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackToBack:
    """What the gate said of one revision against itself, and how often it erred so far."""

    fixed: GateReport | None
    """L1 on cases that are not sealed; None: there is none."""
    unharmed: GateReport | None
    """L2 on the sealed cases, L1 not asked; None: there is none."""
    times: int
    """Runs of this check that count, this one included."""
    fixes_seen: int
    """Of them, how many held L1: of a revision against itself that is false."""
    harms_seen: int
    """Of them, how many showed harm, a guard's regression or a higher cost."""
    off: str | None
    """Why the gate is off; None: within what its levels allow."""
    notes: tuple[str, ...]


async def back_to_back(ws: Workspace, probe: Probe, say: Say = silent) -> BackToBack:
    """Run the harness as it is against itself, through the whole rule, and keep what was found.

    Its sealed runs are no use of the sealed set: they tell nothing about any edit. False claims
    are counted since the last self-test that failed; where their share is above the level, by the
    one-sided 95 % bound, the gate goes off. L2 that does not hold is no error: too few cases.

    Raises:
        UsageError: there is no case to run.
        ProbeError: the agent cannot be started.
    """
    now = await open_harness(ws).read()
    trials = await asyncio.to_thread(_twice, ws, now)
    if not trials:
        raise UsageError("cases: none to run; add some, or let `analyze` mine them")
    reports = {trial.plan.purpose: await run_trial(ws, probe, trial, say) for trial in trials}
    return await asyncio.to_thread(
        _judge_twice, ws, reports.get("fix"), reports.get("simplify"), trials
    )


def _twice(ws: Workspace, now: HarnessSnapshot) -> list[Trial]:
    book = read_casebook(ws)
    known, sides = (
        (*book.tagged("target"), *book.tagged("training")),
        Sides(base=now, candidate=now),
    )
    key = trial_key(ws, "back_to_back", "", sides)
    found = []
    if known:
        found.append(design_trial(ws, f"{key}:L1", sides, Sorts(targets=known)))
    if book.tagged("sealed"):
        sorts = Sorts(sealed=book.tagged("sealed"), guards=book.tagged("guard"))
        found.append(design_trial(ws, f"{key}:L2", sides, sorts, purpose="simplify"))
    return found


def _judge_twice(
    ws: Workspace,
    fixed: GateReport | None,
    unharmed: GateReport | None,
    trials: Sequence[Trial],
) -> BackToBack:
    held = fixed is not None and claim_state(fixed, "L1") == "held"
    harmful = unharmed is not None and unharmed.verdict == "reject"
    before = [check.body for check in _counted(ws)]
    fixes = held + sum(body.get("fixed") is True for body in before)
    harms = harmful + sum(body.get("harmful") is True for body in before)
    tested = (fixed is not None) + sum(body.get("fixed") is not None for body in before)
    looked = (unharmed is not None) + sum(body.get("harmful") is not None for body in before)
    level = level_of(uses=ws.settings.gate.uses, use=1)
    off = _too_often("L1", fixes, tested, level) or _too_often("harm", harms, looked, HARM_LEVEL)
    body: dict[str, Json] = {
        "source": "back_to_back", "fixed": None if fixed is None else held,
        "harmful": None if unharmed is None else harmful,
        "verdicts": [r.verdict for r in (fixed, unharmed) if r is not None],
        "unharmed": None if unharmed is None else claim_state(unharmed, "L2"),
        "margins": [trial.plan.margin for trial in trials if trial.plan.sealed],
        "runs": sum(r.runs for r in (fixed, unharmed) if r is not None), "problem": off,
    }  # fmt: skip
    _keep(ws, "back_to_back", ok=off is None, body=body)
    last = ws.ledger.gate_checks.last("self_test")
    if off is not None or (last is not None and _is_from_twice(last)):
        _keep(ws, "self_test", ok=off is None, body=body)
    return BackToBack(
        fixed=fixed, unharmed=unharmed, times=1 + len(before), fixes_seen=fixes, harms_seen=harms,
        off=off, notes=_twice_notes(fixed, unharmed, trials),
    )  # fmt: skip


def _counted(ws: Workspace) -> list[GateCheck]:
    """Earlier runs since the last self-test that failed: what was mended counts no more."""
    failed = [check.at for check in ws.ledger.gate_checks.listed("self_test") if not check.ok]
    since = max(failed, default="")
    return [check for check in ws.ledger.gate_checks.listed("back_to_back") if check.at > since]


def _too_often(what: str, seen: int, times: int, level: float) -> str | None:
    lower = lower_bound(seen, times)
    if not times or lower <= level:
        return None
    return (
        f"one revision against itself showed {what} in {seen} of {times} runs, which is above "
        f"{lower:.3g} at 95 % confidence; the level is {level:.3g} (only a clean run with --live "
        "clears this)"
    )


def _twice_notes(
    fixed: GateReport | None, unharmed: GateReport | None, trials: Sequence[Trial]
) -> tuple[str, ...]:
    notes = []
    if fixed is None:
        notes.append("L1 was not tested: there is no case that is not sealed.")
    if unharmed is None:
        notes.append("L2 was not tested: there is no sealed case.")
    elif claim_state(unharmed, "L2") != "held":
        plan = next(trial.plan for trial in trials if trial.plan.sealed)
        notes.append(
            f"L2 did not hold at margin {plan.margin:.2f} although nothing was changed: if that is "
            f"often so, {len(plan.sealed)} sealed cases are too few for this margin."
        )
    return tuple(notes)


def claim_state(report: GateReport, name: str) -> ClaimState:
    """The state of a claim of a report; "not_asked" where it has none of that name."""
    return next((claim.state for claim in report.claims if claim.name == name), "not_asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """How the harness of now does against an older one, on the sealed cases."""

    revision: Revision
    now: Revision
    report: GateReport
    use: int
    """Which use of the sealed set it was."""

    @property
    def unharmed(self) -> bool:
        """L2: a loss of the margin or more since the anchor is excluded."""
        return claim_state(self.report, "L2") == "held"


async def anchor(ws: Workspace, probe: Probe, revision: str, say: Say = silent) -> Anchor:
    """Test "no harm" of the harness as it is against an older revision. A report, no verdict.

    It tells something about every edit accepted since, so it spends a use of the sealed set.

    Args:
        ws: the project.
        probe: how the agent is run.
        revision: of a harness that was live once; its first characters are enough.
        say: told of progress.

    Raises:
        UsageError: no such revision was live, it is that of now, or no sealed case can be used.
        ProbeError: the agent cannot be started.
    """
    now = await open_harness(ws).read()
    trial, older = await asyncio.to_thread(_anchored, ws, now, revision)
    report = await run_trial(ws, probe, trial, say)
    found = Anchor(revision=older, now=now.revision, report=report, use=trial.plan.use)
    body: dict[str, Json] = {
        "anchor": older, "now": now.revision, "verdict": report.verdict, "reason": report.reason,
        "unharmed": claim_state(report, "L2"), "margin": trial.plan.margin,
        "proven_margin": report.proven_margin, "cases": report.sealed[2], "use": trial.plan.use,
        "epoch": ws.ledger.sealed.epoch(), "runs": report.runs,
    }  # fmt: skip
    await asyncio.to_thread(lambda: _keep(ws, "anchor", ok=found.unharmed, body=body))
    return found


def _anchored(ws: Workspace, now: HarnessSnapshot, revision: str) -> tuple[Trial, Revision]:
    older = _live_once(ws, revision)
    if older == now.revision:
        raise UsageError(f"revision {older[:12]} is the harness of now; name an older one")
    sides = Sides(base=ws.ledger.artifacts.snapshot(older), candidate=now)
    sorts = Sorts(sealed=read_casebook(ws).tagged("sealed"))
    key = trial_key(ws, "anchor", "", sides)
    try:
        return design_trial(ws, key, sides, sorts, purpose="simplify", counted=True), older
    except PlanRefused as refused:
        why = {
            "level spent": "every use of the sealed set is spent; seal new cases",
            "no sealed case": "there is no sealed case",
        }.get(refused.reason, refused.reason)
        raise UsageError(f"no anchor: {why}") from refused


def _live_once(ws: Workspace, revision: str) -> Revision:
    """The one revision that a proposal was drafted on, or that was applied, beginning so.

    Never one that was only drafted: nothing drafted runs before a person said yes to it.
    """
    live: set[Revision] = set()
    for latest in ws.ledger.proposals.all_latest():
        for stored in ws.ledger.proposals.revisions(latest.proposal.id):
            live.add(stored.proposal.base_revision)
            if ws.ledger.effects.release_of(stored.proposal.hash) is not None:
                live.add(stored.proposal.candidate_revision)
    found = sorted(one for one in live if revision and one.startswith(revision))
    if len(found) != 1:
        what = "several revisions begin so" if found else "no harness of this revision was live"
        raise UsageError(f"revision {revision!r}: {what}; `tracemend audit` lists what was applied")
    return found[0]


def accepts_since_anchor(ws: Workspace) -> int:
    """Accepted edits since the last anchor test; from `ANCHOR_EVERY` on another one is due."""
    last = ws.ledger.gate_checks.last("anchor")
    epoch = last.body.get("epoch") if last is not None else 1
    return ws.ledger.sealed.epoch() - (epoch if isinstance(epoch, int) else 1)
