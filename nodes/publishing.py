"""What is published of findings and gates. Never a step of a run: a person asks for it."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from configs.redaction import redact
from connectors.review.clean import one_line
from contracts.errors import UsageError
from contracts.findings import Finding
from contracts.gate import Block, Case, Graded
from contracts.json_types import Json
from contracts.proposals import Proposal
from contracts.publishing import Experiment, Mark, PublishedRun, published_id
from contracts.traces import OWN_SCORE
from memory.workspace import Workspace
from nodes.casebook import read_casebook

MAX_TITLE: Final = 160
_ARMS: Final = ("baseline", "candidate")


def marks_of(ws: Workspace, finding_id: str | None) -> list[Mark]:
    """One mark for each exemplar trace of a finding, or of all findings that are not closed.

    Raises:
        UsageError: there is no such finding.
    """
    if finding_id is not None:
        return marks(ws.project, ws.ledger.knowledge.finding(finding_id).finding)
    stored = ws.ledger.knowledge.findings()
    open_ones = [one.finding for one in stored if one.state != "closed"]
    return [mark for finding in open_ones for mark in marks(ws.project, finding)]


def marks(project: str, finding: Finding) -> list[Mark]:
    """The marks of one finding. A trace of two exemplars has one."""
    kind = re.sub(r"[^a-z0-9_]+", "_", finding.kind.casefold())
    title = one_line(redact(finding.title), MAX_TITLE)
    found: dict[str, Mark] = {}
    for trace, span in finding.exemplars:
        found.setdefault(trace, Mark(
            id=published_id(project, finding.id, trace), trace_id=trace, span_id=span,
            name=f"{OWN_SCORE}{kind}",
            text=f"{title} (finding {finding.id}, cause {finding.diagnosis.cause})",
        ))  # fmt: skip
    return list(found.values())


def experiments_of(ws: Workspace, proposal_id: str) -> list[Experiment]:
    """Both arms of the newest gate of a proposal, without its sealed cases.

    Raises:
        UsageError: there is no such proposal, or its gate has no verdict.
    """
    for stored in reversed(ws.ledger.proposals.revisions(proposal_id)):
        report = ws.ledger.gate.report(stored.proposal.hash)
        if report is not None:
            break
    else:
        raise UsageError(f"{proposal_id}: no gate of it has a verdict; see `tracemend gate show`")
    proposal = stored.proposal
    said = ws.ledger.proposals.decisions(proposal.id, proposal.revision, "approve")
    at = said[-1].at if said else proposal.created_at  # the gate begins with the yes
    cases = {str(case.id): case for case in read_casebook(ws).cases}
    blocks = [one for one in ws.ledger.gate.blocks(proposal.hash) if one.phase != "sealed"]
    about = {
        "tracemend.project": ws.project, "tracemend.proposal": proposal.id,
        "tracemend.revision": str(proposal.revision), "tracemend.finding": proposal.finding_id,
        "tracemend.verdict": report[0].verdict, "tracemend.report": report[1],
    }  # fmt: skip
    return [
        Experiment(
            id=published_id(proposal.hash, arm), at=at, runs=_runs(proposal, arm, blocks, cases),
            name=f"tracemend {proposal.id} r{proposal.revision} {arm}",
            about={**about, "tracemend.arm": arm},
        )
        for arm in _ARMS
    ]  # fmt: skip


def _runs(
    proposal: Proposal, arm: str, blocks: Sequence[Block], cases: Mapping[str, Case]
) -> tuple[PublishedRun, ...]:
    found = []
    for block in blocks:
        graded = block.baseline if arm == "baseline" else block.candidate
        case = cases.get(block.case)
        if graded is None or (case is not None and "sealed" in case.tags):
            continue
        place = f"{block.phase}:{block.case}:{block.index}:{block.attempt}"
        found.append(_run(published_id(proposal.hash, arm, place), block.case, case, graded))
    return tuple(found)


def _masked(value: Json) -> Json:
    """Every text in it without secrets and personal data; keys too."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {redact(key): _masked(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_masked(inner) for inner in value]
        case _:
            return value


def _run(run_id: str, name: str, case: Case | None, graded: Graded) -> PublishedRun:
    given: Json = None if case is None else _masked(case.input)
    return PublishedRun(
        id=run_id, case=name, input=given,
        passed=None if graded.result == "missing" else graded.result == "pass",
        failed=tuple(one_line(redact(one), MAX_TITLE) for one in graded.failed),
        seconds=graded.seconds, cost_usd=graded.cost_usd, input_tokens=graded.input_tokens,
        output_tokens=graded.output_tokens,
    )  # fmt: skip
