"""What the ledger keeps beside a finding for a person: its wordings, and what it spoiled."""

from contracts.codec import to_json
from contracts.findings import Finding
from contracts.json_types import Json
from nodes.insights.analyze import Analysis
from nodes.insights.blast import Reach, sentence_of
from nodes.insights.signature import template_hash
from nodes.insights.steered import KEY, kept_steering

WORDINGS = 8
REACHES = 3


def kept_of(finding: Finding, analysis: Analysis) -> dict[str, Json]:
    """Messages of its symptoms, the reach of its worst exemplars, and what steered its runs.

    A wording's mark is what `tracemend findings split --wording` takes.
    """
    counts: dict[str, int] = {}
    for symptom in analysis.symptoms:
        if symptom.signature == finding.signature and symptom.counts and symptom.template:
            counts[symptom.template] = counts.get(symptom.template, 0) + 1
    templates = sorted(counts, key=lambda t: (-counts[t], t))[:WORDINGS]
    wordings: list[Json] = [
        {"mark": template_hash(template), "template": template, "kept": counts[template]}
        for template in templates
    ]
    return {
        "templates": [*templates],
        "wordings": wordings,
        "reach": [
            {**to_json(reach), "share": reach.share, "sentence": sentence_of(reach)}
            for reach in reaches(finding, analysis)
        ],
        KEY: kept_steering(
            finding.signature, analysis.evidence[finding.id].failing, analysis.passing
        ),
    }


def reaches(finding: Finding, analysis: Analysis) -> list[Reach]:
    """What the exemplars spoiled, the widest first; at most `REACHES`."""
    places = set(finding.exemplars)
    held = [
        reach
        for sketch in analysis.evidence[finding.id].failing
        for reach in sketch.reach
        if (sketch.trace_id, reach.span_id) in places
    ]
    return sorted(held, key=lambda r: (-r.share, r.trace_id, r.span_id))[:REACHES]
