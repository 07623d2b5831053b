"""Cases of the findings of one analysis, kept apart from what is sealed and from what is shown."""

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from contracts.errors import ConfigError
from contracts.findings import FindingId
from contracts.gate import Case
from contracts.json_types import sha256_hex
from memory.cases import case_id
from memory.workspace import Workspace
from nodes.casebook import members, read_casebook
from nodes.insights.analyze import Analysis
from nodes.insights.targets import Apart, Targets, target_cases


def mined_targets(ws: Workspace, analysis: Analysis) -> Mapping[FindingId, Targets]:
    """Failing inputs of each actionable finding as cases, before anything is drafted.

    Which families become targets is drawn by the finding's id. In profile `strict` half of those
    left over are sealed, but none whose input stands in a run that an editor is told of.
    """
    known = (*_known(ws), *_shown(analysis))
    found: dict[FindingId, Targets] = {}
    for finding in analysis.findings:
        if not finding.actionable:
            continue
        evidence = analysis.evidence[finding.id]
        found[finding.id] = target_cases(
            finding, evidence.failing, evidence.passing,
            max_targets=ws.settings.gate.max_targets,
            seed=int(sha256_hex(finding.id.encode())[:8], 16),
            apart=Apart(known=known, seal_rest=ws.settings.gate.profile == "strict"),
        )  # fmt: skip
        known = (*known, *(replace(case, family="") for case in found[finding.id].cases))
    return found


def keep_targets(ws: Workspace, tx: Connection, finding_id: FindingId, found: Targets) -> None:
    """Store the cases, and enter those that are sealed into the manifest."""
    ws.ledger.knowledge.put_cases(tx, finding_id, found.cases)
    sealed = [case for case in found.cases if "sealed" in case.tags]
    ws.ledger.sealed.seal(tx, members(sealed))


def _known(ws: Workspace) -> tuple[Case, ...]:
    """The casebook; where a file of it cannot be used the plan says so, and an analysis goes on."""
    try:
        return read_casebook(ws).cases
    except ConfigError:
        return ()


def _shown(analysis: Analysis) -> tuple[Case, ...]:
    """Inputs of the runs that a model or a card may quote, as cases that train."""
    exemplars = {trace for finding in analysis.findings for trace, _ in finding.exemplars}
    requests = {
        case_id(sketch.request): sketch.request
        for evidence in analysis.evidence.values()
        for sketch in evidence.failing
        if sketch.trace_id in exemplars and sketch.request is not None
    }
    return tuple(
        Case(
            id=key, input=request, assertions=(), tags=frozenset({"training"}), family="",
            origin="shown",
        )
        for key, request in sorted(requests.items())
    )  # fmt: skip
