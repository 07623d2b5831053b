"""The settings of cases, probe and gate: what is run, where, and what it must show."""

from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

_HTTP = r"^https?://[^/@\s]+(/\S*)?$"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LimitsSettings(_Section):
    """What one run of the agent may use; over it the run is over, and that is the agent's fail."""

    memory_mb: int | None = Field(default=None, ge=16, le=1_048_576)
    """Resident memory of all its processes together; None: not bounded."""
    processes: int | None = Field(default=None, ge=1, le=100_000)
    """Processes at once, the agent's own included; None: not bounded."""
    output_mb: float = Field(default=4, gt=0, le=1024)
    """Longest answer."""


class ReplaySettings(_Section):
    """Tool calls answered from what the traces recorded, instead of by the tools."""

    traces: tuple[str, ...] = ()
    """Files or folders of recordings, from the folder of `tracemend.yaml`; none: the traces that
    the cases were made of, read from the project's sources."""
    fall_through: tuple[str, ...] = ()
    """Names of reading tools that may really be called where nothing was recorded."""
    writes: tuple[str, ...] = ()
    """Names of tools that change something: never called, and missing where not recorded. What was
    recorded before one of them is not answered after it, nor the other way round."""

    @model_validator(mode="after")
    def _apart(self) -> "ReplaySettings":
        both = sorted({*self.fall_through} & {*self.writes})
        if both:
            raise ValueError(f"{both[0]!r} is under `fall_through` and `writes`: it cannot be both")
        return self


class ProbeSettings(_Section):
    """How the agent is run on one input."""

    kind: Literal["worker", "command", "http", "langgraph"]
    command: tuple[str, ...] = ()
    """Kinds worker and command: program and arguments, without a shell."""
    url: str | None = Field(default=None, pattern=_HTTP)
    """Kind http: where a run is posted. Kind langgraph: the server."""
    assistant: str | None = None
    """Kind langgraph: name of the graph, or id of the assistant."""
    context_key: str = "harness"
    """Kind langgraph: under which key of the run's context the candidate's files are passed."""
    input_key: str | None = None
    """Kind langgraph: the state's key that takes the case's input; None: the input is the state."""
    output_key: str | None = None
    """Kind langgraph: the state's key that is the answer; None: the whole final state."""
    token_env: str | None = Field(default=None, pattern=_VARIABLE)
    """Kinds http and langgraph: the variable with the bearer token."""
    concurrency: int = Field(default=2, ge=1, le=64)
    per_host: int | None = Field(default=None, ge=1, le=64)
    """Kinds http and langgraph: runs at once on one host, over all projects of this process."""
    timeout_s: float = Field(default=30, gt=0, le=3600)
    env: tuple[str, ...] = ()
    """Names of variables passed on from our environment; nothing else of it is."""
    network: bool = True
    """False: the agent's processes have no network (Linux namespaces), or the probe refuses."""
    limits: LimitsSettings = LimitsSettings()
    prompts: bool = False
    """True: a loopback proxy answers the prompt reads of the Langfuse and LangSmith SDKs from the
    candidate, and keeps the spans it receives."""
    replay: ReplaySettings | None = None

    @model_validator(mode="after")
    def _complete(self) -> "ProbeSettings":
        if self.kind in {"worker", "command"} and not self.command:
            raise ValueError(f"kind {self.kind} needs `command`, such as [python, -m, agent]")
        if self.kind in {"http", "langgraph"} and self.url is None:
            raise ValueError(f"kind {self.kind} needs `url`")
        if self.kind == "langgraph" and self.assistant is None:
            raise ValueError("kind langgraph needs `assistant`, the graph's name")
        if self.prompts and self.kind in {"http", "langgraph"}:
            raise ValueError(
                f"prompts: kind {self.kind} runs no process of ours to be told of them"
            )
        self._keepable()
        return self

    def _keepable(self) -> None:
        """Isolation that the kind cannot keep is refused, not ignored."""
        bounded = self.limits.memory_mb is not None or self.limits.processes is not None
        if self.kind in {"http", "langgraph"} and (bounded or not self.network):
            what = "network: false" if not self.network else "limits of memory and processes"
            raise ValueError(f"{what}: kind {self.kind} runs no process of ours to keep to it")
        if not self.network and self.prompts:
            raise ValueError(
                "network: false cuts the agent off from `prompts`, which answers on this machine's "
                "loopback; leave one of the two out"
            )


class JudgeSettings(_Section):
    """A model that grades `judge` assertions. It counts only while it agrees with people."""

    model: str | None = None
    """`provider:name` with a version, pinned; None: `judge` assertions are unknown."""
    labels: str | None = None
    """JSONL file of human labels, from the folder of `tracemend.yaml`."""
    regrade: float = Field(default=0.1, ge=0, le=1)
    """Share of answers graded a second time."""


class ExemptionSettings(_Section):
    """A named person lets one critical case fail that also fails without the edit."""

    case: str = Field(min_length=1)
    by: str = Field(min_length=1)
    why: str = Field(min_length=1)


class QuarantineSettings(_Section):
    """A case left out of gates for a while, because its surroundings are flaky."""

    case: str = Field(min_length=1)
    owner: str = Field(min_length=1)
    until: date


class GateSettings(_Section):
    """What the gate must prove and may spend."""

    profile: Literal["starter", "standard", "strict"]
    margin: float = Field(gt=0, le=0.5)
    uses: int = Field(ge=1, le=100)
    max_targets: int = Field(ge=1, le=100)
    max_runs: int = Field(ge=1)
    max_usd: float = Field(ge=0)
    max_seconds: float = Field(gt=0)
    cost_margin: float = Field(gt=0, le=10)
    """Rise of the cost per passing run that must be excluded."""
    repeats: int | None = Field(default=None, ge=1, le=100)
    """Blocks a target case; None: by the number of target cases."""
    sealed_repeats: int = Field(ge=1, le=20)
    """Blocks a sealed case; above 1 the e-process decides L2, which needs more cases."""
    listed_rounds: int = Field(ge=0, le=50)
    """Starter: rounds over the sealed cases, for what can be said of these cases alone."""
    precheck: bool
    """Run the baseline on the target and some sealed cases before the card is shown."""
    precheck_seconds: float = Field(gt=0, le=3600)
    precheck_sealed: int = Field(ge=0, le=200)
    judge: JudgeSettings
    python: tuple[str, ...]
    """Interpreter of `python` assertions, such as [.venv/bin/python]; none: that of tracemend."""
    exempt: tuple[ExemptionSettings, ...]
    quarantine: tuple[QuarantineSettings, ...]
    planted: str | None
    """Folder of edits whose verdict is known, for `tracemend gate planted`."""
