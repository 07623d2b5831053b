"""Seal cases and open them: in their files, in the mined cases, and in the manifest."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from contracts.errors import UsageError
from contracts.gate import Case, CaseId
from memory.case_writing import retagged, write_text
from memory.cases import Placed, fingerprint, placed_cases
from memory.workspace import Workspace
from nodes.casebook import Casebook, members, read_casebook
from nodes.cases.split import Split, split_cases

SHORTEST = 6
"""Hex digits of a fingerprint that name a case."""


def seal_share(ws: Workspace, *, share: float, seed: int, write: bool) -> Split:
    """Seal a share of the families that nobody who drafts has seen.

    In the operator's files only the tags of these cases change. Safe to kill and repeat: what was
    tagged already counts, and is entered in the manifest the next time.

    Args:
        ws: the project.
        share: of families, 0..1.
        seed: of the order in which they are taken.
        write: False: only say what it would do.

    Raises:
        UsageError: a file is written so that its tags cannot be changed safely.
        ConfigError: a case file cannot be used.
    """
    book = read_casebook(ws)
    split = split_cases(book.cases, shown_to_editors(ws, book), share=share, seed=seed)
    if write:
        _seal(ws, book, split.chosen)
    return split


def _seal(ws: Workspace, book: Casebook, chosen: Sequence[Case]) -> None:
    wanted = {case.id: case for case in chosen}
    by_file: dict[Path, list[Placed]] = defaultdict(list)
    for one in placed_cases(ws.root, ws.settings.cases):
        if one.case.id in wanted:
            by_file[one.path].append(one)
    filed = {one.case.id for group in by_file.values() for one in group}
    sealed = [case for case in book.cases if "sealed" in case.tags]
    with ws.ledger.db.write() as tx:  # one writer at a time, of files too
        for path, group in sorted(by_file.items()):
            before = path.read_bytes()
            tags = {one.index: (one.case.tags - {"training"}) | {"sealed"} for one in group}
            name = path.relative_to(ws.root).as_posix()
            write_text(path, before, retagged(before.decode("utf-8"), name, tags))
        ws.ledger.knowledge.seal_mined(tx, [name for name in wanted if name not in filed])
        ws.ledger.sealed.seal(tx, members([*sealed, *chosen]))


def shown_to_editors(ws: Workspace, book: Casebook) -> frozenset[CaseId]:
    """Cases that whoever drafts edits may have seen, and those that were retired.

    Target cases of any finding; every case mined for a finding that has had a proposal; and cases
    of runs that a finding quotes, since its evidence is shown.
    """
    drafted = {stored.proposal.finding_id for stored in ws.ledger.proposals.all_latest()}
    quoted = {
        f"trace:{trace}"
        for stored in ws.ledger.knowledge.findings()
        for trace, _ in stored.finding.exemplars
    }
    retired = {line.case for line in ws.ledger.sealed.listed() if line.retired_at is not None}
    marks = ws.ledger.sealed.retired()
    seen = {
        case.id
        for origin, tag, case in ws.ledger.knowledge.mined()
        if tag == "target" or (tag != "sealed" and origin in drafted)
    }
    seen |= {
        case.id
        for case in book.cases
        if case.id in retired or case.origin in quoted or fingerprint(case) in marks
    }
    return frozenset(seen)


def sealed_case(ws: Workspace, named: str) -> Case:
    """The sealed case whose fingerprint begins so.

    Raises:
        UsageError: none or several do, or what was given is too short to name one.
    """
    if len(named) < SHORTEST:
        raise UsageError(f"{named!r}: give {SHORTEST} digits of a fingerprint or more")
    found = [
        case for case in read_casebook(ws).tagged("sealed") if fingerprint(case).startswith(named)
    ]
    if len(found) != 1:
        what = f"{len(found)} sealed cases have" if found else "no sealed case has"
        raise UsageError(f"{named}: {what} that fingerprint; `tracemend cases list --sealed`")
    return found[0]


def open_sealed(ws: Workspace, case: Case, by: str) -> int:
    """Retire a sealed case, since it is shown to `by` now.

    How many other sealed cases of its family only train from now on as well.
    """
    siblings = sum(one.family == case.family for one in read_casebook(ws).tagged("sealed")) - 1
    with ws.ledger.db.write() as tx:
        ws.ledger.sealed.seal(tx, members([case]))
        ws.ledger.sealed.retire(tx, [fingerprint(case)], f"opened by {by}")
    return siblings
