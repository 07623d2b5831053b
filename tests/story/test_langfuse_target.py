"""Apply and undo of an edit of a folder and of a Langfuse prompt, each in a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apply_vendor_worlds import PROMPT, TEXT, VendorWorld, vendor_world
from tests.apply_worlds import WHICH, Kill

pytestmark = [pytest.mark.story, pytest.mark.servers]

WRITE = "connectors.harness.langfuse_api:Session.write"


@pytest.fixture
def story(tmp_path: Path) -> Iterator[VendorWorld]:
    """A proposal that waits for a person."""
    with vendor_world(tmp_path) as world:
        yield world


def test_nothing_is_written_before_the_yes_and_the_accept_and_all_of_it_after(
    story: VendorWorld,
) -> None:
    assert story.world.before[PROMPT] == TEXT.encode()
    assert story.writes() == (0, 0)
    assert story.world.do().error is not None, "no decision allows a change"
    story.world.decide()
    assert story.world.do().error is not None, "a yes is not proof"
    assert story.writes() == (0, 0)
    story.world.accept()
    assert story.world.do().applied == "done"
    assert story.live() == (2, story.world.after[PROMPT].decode())
    [release] = story.world.releases()
    assert [one.origin for one in release.targets] == [None, "desk/main@2"]
    [first, made] = story.fake.prompts.messages("desk/main")
    assert first == ""
    assert f" {WHICH} r1 v2 on v1 for f-" in made
    assert "approved by mira" in made
    story.world.undo_card()
    assert story.world.do().applied == "done"
    assert (story.live(), story.writes()) == ((1, TEXT), (1, 2))
    assert story.world.releases()[1].targets[1].origin == "desk/main@1"


def test_a_prompt_that_a_person_edited_since_is_left_and_the_folder_is_as_it_was(
    story: VendorWorld,
) -> None:
    story.world.decide()
    story.world.accept()
    story.fake.prompts.put("desk/main", "By hand.", labels=["production"])
    files = story.world.place("instructions/main.md").read_bytes()
    done = story.world.do()
    assert (done.applied, done.next) == ("aborted", "evolution")
    assert (story.live(), story.writes()) == ((2, "By hand."), (0, 0))
    assert story.world.place("instructions/main.md").read_bytes() == files
    assert PROMPT in str([effect.reason for effect in story.world.effects()])


@pytest.mark.kill
@pytest.mark.parametrize("kill", [("before", WRITE, 1), ("after", WRITE, 1), ("after", WRITE, 2)])
def test_a_node_that_is_killed_at_a_write_is_finished_by_the_next(
    story: VendorWorld, kill: Kill
) -> None:
    story.world.decide()
    story.world.accept()
    assert story.world.do(kill=kill).code == -9
    assert story.world.do().applied == "done"
    assert (story.live()[0], story.writes()) == (2, (1, 1))
    assert len(story.world.releases()) == 1
    assert story.world.audit_ok()
