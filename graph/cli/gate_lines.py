"""What `tracemend gate …` says to a person, line by line. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from connectors.review.clean import one_line
from connectors.review.gate_view import usd
from contracts.gate import GateReport
from contracts.json_types import Json
from memory.proposals import StoredProposal
from nodes.gate.checks import ANCHOR_EVERY, Anchor, BackToBack
from nodes.gate.planted import PlantedResult
from nodes.gate.selftest import SelfTest


def selftest_lines(found: SelfTest) -> Iterator[str]:
    """The dealt check."""
    if not found.gates:
        yield "no gate has stored results yet, so there is nothing to deal; --live runs the agent"
        return
    yield (
        f"{found.gates} gates, results dealt anew {found.deals} times: L1 held in {found.held} "
        f"({found.rate:.2%}, at least {found.lower:.2%}), its level allows {found.alpha:.2%}"
    )
    yield "the gate is sound" if found.off is None else f"the gate is off: {found.off}"


def live_lines(found: BackToBack) -> Iterator[str]:
    """The check that runs one revision twice."""
    for name, report in (("known cases", found.fixed), ("sealed cases", found.unharmed)):
        if report is not None:
            yield f"{name}: {report.verdict} ({report.reason}), {_took(report)}"
    yield (
        f"in {found.times} such checks {found.fixes_seen} saw a fix and {found.harms_seen} a harm "
        "that cannot be there"
    )
    yield from found.notes
    yield "the gate is sound" if found.off is None else f"the gate is off: {found.off}"


def planted_line(one: PlantedResult) -> str:
    """One planted edit."""
    right = "as expected" if one.ok else f"EXPECTED {one.expected}"
    took = f"{one.runs} of {one.planned_runs} planned runs, {usd(one.spent_usd)}"
    return f"{one_line(one.name, 60)}: {one.verdict} ({one_line(one.reason)}), {right}; {took}"


def anchor_lines(found: Anchor) -> Iterator[str]:
    """The distance to an older revision."""
    better, worse, cases = found.report.sealed
    yield (
        f"{found.now[:12]} against {found.revision[:12]}: {better} better, {worse} worse of "
        f"{cases} sealed cases"
    )
    if found.report.proven_margin < 1.0:
        yield f"a loss above {found.report.proven_margin:.1%} since then is excluded"
    else:
        yield "no loss since then can be excluded with these cases"
    said = "no harm since then is shown" if found.unharmed else "no harm since then is NOT shown"
    yield f"{said} at the margin of the plan"
    yield f"use {found.use} of the sealed set, {_took(found.report)}"


def anchor_due(accepts: int) -> str | None:
    """That the distance to an older revision should be looked at; None: not yet."""
    if accepts < ANCHOR_EVERY:
        return None
    return (
        f"{accepts} accepts since the last anchor, and each may hide a loss below its margin: "
        "`tracemend gate anchor REVISION`"
    )


def edit_json(stored: StoredProposal, report: GateReport) -> dict[str, Json]:
    """One decided edit of `gate edits`."""
    return {
        "proposal": stored.proposal.id, "revision": stored.proposal.revision,
        "verdict": report.verdict, "reason": report.reason, "state": stored.state,
        "e_value": report.e_value, "runs": report.runs, "planned_runs": report.planned_runs,
        "spent_usd": report.spent_usd,
    }  # fmt: skip


def edit_line(row: Mapping[str, Json], together: Sequence[str]) -> str:
    """One decided edit."""
    name = f"{row['proposal']} r{row['revision']}"
    e_value = row["e_value"]
    strength = f", e-value {e_value:.3g}" if isinstance(e_value, float) else ""
    stands = " (stands among all)" if name in together else ""
    said = f"{name}  {row['verdict']} ({one_line(str(row['reason']))})"
    return f"{said}, {row['runs']} of {row['planned_runs']} runs{strength}{stands}; {row['state']}"


def _took(report: GateReport) -> str:
    return f"{report.runs} of {report.planned_runs} planned runs, {usd(report.spent_usd)}"
