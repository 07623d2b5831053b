"""Scores, comments and experiments of a Langfuse project.

Source: Langfuse 4.16 public API (OpenAPI) and SDK 5.0.4: `POST scores` (upsert by id; newer servers
take a list alone), `comments` (no id: looked for first), and OTLP spans with the attributes
`langfuse.experiment.*`, from which the server makes experiments.
"""

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

from pydantic import SecretStr

from connectors.traces.calls import BadRequest, Budget, Calls
from connectors.traces.langfuse.paging import Api, numbered_pages
from connectors.traces.tree import OWN_ENVIRONMENT, RUN_ID
from contracts.errors import SourceError
from contracts.json_types import Json, sha256_hex
from contracts.publishing import Experiment, Mark, PublishedRun, published_id
from contracts.traces import OWN_SCORE

_HINT: Final = "check LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and the base URL"
_SCORES: Final = "/api/public/scores"
_COMMENTS: Final = "/api/public/comments"
_PROJECTS: Final = "/api/public/projects"
_OTLP: Final = "/api/public/otel/v1/traces"
MAX_COMMENT: Final = 2_000
SPANS_A_CALL: Final = 200


class LangfusePublisher:
    """Implements `contracts.publishing.Publisher` for the project of a key."""

    def __init__(
        self,
        *,
        base_url: str,
        public_key: SecretStr,
        secret_key: SecretStr,
        budget_s: float = 300,
        timeout_s: float = 60,
    ) -> None:
        """Nothing is opened before the first call.

        Args:
            base_url: of Langfuse Cloud's region or of a server of one's own.
            public_key: of the project, `pk-lf-...`.
            secret_key: of the project, `sk-lf-...`.
            budget_s: wall-clock time of one call of ours.
            timeout_s: of one request.
        """
        self.place = f"langfuse {base_url}"
        self._base_url = base_url
        self._public, self._secret = public_key, secret_key
        self._budget_s, self._timeout_s = budget_s, timeout_s

    async def scores(self, marks: Sequence[Mark]) -> int:
        """One boolean score a mark on its trace; a mark that is there is written over."""
        async with self._open() as calls:
            for mark in marks:
                await _score(calls, {
                    "id": mark.id, "traceId": mark.trace_id, "name": mark.name, "value": 1,
                    "dataType": "BOOLEAN", "comment": mark.text[:MAX_COMMENT],
                })  # fmt: skip
        return len(marks)

    async def comments(self, marks: Sequence[Mark]) -> int:
        """One comment a mark on its trace, unless one with the mark's id is there."""
        async with self._open() as calls:
            project = _first_id(await calls.get(_PROJECTS))
            new = 0
            for mark in marks:
                sign = f"({OWN_SCORE}{mark.id})"
                if await _said(calls, mark.trace_id, sign):
                    continue
                content = f"{mark.text[: MAX_COMMENT - len(sign) - 1]} {sign}"
                await calls.post(_COMMENTS, {
                    "projectId": project, "objectType": "TRACE", "objectId": mark.trace_id,
                    "content": content,
                })  # fmt: skip
                new += 1
        return new

    async def experiment(self, experiment: Experiment) -> int:
        """One span a run, in an environment that no reader of ours takes for evidence."""
        spans = [_span(experiment, run) for run in experiment.runs]
        async with self._open() as calls:
            for at in range(0, len(spans), SPANS_A_CALL):
                await calls.post(_OTLP, _request(spans[at : at + SPANS_A_CALL]))
            for run in experiment.runs:
                if run.passed is not None:
                    await _score(calls, {
                        "id": published_id("passed", run.id), "traceId": _trace_id(run),
                        "name": f"{OWN_SCORE}passed", "value": int(run.passed),
                        "dataType": "BOOLEAN", "environment": OWN_ENVIRONMENT,
                        "comment": "; ".join(run.failed)[:MAX_COMMENT] or None,
                    })  # fmt: skip
        return len(spans)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Calls]:
        both = f"{self._public.get_secret_value()}:{self._secret.get_secret_value()}"
        calls = Calls(
            backend="langfuse", base_url=self._base_url, key=both, limits={}, hint=_HINT,
            headers={
                "authorization": f"Basic {base64.b64encode(both.encode()).decode()}",
                "content-type": "application/json", "x-langfuse-ingestion-version": "4",
            },
            budget=Budget(self._budget_s), timeout_s=self._timeout_s,
        )  # fmt: skip
        try:
            yield calls
        finally:
            await calls.aclose()


async def _score(calls: Calls, score: dict[str, Json]) -> None:
    body: Json = {key: value for key, value in score.items() if value is not None}
    try:
        await calls.post(_SCORES, body)
    except BadRequest:
        await calls.post(_SCORES, [body])  # a server of SDK 5 and later takes a list alone


async def _said(calls: Calls, trace: str, sign: str) -> bool:
    """Whether a comment with the sign is on the trace."""
    params: dict[str, str | int] = {"objectType": "TRACE", "objectId": trace}
    pages = numbered_pages(Api(calls), _COMMENTS, params, limit=100, klass="general")
    async for page in pages:
        if any(sign in str(row.get("content")) for row in page):
            return True
    return False


def _first_id(answer: Json) -> str:
    rows = answer.get("data") if isinstance(answer, Mapping) else None
    first = rows[0] if isinstance(rows, list) and rows else None
    found = first.get("id") if isinstance(first, Mapping) else None
    if not isinstance(found, str):
        raise SourceError("langfuse: GET projects names no project", backend="langfuse",
                          operation="projects")  # fmt: skip
    return found


def _request(spans: Sequence[Json]) -> Json:
    resource = [_attribute("deployment.environment.name", OWN_ENVIRONMENT),
                _attribute("service.name", "tracemend")]  # fmt: skip
    scopes: list[Json] = [{"scope": {"name": "tracemend"}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": scopes}]}


def _span(experiment: Experiment, run: PublishedRun) -> Json:
    ended = experiment.at
    outcome = "missing" if run.passed is None else "passed" if run.passed else "failed"
    usage = {"input": run.input_tokens, "output": run.output_tokens}
    known = {key: value for key, value in usage.items() if value is not None}
    said: dict[str, str | None] = {
        "langfuse.environment": OWN_ENVIRONMENT,
        RUN_ID: run.id,
        "langfuse.observation.type": "generation" if known else "span",
        "langfuse.observation.input": json.dumps(run.input, ensure_ascii=False),
        "langfuse.observation.output": json.dumps({"run": outcome, "failed": list(run.failed)}),
        "langfuse.observation.usage_details": json.dumps(known) if known else None,
        "langfuse.observation.cost_details":
            None if run.cost_usd is None else json.dumps({"total": run.cost_usd}),
        "langfuse.trace.name": f"tracemend {run.case}",
        "langfuse.experiment.id": experiment.id,
        "langfuse.experiment.name": experiment.name,
        "langfuse.experiment.metadata": json.dumps(experiment.about),
        "langfuse.experiment.item.id": run.case,
        "langfuse.experiment.item.root_observation_id": _span_id(run),
    }  # fmt: skip
    return {
        "traceId": _trace_id(run), "spanId": _span_id(run), "name": "experiment-item-run",
        "kind": 1, "startTimeUnixNano": _nanos(ended - timedelta(seconds=run.seconds)),
        "endTimeUnixNano": _nanos(ended), "status": {"code": 1},
        "attributes": [_attribute(key, value) for key, value in said.items() if value is not None],
    }  # fmt: skip


def _attribute(key: str, value: str) -> Json:
    return {"key": key, "value": {"stringValue": value}}


def _trace_id(run: PublishedRun) -> str:
    return sha256_hex(f"trace\n{run.id}".encode())[:32]


def _span_id(run: PublishedRun) -> str:
    return sha256_hex(f"span\n{run.id}".encode())[:16]


def _nanos(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1_000_000) * 1_000)
