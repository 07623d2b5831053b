"""Installations for load: many tiny projects, each with one finding that is known already."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from contracts.findings import Finding, FindingId
from contracts.gate import Case, CaseId
from contracts.json_types import Json, JsonObject
from contracts.people import Role
from contracts.proposals import Proposal, ProposalHash, ProposalId
from memory.database import open_engine
from memory.ledger import Ledger, open_ledger
from memory.proposals import StoredCard
from memory.tokens import Tokens
from memory.workspace import HOME_VARIABLE, ledger_place, register
from tests.story.worlds import World, build_world, copy_world

REQUESTS = 60
SETTINGS = """\
version: 1
project: {project}
traces: [{{kind: files, path: traces}}]
harness: {{kind: directory, root: ".", include: ["instructions/*.md", "skills/**"]}}
"""
AT_ONCE = "alerts: {settle: 0s, late: 0s}\n"
"""Nothing is waited for; runs on a known finding read no traces anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What one real analysis left: a finding, its cases and evidence, and a proposal that waits."""

    world: World
    finding: Finding
    cases: Sequence[Case]
    evidence: JsonObject
    proposal: Proposal
    card: StoredCard


@contextmanager
def kit() -> Iterator[Kit]:
    """Record the example agent, analyse it once by a real run, and keep what that left."""
    with tempfile.TemporaryDirectory(prefix="load-") as name:
        made = build_world(Path(name) / "made", requests=REQUESTS, sealed=0)
        world = copy_world(made, Path(name) / "agent")
        ran = world.run("improve", "--json")
        assert ran.code == 0, ran.err
        run = ran.json["runs"][0]
        with world.looking() as ledger:
            proposal = ledger.proposals.latest(run["proposal"]).proposal
            card = ledger.proposals.card(proposal.id, 1, "approve")
            assert card is not None, "the run waits at a card"
            yield Kit(
                world=world, finding=ledger.knowledge.finding(run["finding"]).finding,
                cases=ledger.knowledge.all_cases(run["finding"]),
                evidence=ledger.knowledge.evidence(run["finding"]), proposal=proposal, card=card,
            )  # fmt: skip


def plant(
    home: Path, kit: Kit, project: str, findings: int = 1, *, settings: str = AT_ONCE
) -> list[str]:
    """Enter one more project with the agent's harness; the ids of findings that it knows already.

    They are the kit's finding under other ids: each of them can be worked on once, and a reject of
    one is not held against the next.
    """
    root = home / "agents" / project
    for part in ("instructions", "skills"):
        shutil.copytree(kit.world.root / part, root / part)
    (root / "traces").mkdir()
    text = SETTINGS.format(project=project) + settings
    (root / "tracemend.yaml").write_text(text, "utf-8")
    register(home, project, root)
    ids = [FindingId(f"f-{project[-4:]}{number:06}") for number in range(findings)]
    with opened(home, project) as ledger, ledger.db.write() as tx:
        for id_ in ids:
            cases = [replace(case, id=CaseId(f"{case.id}-{id_}")) for case in kit.cases]
            ledger.knowledge.put_finding(tx, replace(kit.finding, id=id_))
            ledger.knowledge.put_cases(tx, id_, cases)
            ledger.knowledge.put_evidence(tx, id_, kit.evidence)
    return list(ids)


def home_environ(home: Path) -> dict[str, str]:
    """The environment of a server on this installation; no variable of the developer's."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith("TRACEMEND")}
    return {**kept, HOME_VARIABLE: str(home)}


@contextmanager
def opened(home: Path, project: str) -> Iterator[Ledger]:
    """A project's ledger, closed at the end."""
    ledger = open_ledger(ledger_place(home), project)
    try:
        yield ledger
    finally:
        ledger.close()


def put_waiting(ledger: Ledger, kit: Kit, count: int) -> None:
    """`count` proposals that wait, as the plan node leaves them, each with its card.

    More than a project can have open at once: what a list costs does not depend on how they came.
    """
    with ledger.db.write() as tx:
        for number in range(count):
            id_ = ProposalId(f"p-{ledger.db.project[-4:]}{number:06}")
            digest = ProposalHash(f"{number:064x}")
            body: dict[str, Json] = {**kit.proposal.plan}
            proposal = replace(kit.proposal, id=id_, thread=f"{id_}-thread", plan=body)
            ledger.proposals.insert(tx, proposal, state="drafting")
            ledger.proposals.freeze(tx, proposal)
            ledger.proposals.put_card(tx, replace(kit.card, proposal=id_, proposal_hash=digest))


def make_token(home: Path, roles: Sequence[Role] = ("admin",)) -> str:
    """A token for every project of an installation."""
    engine = open_engine(ledger_place(home))
    try:
        return Tokens(engine).create("load", roles, projects=None, expires_at=None)[1]
    finally:
        engine.dispose()
