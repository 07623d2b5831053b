"""The instructions that models are given: files under `prompts/`, each with its version."""

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from string import Template
from typing import Literal

PromptName = Literal["diagnose", "screen", "route", "ask", "judge"]
_FRONT = "version: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One file. A change of its text gets the next version."""

    name: PromptName
    version: int
    text: str

    @property
    def tag(self) -> str:
        """How records name it, such as `diagnose/1`."""
        return f"{self.name}/{self.version}"

    def filled(self, **values: str) -> str:
        """The text with these in place of `$name`; what is put in is not looked at again."""
        return Template(self.text).substitute(values)


@lru_cache(maxsize=8)
def load_prompt(name: PromptName) -> Prompt:
    """The packaged prompt.

    Raises:
        ValueError: the file does not begin with its version.
    """
    file = resources.files("nodes.insights").joinpath("prompts", f"{name}.md")
    front, _, text = file.read_text("utf-8").partition("\n---\n")
    if not front.startswith(_FRONT) or not front.removeprefix(_FRONT).isdigit():
        raise ValueError(f"prompts/{name}.md: must begin with `version: N` and a line `---`")
    return Prompt(name=name, version=int(front.removeprefix(_FRONT)), text=text)
