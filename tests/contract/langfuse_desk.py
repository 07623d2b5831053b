"""A Langfuse project with a text and a chat under the label, for tests of what may go wrong."""

from dataclasses import dataclass

from connectors.harness.langfuse_prompts import LangfusePromptsHarness
from contracts.harness import HarnessFile, HarnessSnapshot
from tests.contract.langfuse_worlds import Board, project
from tests.fakes.langfuse_prompts import FakePromptServer

MAIN, TALK = "prompts/desk/main.md", "prompts/desk/talk.chat.md"
TALK_TEXT = "=== system ===\nBe kind.\n"


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    fake: FakePromptServer

    def harness(self, **options: float) -> LangfusePromptsHarness:
        timeout_s = options.pop("timeout_s", 10)
        return LangfusePromptsHarness(
            project(self.url, timeout_s=timeout_s), names=["desk/*"], label="production",
            lag_s=options.pop("lag_s", 0.3),
        )  # fmt: skip

    def live(self, name: str = "desk/main") -> int:
        row = self.fake.prompts.labelled(name, "production")
        assert row is not None
        return int(str(row["version"]))


def desk(board: Board, url: str) -> Place:
    """A text of two versions and a chat, both under the label; the text's newest is a draft."""
    fake = FakePromptServer()
    put = fake.prompts.put
    put("desk/main", "Old.", config={"model": "m0"})
    put("desk/main", "Be brief.", labels=["production"], config={"model": "m1"}, tags=["desk"])
    put("desk/talk", [{"role": "system", "content": "Be kind."}], labels=["production"])
    put("desk/main", "A draft.", config={"model": "m2"})
    return Place(f"{url}{board.add(fake.faults)}", fake)


def texts(**files: str) -> HarnessSnapshot:
    paths = {"main": MAIN, "talk": TALK}
    return HarnessSnapshot(
        files={paths[name]: HarnessFile(data=text.encode()) for name, text in files.items()}
    )


BEFORE = texts(main="Be brief.", talk=TALK_TEXT)
AFTER = texts(main="Be brief. Ask.", talk=TALK_TEXT)
BOTH = texts(main="Be brief. Ask.", talk="=== system ===\nBe kinder.\n")
