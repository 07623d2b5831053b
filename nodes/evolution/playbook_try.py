"""Try playbooks without writing anything: on a made finding, or on one that was found. Pure."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from configs.playbooks import EVIDENCE, Playbook
from configs.taxonomy import taxonomy
from connectors.review.clean import safe
from connectors.review.diff import unified
from contracts.errors import ConfigError
from contracts.findings import TEXT_REMEDIES, Diagnosis, Finding, FindingId, Remedy, Signature
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from contracts.proposals import Draft
from nodes.evolution.edits import apply_operations
from nodes.evolution.items_found import KnownText
from nodes.evolution.playbook import Fitted, applicable, fitted
from nodes.evolution.policy import check, refused
from nodes.evolution.provenance import provenanced

MADE: Final[Mapping[str, tuple[Json, ...]]] = {
    "tool": ("stock_api",),
    "status": ("504", "ReadTimeout", "404", "429", "exit127"),
    "argument": ("part_id",),
    "good_example": ("P-2207",),
    "bad_example": ("part",),
    "shape": ("A-9999",),
    "words": ("express/standard/pickup",),
    "prerequisite": ("check_login",),
    "before": ("find_part",),
    "usual": ("find_part",),
    "closing": ("book_part",),
    "steps": (9,),
    "agents": ("sales-stock",),
    "agent": ("stock_desk",),
    "place": ("stock_desk",),
    "field": ("state",),
    "value": ("closed",),
    "setting": ("STOCK_REGION",),
    "nearest": ("stock_api_v2",),
    "calls": (5,),
    "transfers": (4,),
    "line": (12,),
    "already": ("line-12",),
    "bytes": (900_000,),
    "tokens": (220_000,),
    "tokens_before": (90_000,),
    "tokens_after": (4_000,),
    "window": (128_000,),
    "asked": (140_000,),
    "gap_ms": (40,),
    "row_ms": (160,),
    "step": ("summarise",),
}
"""Parameters that diagnoses give, each with values for a made finding."""
PLAIN: Final = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(
            data=b"# Desk\n\nYou help with parts.\n\n## Tools\n\n- Look a part up first.\n"
        )
    }
)
"""A harness to try a playbook on where no project is near."""
PLAIN_INCLUDE: Final = ("instructions/*.md", "skills/**")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What playbooks are tried on."""

    snapshot: HarnessSnapshot = PLAIN
    include: tuple[str, ...] = PLAIN_INCLUDE
    invariants: tuple[str, ...] = ()
    known: tuple[KnownText, ...] = ()
    provenance: bool = True
    """Whether items carry a comment (`drafting.provenance`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What one playbook came to: a draft with its diff, or the reason that there is none."""

    playbook: str
    draft: Draft | None
    diff: tuple[str, ...]
    """Cleaned for a terminal."""
    problem: str | None
    """Why it is not offered; None: it is."""


def made_finding(book: Playbook) -> Finding:
    """A finding that the playbook is for, with made values.

    Raises:
        ConfigError: the cause or a parameter is unknown, text is no remedy of the cause, or no
            made value matches a pattern of `where`.
    """
    causes = taxonomy().causes
    cause = causes.get(book.when.cause)
    if cause is None:
        raise ConfigError(f"when.cause: {_unknown(book.when.cause, causes)}")
    wanted = {
        source.removeprefix(EVIDENCE)
        for source in book.needs.values()
        if isinstance(source, str) and source.startswith(EVIDENCE)
    }
    facts: dict[str, Json] = {}
    for name in sorted(wanted | set(book.where)):
        if name not in MADE:
            where = "needs" if name in wanted else "where"
            raise ConfigError(f"{where}: evidence.{name}: {_unknown(name, MADE)}")
        form = book.where.get(name, r"[\s\S]*")
        fitting = [v for v in MADE[name] if re.fullmatch(form, str(v))]
        if not fitting:
            raise ConfigError(
                f"where.{name}: no made value matches {form!r}; use `tracemend playbooks try "
                "FINDING` with a finding of your own"
            )
        facts[name] = fitting[0]
    return _finding(book, _remedies(book, cause.remedies), facts)


def try_playbook(book: Playbook, finding: Finding, ground: Ground) -> Tried:
    """The playbook on a finding: merged and checked as a draft would be."""
    fits = fitted(book, finding, ground.snapshot, include=ground.include, known=ground.known)
    return _tried(book, finding, fits, ground)


def try_all(
    books: Sequence[Playbook], finding: Finding, ground: Ground, *, main: str | None = None
) -> tuple[Tried, ...]:
    """Every playbook for the finding's cause; those that are offered first."""
    found = applicable(
        books, finding, ground.snapshot, include=ground.include, main=main, known=ground.known
    )
    tried = [_tried(book, finding, fits, ground) for book, fits in found]
    return tuple(sorted(tried, key=lambda one: one.problem is not None))


def _tried(book: Playbook, finding: Finding, fits: Fitted | str, ground: Ground) -> Tried:
    if isinstance(fits, str):
        return Tried(playbook=book.id, draft=None, diff=(), problem=fits)
    before, made = ground.snapshot, fits.draft
    if ground.provenance:
        marked = provenanced(
            before, made.operations, signature=finding.signature, finding=finding.id
        )
        made = replace(made, operations=marked)
    after = apply_operations(before, made.operations)
    checks = check(before, after, made, include=ground.include, invariants=ground.invariants)
    lines = [
        safe(line)
        for path in before.changed(after)
        for line in unified(path, _data(before, path), _data(after, path), fold=None).lines
    ]
    return Tried(playbook=book.id, draft=made, diff=tuple(lines), problem=refused(checks))


def _data(snapshot: HarnessSnapshot, path: str) -> bytes | None:
    file = snapshot.files.get(path)
    return None if file is None else file.data


def _remedies(book: Playbook, known: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Remedies of the cause; some diagnoses of a cause add text, so the playbook's own count."""
    if TEXT_REMEDIES.intersection(known):
        served = set(book.when.remedy).intersection(known)
        if not served:
            text = " and ".join(r for r in known if r in TEXT_REMEDIES)
            raise ConfigError(f"when.remedy: a fix of {book.when.cause} belongs into {text}")
        return tuple(known)
    return (*known, *book.when.remedy)


def _finding(book: Playbook, remedies: tuple[Remedy, ...], facts: Mapping[str, Json]) -> Finding:
    place = str(facts.get("tool", "desk"))
    return Finding(
        id=FindingId("f-madetotryx"), kind="made", signature=Signature(f"made:{place}"),
        title="a made finding", units=5, units_total=50, rate=(0.03, 0.1, 0.22),
        baseline_units=None, baseline_total=None, change="unknown", p_holm=None,
        severity="medium", actionable=True, why_not=None, exemplars=(), first_seen=None,
        last_seen=None, score=1.0,
        diagnosis=Diagnosis(
            cause=book.when.cause, remedies=remedies, confidence=0.8, summary="made",
            falsifier="made", parameters=facts,
        ),
    )  # fmt: skip


def _unknown(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
    return f"{name!r} is none that a diagnosis gives; {hint}"
