"""A proposal of two places, one of them a prompt of a Langfuse that is served beside."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from memory.workspace import open_project
from tests.apply_worlds import ANCHOR, THREAD, WHICH, ApplyWorld
from tests.approval_worlds import installation, wait_for
from tests.card_worlds import inserting
from tests.fakes.langfuse_prompts import PUBLIC, SECRET, FakePromptServer
from tests.fakes.serving import serve

PROMPT = "prompts/desk/main.md"
TEXT = "You answer.\nBe brief.\n"
KEYS = {"DESK_LANGFUSE_PUBLIC_KEY": PUBLIC, "DESK_LANGFUSE_SECRET_KEY": SECRET}


@dataclass(frozen=True, slots=True)
class VendorWorld:
    """The installation, and the Langfuse that holds one of its places."""

    fake: FakePromptServer
    world: ApplyWorld

    def live(self) -> tuple[object, object]:
        """Version and text that the label names."""
        row = self.fake.prompts.labelled("desk/main", "production")
        assert row is not None
        return row["version"], row["prompt"]

    def writes(self) -> tuple[int, int]:
        """Versions made and labels moved, tries included."""
        return len(self.fake.faults.calls("POST")), len(self.fake.faults.calls("PATCH"))

    def versions(self) -> int:
        """Versions that are there."""
        return len(self.fake.prompts.messages("desk/main"))


@contextmanager
def vendor_world(
    folder: Path, *, approved: bool = False, timeout_s: float = 30
) -> Iterator[VendorWorld]:
    """A proposal that waits for a person, or is approved and accepted."""
    fake = FakePromptServer()
    fake.prompts.put("desk/main", TEXT, labels=["production"], config={"model": "m"})
    with serve(fake.faults) as url, patch.dict(os.environ, KEYS):
        inbox = installation(folder, harness=[
            {"kind": "directory", "include": ["instructions/*.md"]},
            {"kind": "langfuse_prompts", "names": ["desk/*"], "base_url": url,
             "env_prefix": "DESK_", "timeout_s": timeout_s},
        ])  # fmt: skip
        operations = [
            inserting("instructions/main.md", ANCHOR, "- Be kind.\n"),
            inserting(PROMPT, "Be brief.", "Ask first.\n"),
        ]
        proposal = wait_for(inbox, operations, which=WHICH, thread=THREAD)
        ws = open_project(inbox.home, "refunds")
        before, after = (
            {path: file.data for path, file in ws.ledger.artifacts.snapshot(side).files.items()}
            for side in (proposal.base_revision, proposal.candidate_revision)
        )
        world = ApplyWorld(inbox=inbox, proposal=proposal, before=before, after=after, more=KEYS)
        if approved:
            world.decide()
            world.accept()
        yield VendorWorld(fake, world)
