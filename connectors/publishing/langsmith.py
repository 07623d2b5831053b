"""Feedback and experiments of a LangSmith workspace.

Source: langsmith 0.15.1 (`create_feedback`, `create_project`, `batch_ingest_runs`). Feedback by API
upgrades a trace to the extended retention and bills it, unless `extend_trace_retention` is false.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import SecretStr

from connectors.datasets.items import vendor_id
from connectors.traces.calls import Budget, CallError, Calls
from connectors.traces.langsmith.server import Server, access_of, find_server, root_of
from connectors.traces.tree import OWN_ENVIRONMENT, RUN_ID
from contracts.errors import UsageError
from contracts.json_types import Json
from contracts.publishing import Experiment, Mark, PublishedRun, published_id
from contracts.traces import OWN_SCORE

_CONFLICT: Final = 409
MAX_COMMENT: Final = 2_000
RUNS_A_CALL: Final = 100
"""Of the vendor's bulk call."""


@dataclass(frozen=True, slots=True)
class _Opened:
    calls: Calls
    server: Server

    async def get(self, path: str, params: Mapping[str, str | int]) -> Json:
        return await self.calls.get(f"{self.server.prefix}{path}", params)

    async def post(self, path: str, body: Json) -> Json:
        return await self.calls.post(f"{self.server.prefix}{path}", body)


class LangSmithPublisher:
    """Implements `contracts.publishing.Publisher` for the workspace of a key."""

    def __init__(
        self,
        *,
        api_url: str,
        api_key: SecretStr,
        workspace_id: str | None = None,
        project: str | None = None,
        dataset: str | None = None,
        budget_s: float = 300,
        timeout_s: float = 60,
    ) -> None:
        """Nothing is asked before the first call.

        Args:
            api_url: of a region or of a self-hosted server, with or without `/api` or `/api/v1`.
            api_key: a workspace's key, or an organization's together with `workspace_id`.
            workspace_id: sent as `X-Tenant-Id`.
            project: name of the tracing project that the marked traces are in; newer servers
                cannot find a run without it.
            dataset: whose examples the runs of an experiment belong to; `tracemend cases export`
                writes them.
            budget_s: wall-clock time of one call of ours.
            timeout_s: of one request.
        """
        self.place = f"langsmith {api_url}"
        self._api_url, self._key, self._workspace = api_url, api_key, workspace_id
        self._project = project
        self._dataset, self._budget_s, self._timeout_s = dataset, budget_s, timeout_s

    async def scores(self, marks: Sequence[Mark]) -> int:
        """One feedback a mark on its run; the trace keeps its own retention."""
        async with self._open() as calls:
            session = await self._session(calls)
            for mark in marks:
                await _feedback(calls, {
                    "id": mark.id, "run_id": mark.span_id, "trace_id": mark.trace_id,
                    "session_id": session,
                    "key": mark.name, "score": 1, "comment": mark.text[:MAX_COMMENT],
                })  # fmt: skip
        return len(marks)

    async def comments(self, marks: Sequence[Mark]) -> int:
        """The same without a score: LangSmith keeps comments as feedback."""
        async with self._open() as calls:
            session = await self._session(calls)
            for mark in marks:
                await _feedback(calls, {
                    "id": published_id("comment", mark.id), "run_id": mark.span_id,
                    "session_id": session,
                    "trace_id": mark.trace_id, "key": mark.name,
                    "comment": mark.text[:MAX_COMMENT],
                })  # fmt: skip
        return len(marks)

    async def experiment(self, experiment: Experiment) -> int:
        """One run a run of the gate, in a project of its own beside the dataset.

        Raises:
            UsageError: no dataset was named, or it is not there.
        """
        if self._dataset is None:
            raise UsageError(
                "langsmith: an experiment belongs to a dataset; give --dataset NAME, to which "
                "`tracemend cases export langsmith:NAME` writes the cases"
            )
        async with self._open() as calls:
            dataset = await self._found(calls, self._dataset)
            await _once(calls, "/sessions", {
                "id": experiment.id, "name": experiment.name, "reference_dataset_id": dataset,
                "start_time": experiment.at.isoformat(),
                "extra": {"metadata": {**experiment.about, "environment": OWN_ENVIRONMENT}},
            })  # fmt: skip
            runs = [_run(experiment, run, self._dataset) for run in experiment.runs]
            for at in range(0, len(runs), RUNS_A_CALL):
                await _once(calls, "/runs/batch", {"post": list(runs[at : at + RUNS_A_CALL])})
            for run in experiment.runs:
                if run.passed is not None:
                    await _feedback(calls, {
                        "id": published_id("passed", run.id), "run_id": run.id,
                        "trace_id": run.id, "session_id": experiment.id,
                        "key": f"{OWN_SCORE}passed",
                        "score": int(run.passed),
                        "comment": "; ".join(run.failed)[:MAX_COMMENT] or None,
                    })  # fmt: skip
        return len(runs)

    async def _session(self, calls: _Opened) -> str | None:
        """Id of the tracing project; None: none is configured.

        Raises:
            UsageError: there is none of its name.
        """
        if self._project is None:
            return None
        rows = await calls.get("/sessions", {"name": self._project})
        found = _named(rows, self._project)
        if found is None:
            raise UsageError(f"langsmith: there is no tracing project {self._project!r}")
        return found

    async def _found(self, calls: _Opened, name: str) -> str:
        found = _named(await calls.get("/datasets", {"name": name}), name)
        if found is not None:
            return found
        raise UsageError(
            f"langsmith: there is no dataset {name!r}; write the cases there first: "
            f"`tracemend cases export langsmith:{name}`"
        )

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[_Opened]:
        key = self._key.get_secret_value()
        headers, hint = access_of(key, self._workspace)
        calls = Calls(
            backend="langsmith", base_url=root_of(self._api_url), key=key, limits={}, hint=hint,
            headers=headers, budget=Budget(self._budget_s), timeout_s=self._timeout_s,
        )  # fmt: skip
        try:
            yield _Opened(calls, await find_server(calls, self._api_url))
        finally:
            await calls.aclose()


def _named(rows: Json, name: str) -> str | None:
    """The id of the row of this name."""
    for row in rows if isinstance(rows, list) else []:
        found = row.get("id") if isinstance(row, Mapping) and row.get("name") == name else None
        if isinstance(found, str):
            return found
    return None


async def _feedback(calls: _Opened, said: dict[str, Json]) -> None:
    body: dict[str, Json] = {key: value for key, value in said.items() if value is not None}
    body["extend_trace_retention"] = False
    body["feedback_source"] = {"type": "api", "metadata": {"written_by": "tracemend"}}
    await _once(calls, "/feedback", body)


async def _once(calls: _Opened, path: str, body: Json) -> None:
    """Ids are made of content: what is there already is what we want to be there."""
    try:
        await calls.post(path, body)
    except CallError as error:
        if error.status != _CONFLICT:
            raise


def _run(experiment: Experiment, run: PublishedRun, dataset: str) -> Json:
    started = experiment.at - timedelta(seconds=run.seconds)
    outcome = "missing" if run.passed is None else "passed" if run.passed else "failed"
    inputs: Json = run.input if isinstance(run.input, Mapping) else {"input": run.input}
    return {
        "id": run.id, "trace_id": run.id, "dotted_order": f"{_dotted(started)}{run.id}",
        "name": "tracemend gate", "run_type": "chain", "session_id": experiment.id,
        "reference_example_id": vendor_id(dataset, run.case),
        "start_time": started.isoformat(), "end_time": experiment.at.isoformat(),
        "inputs": inputs, "outputs": {"run": outcome, "failed": list(run.failed)},
        "extra": {"metadata": {RUN_ID: run.id, "environment": OWN_ENVIRONMENT}},
    }  # fmt: skip


def _dotted(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")
