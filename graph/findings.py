"""What people say of findings: merge, split, rename, close, reopen, revoke.

Each is a choice in the ledger under a person's name, entered in one transaction with what it does
to the finding now; analyses from then on apply it (`nodes/insights/choices.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from configs.redaction import redact
from contracts.errors import UsageError
from contracts.findings import Finding
from contracts.json_types import Json
from contracts.people import is_name
from memory.choices import Choice, ChoiceKind
from memory.knowledge import FindingState, StoredFinding
from memory.workspace import Workspace
from nodes.decide import Person
from nodes.insights.choices import Choices, check_merge, choices_of

MAX_TITLE = 200
MAX_REASON = 500
_MARK = re.compile(r"~?([a-z2-7]{6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A choice that was entered, or stood already (`first` is False then)."""

    choice: Choice
    first: bool


def resolve(ws: Workspace, named: str) -> StoredFinding:
    """The finding of this id, or of this signature.

    Raises:
        UsageError: there is none.
    """
    known = ws.ledger.knowledge.findings()
    for stored in known:
        if named in (stored.finding.id, stored.finding.signature):
            return stored
    raise UsageError(
        f"{named}: no finding of this id or signature in project {ws.project!r}; "
        "`tracemend findings` lists them"
    )


def standing(ws: Workspace) -> Choices:
    """Everything that stands, as analyses apply it."""
    return choices_of(ws.ledger.choices.listed())


def merge(ws: Workspace, named: str, into: str, person: Person) -> Said:
    """Put one finding into another one, from now on, and what is like it after it.

    Raises:
        UsageError: no such finding, they would go round in a circle, or a proposal of the first
            waits.
    """
    one, other = resolve(ws, named).finding, resolve(ws, into).finding
    check_merge(one.signature, other.signature, standing(ws))
    _refuse_open(ws, one, "merged")
    body = {"into": other.signature, "template": _template(ws, one)}
    return _say(ws, "merge", one, body, person, state="closed")


def split(ws: Workspace, named: str, person: Person, *, wording: str | None = None) -> Said:
    """Take a finding (or one wording of it) out of the one that it was put into.

    Args:
        ws: the project.
        named: the finding or signature that was merged away; with `wording` the finding it is in.
        person: who says so.
        wording: the mark of a message, as `show` prints it: it becomes a finding of its own.

    Raises:
        UsageError: it is in no other finding, or has no such wording.
    """
    if wording is not None:
        stored = resolve(ws, named).finding
        mark = _MARK.fullmatch(wording)
        if mark is None:
            raise UsageError(f"--wording {wording!r}: needs six letters and digits, as in `show`")
        signature = f"{stored.signature.partition('~')[0]}~{mark[1]}"
        if signature == stored.signature:
            raise UsageError(f"{named} is made of this wording already")
        return _say_of(ws, "split", signature, {"from": stored.signature}, person)
    signature, held_by = _merged_away(ws, named)
    said = _say_of(ws, "split", signature, {"from": held_by}, person)
    _reopen_merged(ws, signature)
    return said


def rename(ws: Workspace, named: str, title: str, person: Person) -> Said:
    """Give a finding a title of your own.

    Raises:
        UsageError: no such finding, or no such title.
    """
    stored = resolve(ws, named).finding
    return _say(ws, "rename", stored, {"title": line_of("title", title, MAX_TITLE)}, person)


def close(ws: Workspace, named: str, reason: str, person: Person) -> Said:
    """Leave a finding alone until its rate is above what it is now.

    Raises:
        UsageError: no such finding, no reason, or a proposal of it waits.
    """
    stored = resolve(ws, named)
    _refuse_open(ws, stored.finding, "closed")
    body: dict[str, Json] = {"reason": line_of("reason", reason, MAX_REASON), **_counts(stored)}
    return _say(ws, "close", stored.finding, body, person, state="closed")


def reopen(ws: Workspace, named: str, person: Person, reason: str = "by hand") -> Said:
    """Take a closed finding up again.

    Raises:
        UsageError: no such finding, or it is not closed.
    """
    stored = resolve(ws, named)
    if stored.state != "closed":
        raise UsageError(f"{named} is {stored.state}, not closed; there is nothing to reopen")
    taken = standing(ws).merged.get(stored.finding.signature)
    if taken is not None:
        raise UsageError(
            f"{named} was put into {taken.into} by {taken.by}; `tracemend findings split "
            f"{stored.finding.id}` takes it out"
        )
    body: dict[str, Json] = {"reason": line_of("reason", reason, MAX_REASON), **_counts(stored)}
    return _say(ws, "reopen", stored.finding, body, person, state="reopened")


def revoke(ws: Workspace, choice: str, person: Person) -> Choice:
    """Take a choice back; what it did to its finding is taken back as well.

    Raises:
        UsageError: no such choice stands.
    """
    found = next((one for one in ws.ledger.choices.listed() if one.id == choice), None)
    if found is None:
        raise UsageError(
            f"{choice}: no such choice stands; `tracemend findings choices` lists them"
        )
    with ws.ledger.db.write() as tx:
        ws.ledger.choices.revoke(tx, choice, by=name_of(person))
    if found.kind in ("merge", "close"):
        _reopen_merged(ws, found.signature)
    return found


def title_of(finding: Finding, choices: Choices) -> str:
    """The title that a person gave, else the finding's own."""
    return choices.title(finding.signature) or finding.title


def _merged_away(ws: Workspace, named: str) -> tuple[str, str]:
    """Signature, and the signature of the finding that holds it now."""
    known = ws.ledger.knowledge.findings()
    signature = next((s.finding.signature for s in known if s.finding.id == named), named)
    taken = standing(ws).merged.get(signature)
    if taken is not None:
        return signature, taken.into
    for stored in known:
        if any(one.signature == signature for one in stored.finding.merged):
            return signature, stored.finding.signature
    raise UsageError(
        f"{named} is in no other finding; to take one wording out of a finding, "
        "`tracemend findings split ID --wording MARK`"
    )


def _reopen_merged(ws: Workspace, signature: str) -> None:
    """A finding that no choice keeps closed any more is open again."""
    choices = standing(ws)
    if signature in choices.merged or signature in choices.closed:
        return
    for stored in ws.ledger.knowledge.findings():
        if stored.finding.signature == signature and stored.state == "closed":
            with ws.ledger.db.write() as tx:
                why: Mapping[str, Json] = {"why": "choice_taken_back"}
                ws.ledger.knowledge.set_finding(tx, stored.finding.id, "reopened", why=why)


def _refuse_open(ws: Workspace, finding: Finding, what: str) -> None:
    waiting = ws.ledger.proposals.open()
    if waiting is not None and waiting.proposal.finding_id == finding.id:
        raise UsageError(
            f"{finding.id} cannot be {what} while proposal {waiting.proposal.id} is "
            f"{waiting.state}; decide on it first"
        )


def _say(
    ws: Workspace,
    kind: ChoiceKind,
    finding: Finding,
    body: Mapping[str, Json],
    person: Person,
    *,
    state: FindingState | None = None,
) -> Said:
    """Enter a choice of a known finding and move the finding, in one transaction."""
    before = {one.id for one in ws.ledger.choices.listed()}
    with ws.ledger.db.write() as tx:
        choice = ws.ledger.choices.put(tx, kind, finding.signature, body, by=name_of(person))
        if choice.id not in before and state is not None:
            moved: Mapping[str, Json] = {"why": kind, "by": choice.by, "choice": choice.id}
            ws.ledger.knowledge.set_finding(tx, finding.id, state, why=moved)
    return Said(choice=choice, first=choice.id not in before)


def _say_of(
    ws: Workspace, kind: ChoiceKind, signature: str, body: Mapping[str, Json], person: Person
) -> Said:
    """The same of a signature that may be no finding of its own yet."""
    before = {one.id for one in ws.ledger.choices.listed()}
    with ws.ledger.db.write() as tx:
        choice = ws.ledger.choices.put(tx, kind, signature, body, by=name_of(person))
    return Said(choice=choice, first=choice.id not in before)


def _counts(stored: StoredFinding) -> dict[str, Json]:
    """How often it is seen now: not at all, where the latest analysis did not see it."""
    units = stored.finding.units if stored.unseen_at is None else 0
    return {"units": units, "units_total": stored.finding.units_total}


def _template(ws: Workspace, finding: Finding) -> str:
    """The message that the finding's spans carry, without numbers and names; empty: not known."""
    templates = ws.ledger.knowledge.evidence(finding.id).get("templates")
    first = templates[0] if isinstance(templates, list) and templates else None
    return first if isinstance(first, str) else ""


def name_of(person: Person) -> str:
    """Under which name a choice stands.

    Raises:
        UsageError: no person may have it.
    """
    if person.name is None or not is_name(person.name):
        raise UsageError("--as: needs 1 to 200 printable characters, and not `tracemend`")
    return person.name.strip()


def line_of(what: str, text: str, limit: int) -> str:
    """A person's words as one printable line, secrets masked.

    Raises:
        UsageError: there are none, or too many.
    """
    flat = " ".join(redact(text).split())
    if not flat or len(flat) > limit or not flat.isprintable():
        raise UsageError(f"--{what}: needs 1 to {limit} printable characters")
    return flat
