"""What a decision led to, as JSON, as lines and as an exit code."""

from contracts.json_types import Json
from graph.cli.session import decision_json, gate_json, release_json
from graph.outcomes import Outcome


def exit_code(outcome: Outcome) -> int:
    """The code of docs/cli.md for what a decision led to."""
    if outcome.changed:
        return 3
    if outcome.decision is not None and not outcome.first:
        return 4
    said_yes = outcome.decision is not None and outcome.decision.type == "approve"
    if said_yes and outcome.release is None and outcome.report is not None:
        return 5
    return 0


def outcome_json(schema: str, outcome: Outcome) -> dict[str, Json]:
    """The document of `approve` and `reject`."""
    changed: list[Json] = list(outcome.changed)
    return {
        "schema": schema, "proposal": outcome.proposal.id, "revision": outcome.proposal.revision,
        "hash": outcome.proposal.hash, "decision": decision_json(outcome.decision),
        "first": outcome.first, "state": outcome.state, "changed": changed,
        "gate": gate_json(outcome.report), "release": release_json(outcome.release),
    }  # fmt: skip


def outcome_lines(outcome: Outcome) -> list[str]:
    """The same for a person."""
    proposal, decision = outcome.proposal, outcome.decision
    which = f"{proposal.id} r{proposal.revision}"
    if outcome.changed and outcome.refused is not None:
        return [
            f"nothing was applied: {', '.join(outcome.changed)} changed since the proposal was "
            "made",
            f"{which} is made on the harness as it is now, but cannot be tested: "
            f"{outcome.refused}; raise gate.uses, then `tracemend improve --finding "
            f"{proposal.finding_id}`",
        ]
    if outcome.changed:
        return [
            f"nothing was applied: {', '.join(outcome.changed)} changed since the proposal was "
            "made",
            f"{which} ({outcome.state}) is made on the harness as it is now and waits for its "
            "own approval",
        ]
    if decision is None:
        return [f"{which} is {outcome.state}"]
    if not outcome.first:
        when = decision.at.strftime("%Y-%m-%d %H:%M UTC")
        return [
            f"already decided: {decision.type} by {decision.by} ({decision.via}) at {when}; "
            f"{which} is {outcome.state}"
        ]
    lines = [f"{which}: {decision.type} by {decision.by}; now {outcome.state}"]
    if decision.type == "edit" and outcome.state == "waiting":
        lines.append(f"its card waits for its own approval: tracemend card {proposal.id}")
    if decision.type == "approve" and outcome.state == "waiting":
        lines.append("a second, other person must approve as well before anything runs")
    if outcome.report is not None:
        report = outcome.report[0]
        said = "; overridden by a person" if decision.card == "override" else ""
        lines.append(f"gate: {report.verdict} ({report.reason}), {report.runs} runs{said}")
    if outcome.release is not None:
        lines.append(f"applied as {outcome.release.id}; undo: tracemend undo {outcome.release.id}")
    elif outcome.state == "inconclusive":
        lines.append(f"not applied; `tracemend approve {proposal.id}` again would override this")
    return lines
