"""Where findings and gates are published to, from the project's trace settings."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from configs.settings import TraceSettings
from connectors.publishing.langfuse import LangfusePublisher
from connectors.publishing.langsmith import LangSmithPublisher
from connectors.traces.opening import LANGFUSE_CLOUD, LANGSMITH_CLOUD, Variables
from contracts.publishing import Publisher

Vendor = Literal["langfuse", "langsmith"]
VENDORS: Final[tuple[Vendor, ...]] = ("langfuse", "langsmith")


def open_publisher(
    vendor: Vendor,
    traces: Sequence[TraceSettings],
    *,
    dataset: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Publisher:
    """The vendor's project that the first trace entry of its kind names, else the usual variables.

    Args:
        vendor: where to.
        traces: the project's `traces`.
        dataset: of LangSmith, for experiments.
        environ: where keys are looked up; None: this process's environment.

    Raises:
        ConfigError: a variable of the environment is missing.
    """
    spec = next((one for one in traces if one.kind == vendor), TraceSettings(kind=vendor))
    env = Variables(
        os.environ if environ is None else environ, spec.env_prefix, f"--to {vendor}", vendor
    )
    if vendor == "langfuse":
        url = spec.base_url or env.first("LANGFUSE_BASE_URL", "LANGFUSE_HOST") or LANGFUSE_CLOUD
        return LangfusePublisher(
            base_url=url, public_key=env.secret("LANGFUSE_PUBLIC_KEY"),
            secret_key=env.secret("LANGFUSE_SECRET_KEY"),
        )  # fmt: skip
    url = spec.base_url or env.first("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT") or LANGSMITH_CLOUD
    return LangSmithPublisher(
        api_url=url, api_key=env.secret("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY"),
        workspace_id=spec.workspace or env.first("LANGSMITH_WORKSPACE_ID"),
        project=spec.project, dataset=dataset,
    )  # fmt: skip
