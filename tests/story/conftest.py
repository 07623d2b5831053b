"""Worlds are made once a session, as far as a story needs them; every story works on a copy."""

from pathlib import Path

import pytest

from tests.story.worlds import Applied, Waiting, World, build_world, copy_world


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A repository with a calm last week and a stormy day of traces."""
    made = build_world(tmp_path_factory.mktemp("recorded") / "made", requests=100)
    return copy_world(made, made.root.with_name("agent"))


@pytest.fixture(scope="session")
def made_waiting(recorded: World, tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    """One improve run, at its interrupt."""
    world = copy_world(recorded, tmp_path_factory.mktemp("waiting") / "agent")
    started = world.run("improve", "--json")
    assert started.code == 0, started.err
    return Waiting(world=world, proposal=started.json["runs"][0]["proposal"])


@pytest.fixture(scope="session")
def made_applied(made_waiting: Waiting, tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """The same, approved and applied."""
    world = copy_world(made_waiting.world, tmp_path_factory.mktemp("applied") / "agent")
    before = world.harness()
    approved = world.run("approve", made_waiting.proposal, "--as", "ann", "--json")
    assert approved.code == 0, approved.err
    release = approved.json["release"]["id"]
    return Applied(world=world, proposal=made_waiting.proposal, release=release, before=before)


@pytest.fixture
def world(recorded: World, tmp_path: Path) -> World:
    """A copy of its own for one story."""
    return copy_world(recorded, tmp_path / "agent")


@pytest.fixture
def waiting(made_waiting: Waiting, tmp_path: Path) -> Waiting:
    """A copy of its own, with a card that waits."""
    world = copy_world(made_waiting.world, tmp_path / "agent")
    return Waiting(world=world, proposal=made_waiting.proposal)


@pytest.fixture
def applied(made_applied: Applied, tmp_path: Path) -> Applied:
    """A copy of its own, with a release."""
    world = copy_world(made_applied.world, tmp_path / "agent")
    return Applied(
        world=world,
        proposal=made_applied.proposal,
        release=made_applied.release,
        before=made_applied.before,
    )
