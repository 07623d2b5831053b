"""The harness from its settings."""

import os
from collections.abc import Mapping
from pathlib import Path

from configs.harness_settings import DirectoryTarget, HarnessSettings, Target
from connectors.harness.directory import DirectoryHarness
from connectors.harness.paths import Include
from connectors.harness.several import Place, Places
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
        case _:
            raise ConfigError(f"{place}: kind {spec.kind} cannot be opened yet")
