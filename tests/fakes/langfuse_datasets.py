"""Datasets of the fake Langfuse: made by name, items upserted by id, listed by numbered pages.

What a real 4.16 server answered to making both is in the recordings that the tests compare with.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from contracts.json_types import Json
from tests.fakes.langfuse_query import Row, whole_number

Answer = Callable[[Request, bytes], Response]


@dataclass(slots=True)
class LangfuseDatasets:
    """The datasets of one project."""

    project: str
    names: dict[str, Row] = field(default_factory=dict)
    items: list[Row] = field(default_factory=list)
    """Newest first, as they are listed; archived ones too."""
    media: bool = True
    """Whether items come with `mediaReferences`; servers before 4.16 do not send it."""
    between: Callable[[], None] | None = None
    """Called once after the first page of items: what somebody else does meanwhile."""

    def answers(self) -> dict[str, Answer]:
        """By path."""
        return {
            "/api/public/v2/datasets": self._datasets,
            "/api/public/v2/datasets/{name:path}": self._dataset,
            "/api/public/dataset-items": self._items,
            "/api/public/dataset-items/{id}": self._item,
        }

    def put(self, dataset: str, id: str, **columns: Json) -> Row:  # the API's name
        """Make or replace an item, as a person would in the pages of the vendor."""
        now = _now(len(self.items))
        old = next((row for row in self.items if row["id"] == id), None)
        row: Row = {
            "id": id, "datasetId": self.names[dataset]["id"], "datasetName": dataset,
            "status": "ACTIVE", "input": None, "expectedOutput": None, "metadata": None,
            "sourceTraceId": None, "sourceObservationId": None,
            "createdAt": old["createdAt"] if old else now, "updatedAt": now,
            **{key: value for key, value in columns.items() if value is not None},
        }  # fmt: skip
        if old is None:
            self.items.insert(0, row)
        else:
            self.items[self.items.index(old)] = row
        return row

    def make(self, name: str) -> Row:
        """A dataset; one of this name is found."""
        now = _now(0)
        return self.names.setdefault(
            name,
            {"id": f"ds-{len(self.names)}", "projectId": self.project, "name": name,
             "description": None, "metadata": None, "inputSchema": None,
             "expectedOutputSchema": None, "createdAt": now, "updatedAt": now},
        )  # fmt: skip

    def _datasets(self, request: Request, body: bytes) -> Response:
        if request.method != "POST":
            return _page(request, list(self.names.values()))
        name = _object(body).get("name")
        if not isinstance(name, str) or not name:
            return _invalid("name")
        return JSONResponse(self.make(name))

    def _dataset(self, request: Request, _: bytes) -> Response:
        found = self.names.get(request.path_params["name"])
        return JSONResponse(found) if found else _missing("Dataset not found")

    def _items(self, request: Request, body: bytes) -> Response:
        if request.method == "POST":
            return self._upsert(_object(body))
        name = request.query_params.get("datasetName")
        if name is not None and name not in self.names:
            return _missing("Dataset not found")
        rows = [row for row in self.items if name in (None, row["datasetName"])]
        answer = _page(request, [self._shown(row) for row in rows])
        meanwhile, self.between = self.between, None
        if meanwhile is not None:
            meanwhile()
        return answer

    def _item(self, request: Request, _: bytes) -> Response:
        found = [row for row in self.items if row["id"] == request.path_params["id"]]
        return JSONResponse(self._shown(found[0])) if found else _missing("Dataset item not found")

    def _upsert(self, given: Row) -> Response:
        dataset, key = given.get("datasetName"), given.get("id")
        if not isinstance(dataset, str) or dataset not in self.names:
            return _missing("Dataset not found")
        if key is not None and (not isinstance(key, str) or not 0 < len(key) <= 255):
            return _invalid("id")
        if "\\u0000" in json.dumps(given):
            return JSONResponse({"message": "Internal Server Error"}, 500)  # of its database
        key = key or f"cm{len(self.items):023d}"
        other = next((row for row in self.items if row["id"] == key), None)
        if other is not None and other["datasetName"] != dataset:
            return _missing(f"The dataset item with id {key} was not found in the dataset")
        names = ("input", "expectedOutput", "metadata", "sourceTraceId", "status")
        row = self.put(dataset, key, **{name: given.get(name) for name in names})
        return JSONResponse(self._shown(row))

    def _shown(self, row: Row) -> Row:
        return {**row, "mediaReferences": []} if self.media else dict(row)


def _object(body: bytes) -> Row:
    value = json.loads(body or b"{}")
    return value if isinstance(value, dict) else {}


def _page(request: Request, rows: list[Row]) -> Response:
    limit = whole_number(request.query_params, "limit", 50, 100)
    number = whole_number(request.query_params, "page", 1, None)
    page = rows[(number - 1) * limit : number * limit]
    meta = {"page": number, "limit": limit, "totalItems": len(rows),
            "totalPages": -(-len(rows) // limit)}  # fmt: skip
    return JSONResponse({"data": page, "meta": meta})


def _missing(message: str) -> Response:
    return JSONResponse({"message": message, "error": "LangfuseNotFoundError"}, 404)


def _invalid(field_name: str) -> Response:
    error = [{"code": "invalid_type", "path": [field_name], "message": "Invalid input"}]
    return JSONResponse({"message": "Invalid request data", "error": error}, 400)


def _now(number: int) -> str:
    moment = datetime.fromtimestamp(1_795_510_800 + number, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
