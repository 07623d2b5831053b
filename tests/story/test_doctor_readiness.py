"""`doctor` works the eight properties out from a project's own traces and ledger."""

from collections.abc import Mapping

import pytest
from sqlalchemy import update

from contracts.harness import Effect, Revision, effect_key
from graph.cli.checks import run_checks
from memory.schema import audit
from memory.workspace import HOME_VARIABLE
from tests.story.worlds import PROJECT, Applied, Waiting, World

pytestmark = [pytest.mark.story, pytest.mark.servers]

EIGHT = [
    "traces reconstruct the workflow",
    "errors categorised",
    "prompts versioned",
    "diff and reasons before apply",
    "rejects leave nothing",
    "rollback path",
    "context management",
    "incidents feed evaluations",
]


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> "Ready":
    return Ready(monkeypatch)


class Ready:
    """The readiness of a world, by property."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def of(self, world: World) -> Mapping[str, tuple[str, str, str]]:
        """(state, evidence, advice) by name, in the order of the lines."""
        self._monkeypatch.chdir(world.root)
        self._monkeypatch.setenv(HOME_VARIABLE, str(world.root / ".tracemend"))
        found = [check for check in run_checks(None) if check.readiness]
        assert all(check.ok for check in found)
        return {check.name: (check.state, check.detail, check.advice) for check in found}


def test_a_new_project_knows_its_traces_and_says_unknown_of_the_rest(
    world: World, ready: Ready
) -> None:
    found = ready.of(world)
    assert list(found) == EIGHT
    assert found[EIGHT[0]][:2] == ("ok", "200 of 200 (100%) traces are whole (all 200 read)")
    assert found[EIGHT[1]][0] == "ok"
    assert found[EIGHT[2]][0] == "no"
    assert found[EIGHT[2]][2].startswith("set the release on traces")
    assert {found[name][0] for name in EIGHT[3:]} == {"unknown"}


def test_an_applied_edit_shows_review_rollback_and_cases(applied: Applied, ready: Ready) -> None:
    found = ready.of(applied.world)
    assert found["diff and reasons before apply"][:2] == (
        "ok",
        "1 of 1 (100%) decided revisions had a card with diff and reasons; cards expire after 7 "
        "days, a second person from high risk on",
    )
    assert found["rollback path"][0] == "ok"
    assert found["incidents feed evaluations"][0] == "ok"

    main = applied.world.root / "instructions" / "main.md"
    main.write_text(main.read_text("utf-8") + "\nBy hand.\n", "utf-8")
    state, said, advice = ready.of(applied.world)["rollback path"]
    assert (state, advice) == (
        "warn", f"an undo of {applied.release} would refuse: it never overwrites changes",
    )  # fmt: skip
    assert said.endswith("the harness was changed since")


def test_a_reject_that_left_something_is_found(waiting: Waiting, ready: Ready) -> None:
    world = waiting.world
    done = world.run("reject", waiting.proposal, "--reason", "risky", "--as", "ann")
    assert done.code == 0, done.err
    state, said, _ = ready.of(world)["rejects leave nothing"]
    assert state == "ok"
    assert said.startswith("1 of 1 (100%) turned down left nothing; the audit log of ")

    with world.looking() as ledger, ledger.db.write() as tx:
        proposal = ledger.proposals.latest(waiting.proposal).proposal
        effect = Effect(
            key=effect_key("apply", proposal.hash, "d", "here"), kind="apply", project=PROJECT,
            proposal_hash=proposal.hash, decision_id="d", target="here",
            before=Revision(proposal.base_revision), after=Revision(proposal.candidate_revision),
        )  # fmt: skip
        ledger.effects.intend(tx, effect)
    state, _, advice = ready.of(world)["rejects leave nothing"]
    assert state == "no"
    assert waiting.proposal in advice

    with world.looking() as ledger, ledger.db.write() as tx:
        tx.execute(update(audit).where(audit.c.seq == 1).values(event="another"))
    assert ready.of(world)["rejects leave nothing"][:2] == (
        "no", "the audit log is broken: entry 1 was changed, moved or removed",
    )  # fmt: skip
