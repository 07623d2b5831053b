"""What the HTTP API says of a proposal's other drafts."""

from pydantic import BaseModel, Field

from contracts.proposals import Alternative, Risk


class AlternativeSummary(BaseModel):
    """Another draft of a proposal; its short diff is on the card."""

    label: str = Field(description="What `alternative` of an edit names.")
    author: str
    why: str
    falsifier: str
    evidence: list[str]
    risk: Risk
    risk_reasons: list[str]
    paths: list[str]
    lines_added: int
    lines_removed: int


def alternative_summary(one: Alternative) -> AlternativeSummary:
    """One alternative, without its texts."""
    draft = one.draft
    return AlternativeSummary(
        label=one.label, author=draft.author, why=draft.why, falsifier=draft.falsifier,
        evidence=list(draft.evidence), risk=one.risk, risk_reasons=list(one.risk_reasons),
        paths=[change.path for change in one.files], lines_added=one.lines_added,
        lines_removed=one.lines_removed,
    )  # fmt: skip
