"""How many findings of real traces that text could mend get a draft from a playbook.

    python -m benchmarks.drafts --in DIR

Each folder of DIR is analysed by itself. A draft counts when it merges into a plain harness and
passes the static policy, with the finding's own quotes as trace texts. No labels are read.
"""

import asyncio
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.playbooks import Playbook, load_playbooks
from connectors.traces.files import FilesSource
from contracts.errors import UsageError
from contracts.findings import Finding
from contracts.traces import TraceQuery
from nodes.evolution.draft import draft, why_none
from nodes.evolution.edits import apply_operations
from nodes.evolution.playbook_try import PLAIN, PLAIN_INCLUDE
from nodes.evolution.policy import check, refused
from nodes.insights.analyze import Analysis, analyze


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finding that text could mend."""

    folder: str
    signature: str
    cause: str
    author: str | None
    """The playbook that drafts; None: none does."""
    why_none: str | None


def rows(folder: Path, books: Sequence[Playbook]) -> Iterator[Row]:
    """A row for each finding of the folder's traces that text could mend."""
    try:
        found = asyncio.run(analyze(FilesSource([folder]), TraceQuery(), project="adhoc"))
    except UsageError:
        return
    for finding in found.findings:
        if finding.text_fixable:
            author, why = _drafted(found, finding, books)
            yield Row(
                folder=folder.name, signature=finding.signature, cause=finding.diagnosis.cause,
                author=author, why_none=why,
            )  # fmt: skip


def _drafted(
    found: Analysis, finding: Finding, books: Sequence[Playbook]
) -> tuple[str | None, str | None]:
    """The author of the first draft that holds, or why there is none."""
    own = [s.evidence.quote for s in found.symptoms if s.signature == finding.signature]
    why = why_none(finding, PLAIN, books, include=PLAIN_INCLUDE)
    for made in draft(finding, PLAIN, books, include=PLAIN_INCLUDE):
        after = apply_operations(PLAIN, made.operations)
        checks = check(PLAIN, after, made, include=PLAIN_INCLUDE, invariants=(), trace_texts=own)
        problem = refused(checks)
        if problem is None:
            return made.author, None
        why = problem
    return None, why


def main() -> None:
    """Print a line a finding, and the sums."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--in", dest="folder", type=Path, required=True)
    root: Path = parser.parse_args().folder
    books = load_playbooks()
    counts: Counter[str] = Counter()
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        for row in rows(folder, books):
            counts.update(["text", "drafted"] if row.author else ["text"])
            print(f"{row.folder:<14} {row.signature[:56]:<56} {row.cause:<22} "
                  f"{row.author or row.why_none}")  # fmt: skip
    print(f"{counts['drafted']} of {counts['text']} findings that text could mend get a draft")


if __name__ == "__main__":
    main()
