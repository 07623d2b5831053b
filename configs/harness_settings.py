"""Settings of the harness: the places in which the agent's text lives, and how it is edited."""

from collections.abc import Mapping
from typing import Annotated, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

DEFAULT_INCLUDE = ("instructions/*.md", "skills/**")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Files(_Section):
    root: str = "."
    """A folder, from the one of `tracemend.yaml`."""
    include: tuple[str, ...] = Field(default=DEFAULT_INCLUDE, min_length=1)
    """POSIX patterns of the files that may be edited, from `root`."""
    at: str = Field(default="", pattern=r"^([^/\\]+(/[^/\\]+)*)?$")
    """A folder name that its paths get in front, to tell several places apart; empty: none."""

    @property
    def mounted(self) -> tuple[str, ...]:
        """The patterns as paths of the whole harness."""
        return tuple(f"{self.at}/{p}" if self.at else p for p in self.include)


class DirectoryTarget(_Files):
    """Files of a folder."""

    kind: Literal["directory"]


class PushSettings(_Section):
    """Where commits are pushed to; never by force."""

    remote: str = "origin"
    """A name or an address that `git push` understands; keys as `git` finds them."""
    timeout_s: float = Field(default=60, gt=0, le=600)


class GitTarget(_Files):
    """Files of a git repository, changed by commits and not in the work tree alone."""

    kind: Literal["git"]
    branch: str | None = None
    """The branch that is read and moved; None: the one that is checked out."""
    new_branch: str | None = None
    """A branch to commit to instead, made from `branch`, such as `tracemend/{proposal}`; holes are
    `{finding}` and `{proposal}`. `branch` itself then never moves: somebody merges it."""
    push: PushSettings | None = None
    author: str = "Tracemend <tracemend@localhost>"
    """`Name <address>` of the commits."""


class LangfusePromptsTarget(_Section):
    """Prompts of a Langfuse project, as `prompts/<name>.md` or, for a chat, `.chat.md`."""

    kind: Literal["langfuse_prompts"]
    names: tuple[str, ...] = Field(min_length=1)
    """Names of prompts, with folders; `*`, `?` and `**` as in `include`."""
    label: str = Field(default="production", pattern=r"^[a-z0-9_.-]{1,36}$")
    """The label that agents read and that is moved."""
    base_url: str | None = None
    """None: the variable LANGFUSE_BASE_URL."""
    env_prefix: str = Field(default="", pattern=r"^[A-Z0-9_]*$")
    """Put before the names of the variables LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."""
    timeout_s: float = Field(default=30, gt=0, le=300)

    @property
    def mounted(self) -> tuple[str, ...]:
        """The patterns as paths of the whole harness."""
        return tuple(f"prompts/{name}{end}" for name in self.names for end in (".md", ".chat.md"))


class LangfuseSkillsTarget(_Section):
    """Skills of a Langfuse project, as `skills/<name>/…`; servers that have them only."""

    kind: Literal["langfuse_skills"]
    names: tuple[str, ...] = ("*",)
    label: str = Field(default="production", pattern=r"^[a-z0-9_.-]{1,36}$")
    base_url: str | None = None
    env_prefix: str = Field(default="", pattern=r"^[A-Z0-9_]*$")
    """Put before the names of the variables LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."""
    timeout_s: float = Field(default=30, gt=0, le=300)

    @property
    def mounted(self) -> tuple[str, ...]:
        """The patterns as paths of the whole harness."""
        return tuple(f"skills/{name}/**" for name in self.names)


class LangsmithHubTarget(_Section):
    """Prompts, skills and agents of LangSmith's hub, as `prompts/…`, `skills/…`, `agents/…`."""

    kind: Literal["langsmith_hub"]
    prompts: tuple[str, ...] = ()
    """Names of prompts of the key's own workspace, without an owner."""
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tag: str = Field(default="production", pattern=r"^[a-z0-9_.-]{1,36}$")
    """The commit tag of prompts that agents read and that is moved."""
    base_url: str | None = None
    """None: the variable LANGSMITH_ENDPOINT, else the vendor's own address."""
    workspace: str | None = None
    env_prefix: str = Field(default="", pattern=r"^[A-Z0-9_]*$")
    """Put before the name of the variable LANGSMITH_API_KEY."""
    timeout_s: float = Field(default=30, gt=0, le=300)

    @model_validator(mode="after")
    def _names_something(self) -> "LangsmithHubTarget":
        if not (self.prompts or self.skills or self.agents):
            raise ValueError("names nothing: give `prompts`, `skills` or `agents`")
        return self

    @property
    def mounted(self) -> tuple[str, ...]:
        """The patterns as paths of the whole harness."""
        texts = [f"prompts/{name}{end}" for name in self.prompts for end in (".md", ".chat.md")]
        folders = [f"skills/{name}/**" for name in self.skills]
        return (*texts, *folders, *(f"agents/{name}/**" for name in self.agents))


Target = Annotated[
    DirectoryTarget | GitTarget | LangfusePromptsTarget | LangfuseSkillsTarget | LangsmithHubTarget,
    Field(discriminator="kind"),
]


class HarnessSettings(_Section):
    """Where the agent's editable text is: one place, or a list of places."""

    targets: tuple[Target, ...] = Field(min_length=1)
    invariants: tuple[str, ...] = ()
    """The operator's sentences that no edit may weaken."""

    @model_validator(mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        """`{kind, …, invariants}`, a list of such, or this form itself."""
        if isinstance(value, Mapping) and "kind" not in value and "targets" in value:
            return value
        listed = value if isinstance(value, list | tuple) else [value]
        targets: list[object] = []
        invariants: list[object] = []
        for one in listed:
            if not isinstance(one, Mapping):
                targets.append(one)
                continue
            keys = dict(cast("Mapping[str, object]", one))
            said = keys.pop("invariants", ())
            invariants += said if isinstance(said, list | tuple) else [said]
            targets.append(keys)
        return {"targets": targets, "invariants": invariants}

    @property
    def include(self) -> tuple[str, ...]:
        """Patterns of all paths of the harness that may be edited."""
        return tuple(pattern for target in self.targets for pattern in target.mounted)

    @property
    def fixed(self) -> tuple[str, ...]:
        """Patterns of paths where nothing can be added: where it could not be taken back."""
        kept = (t.mounted for t in self.targets if isinstance(t, LangfusePromptsTarget))
        return tuple(pattern for mounted in kept for pattern in mounted)

    @property
    def folders(self) -> tuple[DirectoryTarget | GitTarget, ...]:
        """The places that are files of this machine."""
        return tuple(t for t in self.targets if isinstance(t, DirectoryTarget | GitTarget))


class DraftingSettings(_Section):
    """How edits are drafted."""

    alternatives: int = Field(ge=1, le=3)
    """Drafts with different ideas that the editor model is asked for; a person picks one."""
    provenance: bool
    """Whether added items carry a comment with their id, where the file's format has comments."""
    repository: tuple[str, ...]
    """Folders, from the one of `tracemend.yaml`, that are searched for who loads which prompt."""
