"""The harness from its settings."""

import os
from collections.abc import Mapping
from pathlib import Path

from configs.harness_settings import (
    DirectoryTarget,
    GitTarget,
    HarnessSettings,
    LangfusePromptsTarget,
    LangfuseSkillsTarget,
    LangsmithHubTarget,
    Target,
)
from connectors.harness.directory import DirectoryHarness
from connectors.harness.paths import Include
from connectors.harness.several import Place, Places
from connectors.traces.opening import LANGFUSE_CLOUD, LANGSMITH_CLOUD, Variables
from contracts.errors import ConfigError
from contracts.protocols import Harness


def open_places(
    spec: HarnessSettings, *, root: Path, work: Path, environ: Mapping[str, str] | None = None
) -> Places:
    """All places of the harness, in the order of the settings. Nothing is reached yet.

    Args:
        spec: the settings.
        root: the folder of `tracemend.yaml`.
        work: our folder for staging and locks.
        environ: where keys are; None: the environment.

    Raises:
        ConfigError: a place lacks a key or an address, or is there twice.
    """
    env = os.environ if environ is None else environ
    places = []
    for number, target in enumerate(spec.targets):
        name = f"harness.{number}" if len(spec.targets) > 1 else "harness"
        at = getattr(target, "at", "")
        include = Include(target.mounted)
        places.append(Place(_open(target, name, root=root, work=work, env=env), at, include))
    return Places(places)


def _open(spec: Target, place: str, *, root: Path, work: Path, env: Mapping[str, str]) -> Harness:
    match spec:
        case DirectoryTarget():
            return DirectoryHarness((root / spec.root).resolve(), include=spec.include, work=work)
        case GitTarget():
            return _git(spec, place, root=root, work=work, env=env)
        case LangfusePromptsTarget() | LangfuseSkillsTarget():
            return _langfuse(spec, place, env)
        case LangsmithHubTarget():
            return _langsmith_hub(spec, place, env)
        case _:
            raise ConfigError(f"{place}: kind {spec.kind} cannot be opened yet")


def _git(spec: GitTarget, place: str, *, root: Path, work: Path, env: Mapping[str, str]) -> Harness:
    from connectors.harness.git import GitHarness  # noqa: PLC0415  (only if used)

    return GitHarness(root / spec.root, spec, work, place=place, environ=env)


def _langfuse(
    spec: LangfusePromptsTarget | LangfuseSkillsTarget, place: str, environ: Mapping[str, str]
) -> Harness:
    from connectors.harness.langfuse_api import LangfuseProject  # noqa: PLC0415  (only if used)
    from connectors.harness.langfuse_prompts import LangfusePromptsHarness  # noqa: PLC0415
    from connectors.harness.langfuse_skills import LangfuseSkillsHarness  # noqa: PLC0415

    env = Variables(environ, spec.env_prefix, place, spec.kind)
    found = spec.base_url or env.first("LANGFUSE_BASE_URL", "LANGFUSE_HOST")
    project = LangfuseProject(
        base_url=found or LANGFUSE_CLOUD,
        public_key=env.secret("LANGFUSE_PUBLIC_KEY"),
        secret_key=env.secret("LANGFUSE_SECRET_KEY"),
        timeout_s=spec.timeout_s,
        env_prefix=spec.env_prefix,
    )
    if isinstance(spec, LangfusePromptsTarget):
        return LangfusePromptsHarness(project, names=spec.names, label=spec.label)
    return LangfuseSkillsHarness(project, names=spec.names, label=spec.label)


def _langsmith_hub(spec: LangsmithHubTarget, place: str, environ: Mapping[str, str]) -> Harness:
    from connectors.harness.langsmith_calls import Access  # noqa: PLC0415  (only if used)
    from connectors.harness.langsmith_hub import LangsmithHubHarness  # noqa: PLC0415

    for key, names in (("prompts", spec.prompts), ("skills", spec.skills), ("agents", spec.agents)):
        if foreign := next((name for name in names if "/" in name), None):
            raise ConfigError(
                f"{place}.{key}: {foreign!r} names an owner; only the own workspace is edited, so "
                "give the name alone"
            )
    if spec.tag == "latest":
        raise ConfigError(
            f"{place}.tag: 'latest' is the newest commit, which nobody moves; give the tag that "
            "agents pull by, such as production"
        )
    env = Variables(environ, spec.env_prefix, place, spec.kind)
    found = spec.base_url or env.first("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
    access = Access(
        api_url=found or LANGSMITH_CLOUD,
        api_key=env.secret("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY"),
        key_name=f"{spec.env_prefix}LANGSMITH_API_KEY",
        workspace=spec.workspace or env.first("LANGSMITH_WORKSPACE_ID"),
        timeout_s=spec.timeout_s,
    )
    return LangsmithHubHarness(spec, access)
