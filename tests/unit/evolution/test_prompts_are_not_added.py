"""A draft that adds a prompt where none can be taken away again is refused before a person asks."""

from dataclasses import replace
from pathlib import Path

from configs.harness_settings import HarnessSettings
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from contracts.proposals import Draft, Operation
from nodes.evolution.offers import Merged, merge
from nodes.evolution.policy import refused
from nodes.evolution.revise import checked
from tests.draft_worlds import project, task_of

HERE = HarnessSnapshot(files={"prompts/desk/main.md": HarnessFile(data=b"Be brief.\n")})
PROMPTS: Json = {"kind": "langfuse_prompts", "names": ["desk/*"]}
FOLDER: Json = {"kind": "directory", "include": ["prompts/desk/*.md"]}
DRAFT = Draft(
    operations=(Operation(op="add_file", path="prompts/desk/new.md", text="Ask first.\n"),),
    why="It helps.", falsifier="It does not.", author="person:ada",
)  # fmt: skip
NEW = HarnessFile(data=b"Ask first.\n")


def test_a_new_prompt_is_refused_in_langfuse_and_not_in_a_folder(tmp_path: Path) -> None:
    ws = project(tmp_path)
    task = replace(task_of(ws), snapshot=HERE)
    for place, refuses in ((PROMPTS, True), (FOLDER, False)):
        harness = HarnessSettings.model_validate(place)
        there = replace(ws, settings=ws.settings.model_copy(update={"harness": harness}))
        made = merge(there, task, DRAFT)
        after = HarnessSnapshot(files={**HERE.files, "prompts/desk/new.md": NEW})
        again = refused(checked(there, HERE, after, DRAFT, ()))
        for answer in (made, again):
            said = isinstance(answer, str) and "cannot be added" in answer
            assert said == refuses, answer
        assert isinstance(made, Merged) != refuses


def test_a_change_of_a_prompt_is_no_addition(tmp_path: Path) -> None:
    ws = project(tmp_path)
    harness = HarnessSettings.model_validate(PROMPTS)
    there = replace(ws, settings=ws.settings.model_copy(update={"harness": harness}))
    after = HarnessSnapshot(files={"prompts/desk/main.md": HarnessFile(data=b"Be brief. Ask.\n")})
    assert refused(checked(there, HERE, after, DRAFT, ())) is None
