"""An analysis as the document that `tracemend analyze --json` prints."""

from datetime import datetime

from contracts.findings import Finding, Symptom
from contracts.json_types import Json
from contracts.traces import ReadReport
from memory.budget import ANALYSIS_TOKENS
from nodes.insights.analyze import Analysis, Window


def analysis_json(
    analysis: Analysis, *, model_tokens: int = 0, token_limit: int = ANALYSIS_TOKENS
) -> dict[str, Json]:
    """The document; every key is always there."""
    return {
        "schema": "tracemend.analyze/1",
        "project": analysis.project,
        "read": read_json(analysis.read),
        "window": _window(analysis.window),
        "baseline": _window(analysis.baseline) if analysis.baseline else None,
        "unit": analysis.unit,
        "symptoms": [_symptom(symptom) for symptom in analysis.symptoms],
        "findings": [finding_json(finding) for finding in analysis.findings],
        "counted": _counted(analysis),
        "budget": {"model_tokens": model_tokens, "limit": token_limit},
    }


def _counted(analysis: Analysis) -> dict[str, Json]:
    """What the counts leave out: units beyond a sample, signatures put together."""
    rest = analysis.rest
    return {
        "one_in": analysis.one_in,
        "various_signatures": rest.signatures if rest else 0,
        "various_units": rest.units if rest else 0,
    }


def _time(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


def _window(window: Window) -> dict[str, Json]:
    return {"start": _time(window.start), "end": _time(window.end)}


def read_json(read: ReadReport) -> dict[str, Json]:
    """What one read saw, as it stands in documents."""
    return {
        "traces": read.traces,
        "spans": read.spans,
        "orphans": read.orphans,
        "duplicates": read.duplicates,
        "truncated": read.truncated,
        "excluded_own": read.excluded_own,
        "pending": read.pending,
        "skipped": [{"path": one.path, "why": one.why} for one in read.skipped],
        "status": read.status,
        "source": read.source,
        "format": read.format,
        "why": read.why,
        "marks": dict(read.marks),
        "requests": read.requests,
    }


def _symptom(symptom: Symptom) -> dict[str, Json]:
    evidence = symptom.evidence
    return {
        "trace_id": symptom.trace_id,
        "span_id": symptom.span_id,
        "kind": symptom.kind,
        "signature": symptom.signature,
        "severity": symptom.severity,
        "detector": symptom.detector,
        "evidence": {"field": evidence.field, "quote": evidence.quote, "start": evidence.start},
        "recovered": symptom.recovered,
        "counted": symptom.counted,
        "confidence": symptom.confidence,
        "shown_at": symptom.shown_at,
        "by": symptom.by,
    }


def finding_json(finding: Finding) -> dict[str, Json]:
    """One finding as it stands in documents."""
    diagnosis = finding.diagnosis
    return {
        "id": finding.id,
        "kind": finding.kind,
        "signature": finding.signature,
        "title": finding.title,
        "units": finding.units,
        "units_total": finding.units_total,
        "rate": list(finding.rate),
        "change": finding.change,
        "p_holm": finding.p_holm,
        "severity": finding.severity,
        "cause": diagnosis.cause,
        "remedy": finding.remedy,
        "confidence": diagnosis.confidence,
        "agreement": diagnosis.agreement,
        "actionable": finding.actionable,
        "why_not": finding.why_not,
        "exemplars": [{"trace_id": trace, "span_id": span} for trace, span in finding.exemplars],
        "first_seen": _time(finding.first_seen),
        "last_seen": _time(finding.last_seen),
        "cause_summary": diagnosis.summary,
        "falsifier": diagnosis.falsifier,
        "reasons": list(finding.reasons),
        "contrasts": [
            {
                "factor": one.factor,
                "value": one.value,
                "failing": list(one.failing),
                "passing": list(one.passing),
                "p_holm": one.p_holm,
                "sentence": one.sentence,
            }
            for one in finding.contrasts
        ],
        "merged": [
            {"signature": one.signature, "units": one.units, "by": one.by, "why": one.why}
            for one in finding.merged
        ],
    }
