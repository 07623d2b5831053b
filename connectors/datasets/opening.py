"""A dataset from its address: `langfuse:NAME`, `langsmith:NAME`, or a file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from configs.settings import TraceSettings
from connectors.datasets.lines import LinesDataset
from connectors.traces.opening import LANGFUSE_CLOUD, LANGSMITH_CLOUD, Variables
from contracts.datasets import Dataset
from contracts.errors import UsageError

BUDGET_S: Final = 300.0
_VENDORS: Final = ("langfuse", "langsmith")


def is_vendors(address: str) -> bool:
    """Whether the address is of a vendor, so that what is written there leaves this machine."""
    return address.partition(":")[0] in _VENDORS and ":" in address


def open_dataset(
    address: str,
    root: Path,
    traces: Sequence[TraceSettings] = (),
    *,
    budget_s: float = BUDGET_S,
    environ: Mapping[str, str] | None = None,
) -> Dataset:
    """The dataset at an address.

    Where the project reads traces from the same vendor, the first such entry says at which base
    URL and under which `env_prefix` its keys are; else the usual variables and the vendor's cloud.

    Args:
        address: `langfuse:NAME`, `langsmith:NAME`, or a file from `root` on.
        root: the folder that relative paths start from.
        traces: the project's `traces`.
        budget_s: wall clock for one read or one `add`.
        environ: where keys are looked up; None: this process's environment.

    Raises:
        UsageError: the address is none.
        ConfigError: a variable of the environment is missing.
    """
    kind, colon, name = address.partition(":")
    if not colon or kind not in _VENDORS:
        if not address.strip() or address.endswith(("/", os.sep)):
            raise UsageError(
                f"{address!r} is no dataset; give langfuse:NAME, langsmith:NAME or a .jsonl file"
            )
        return LinesDataset(root / address, name=address)
    if not name.strip():
        raise UsageError(f"{address!r}: a name is missing behind `{kind}:`")
    there = os.environ if environ is None else environ
    if kind == "langfuse":
        return _langfuse(name, _spec(traces, "langfuse"), address, there, budget_s)
    return _langsmith(name, _spec(traces, "langsmith"), address, there, budget_s)


def _spec(traces: Sequence[TraceSettings], kind: Literal["langfuse", "langsmith"]) -> TraceSettings:
    return next((one for one in traces if one.kind == kind), TraceSettings(kind=kind))


def _langfuse(
    name: str, spec: TraceSettings, address: str, environ: Mapping[str, str], budget_s: float
) -> Dataset:
    from connectors.datasets.langfuse import A_MINUTE, LangfuseDataset  # noqa: PLC0415  (if used)

    env = Variables(environ, spec.env_prefix, address, "langfuse")
    base_url = spec.base_url or env.first("LANGFUSE_BASE_URL", "LANGFUSE_HOST") or LANGFUSE_CLOUD
    return LangfuseDataset(
        name=name,
        base_url=base_url,
        public_key=env.secret("LANGFUSE_PUBLIC_KEY"),
        secret_key=env.secret("LANGFUSE_SECRET_KEY"),
        a_minute=spec.requests_per_minute or A_MINUTE,
        budget_s=budget_s,
    )


def _langsmith(
    name: str, spec: TraceSettings, address: str, environ: Mapping[str, str], budget_s: float
) -> Dataset:
    from connectors.datasets.langsmith import LangSmithDataset  # noqa: PLC0415  (only if used)

    env = Variables(environ, spec.env_prefix, address, "langsmith")
    base_url = spec.base_url or env.first("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
    return LangSmithDataset(
        name=name,
        api_url=base_url or LANGSMITH_CLOUD,
        api_key=env.secret("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY"),
        workspace_id=spec.workspace or env.first("LANGSMITH_WORKSPACE_ID"),
        budget_s=budget_s,
    )
