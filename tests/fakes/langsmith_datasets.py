"""Datasets of the fake LangSmith: found by name, examples listed by offset and written in bulk."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import Request

from contracts.json_types import Json

Body = dict[str, Json]
Refuse = Callable[[int, str], Exception]


@dataclass(slots=True)
class LangSmithDatasets:
    """The datasets of one workspace."""

    refuse: Refuse
    """Makes the error that the server answers with this status and detail."""
    datasets: list[Body] = field(default_factory=list)
    examples: list[Body] = field(default_factory=list)
    """Newest first, as they are listed."""
    between: Callable[[], None] | None = None
    """Called once after the first page: what somebody else does meanwhile."""
    lose: int = 0
    """So many bulks are stored, and answered with 502."""

    def answers(self) -> dict[str, Callable[[Request, Json], Json]]:
        """By path under the prefix."""
        return {
            "/datasets": self._datasets,
            "/examples": self._examples,
            "/examples/bulk": self._bulk,
        }

    def make(self, name: str) -> str:
        """A dataset of key-value examples; its id."""
        key = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
        self.datasets.append(
            {"id": key, "name": name, "data_type": "kv", "tenant_id": str(uuid.UUID(int=1)),
             "created_at": "2026-11-30T10:00:00+00:00", "description": None, "extra": {},
             "example_count": 0, "session_count": 0}
        )  # fmt: skip
        return key

    def put(self, dataset: str, inputs: Json, outputs: Json = None, **columns: Json) -> Body:
        """An example, as a person would make it in the pages of the vendor."""
        row: Body = {
            "id": str(uuid.uuid4()), "dataset_id": dataset, "inputs": inputs, "outputs": outputs,
            "metadata": {"dataset_split": ["base"]}, "source_run_id": None,
            "name": f"#{len(self.examples)}", "created_at": "2026-11-30T10:00:00+00:00",
            "modified_at": "2026-11-30T10:00:00+00:00", "attachment_urls": None, **columns,
        }  # fmt: skip
        self.examples.insert(0, row)
        return row

    def _datasets(self, request: Request, body: Json) -> Json:
        if request.method != "POST":
            named = request.query_params.get("name")
            return [row for row in self.datasets if named in (None, row["name"])]
        name = body.get("name") if isinstance(body, dict) else None
        if not isinstance(name, str) or any(row["name"] == name for row in self.datasets):
            raise self.refuse(409, "Dataset with this name already exists.")
        key = self.make(name)
        return next(row for row in self.datasets if row["id"] == key)

    def _examples(self, request: Request, _: Json) -> Json:
        params = request.query_params
        limit, offset = int(params.get("limit", "100")), int(params.get("offset", "0"))
        if not 1 <= limit <= 100:
            raise self.refuse(422, "limit: Input should be less than or equal to 100")
        rows = [row for row in self.examples if row["dataset_id"] == params.get("dataset")]
        page: Json = rows[offset : offset + limit]
        meanwhile, self.between = self.between, None
        if meanwhile is not None:
            meanwhile()
        return page

    def _bulk(self, _: Request, body: Json) -> Json:
        given = [row for row in body if isinstance(row, dict)] if isinstance(body, list) else []
        held = {row["id"] for row in self.examples}
        known = {row["id"] for row in self.datasets}
        for row in given:
            if row.get("dataset_id") not in known:
                raise self.refuse(404, "Dataset not found")
            if row.get("id") in held:
                raise self.refuse(409, f"Example with id {row['id']} already exists")
            if not isinstance(row.get("inputs"), dict):
                raise self.refuse(422, "inputs: Input should be a valid dictionary")
            if not isinstance(row.get("outputs", {}), dict):
                raise self.refuse(422, "outputs: Input should be a valid dictionary")
            uuid.UUID(str(row.get("source_run_id") or uuid.UUID(int=0)))
        made: list[Json] = [
            self.put(
                str(row["dataset_id"]), row["inputs"], row.get("outputs"),
                id=row.get("id") or str(uuid.uuid4()), source_run_id=row.get("source_run_id"),
                metadata={**_metadata(row), "dataset_split": ["base"]},
            )
            for row in given
        ]  # fmt: skip
        if self.lose:
            self.lose -= 1
            raise self.refuse(502, "Bad Gateway")
        return made


def _metadata(row: Body) -> Body:
    metadata = row.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
