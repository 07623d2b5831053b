"""A probe whose agent finds a vendor's prompts whole: the arm's text, and all that goes with it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from connectors.probe.wire import clean
from connectors.prompts.heads import Heads, ServingError, served, served_path
from contracts.errors import ConnectorError, ProbeError
from contracts.harness import HarnessFile, HarnessSnapshot, Observation, Revision
from contracts.json_types import Json
from contracts.protocols import Probe

ReadHeads = Callable[[], Awaitable[Heads]]


class ManagedPromptsProbe:
    """Implements `contracts.protocols.Probe` around another one.

    The inner probe is handed the harness with `prompts/<name>.json` beside each text that stands
    in a vendor's prompt management. What goes with a text (a config, a model, labels) is what the
    vendor has when the probe is opened, the same for both arms.
    """

    def __init__(self, inner: Probe, read_heads: ReadHeads) -> None:
        """Read nothing yet.

        Args:
            inner: runs the agent.
            read_heads: asks the vendors.
        """
        self._inner = inner
        self._read_heads = read_heads
        self._heads: Heads = {}
        self._whole: dict[Revision, HarnessSnapshot | str] = {}

    async def __aenter__(self) -> Self:
        """Ask the vendors, then open the inner probe.

        Raises:
            ProbeError: a vendor cannot be read; no run would be what production is.
        """
        try:
            self._heads = await self._read_heads()
        except ConnectorError as error:
            raise ProbeError(
                f"probe: what goes with the prompts cannot be read: {error}", backend="probe",
                operation="run", retryable=error.retryable,
            ) from error  # fmt: skip
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the inner probe."""
        await self._inner.__aexit__(kind, error, trace)

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Run once; missing where the vendor could not keep one of the texts."""
        revision = harness.revision
        if revision not in self._whole:
            self._whole[revision] = whole(harness, self._heads)
        found = self._whole[revision]
        if isinstance(found, str):
            return Observation(missing=f"prompts: {clean(found, 200)}")
        return await self._inner.run(case_input, found, seed=seed, deadline_s=deadline_s)


def whole(harness: HarnessSnapshot, heads: Heads) -> HarnessSnapshot | str:
    """The harness with the prompts that have a head as JSON; why not, where one cannot be."""
    made: dict[str, HarnessFile] = {}
    for path, head in heads.items():
        file = harness.files.get(path)
        if file is None:
            continue
        try:
            made[served_path(path)] = HarnessFile(data=served(path, file.data, head))
        except ServingError as error:
            return str(error)
    files: Mapping[str, HarnessFile] = {**harness.files, **made}
    return replace(harness, files=files)
