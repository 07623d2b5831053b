"""What the fake Langfuse makes of its query parameters: checks, filters, field groups, cursors."""

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from starlette.datastructures import QueryParams

from contracts.json_types import Json

Row = Mapping[str, Json]
Keep = Callable[[Row], bool]

GROUPS: Mapping[str, tuple[str, ...]] = {
    "core": ("id", "traceId", "startTime", "endTime", "projectId", "parentObservationId", "type"),
    "basic": ("name", "level", "statusMessage", "version", "environment", "bookmarked", "public",
              "userId", "sessionId", "isRootObservation"),
    "time": ("completionStartTime", "createdAt", "updatedAt"),
    "io": ("input", "output"),
    "metadata": ("metadata",),
    "model": ("model", "internalModelId", "modelParameters"),
    "usage": ("usageDetails", "inputUsage", "outputUsage", "totalUsage", "costDetails", "inputCost",
              "outputCost", "totalCost", "usagePricingTierId", "usagePricingTierName"),
    "prompt": ("promptId", "promptName", "promptVersion"),
    "metrics": ("latency", "timeToFirstToken"),
    "trace_context": ("traceName", "release", "tags"),
}  # fmt: skip
ALWAYS = ("modelId", "inputPrice", "outputPrice", "totalPrice")
UNASKED = "basic,metrics"  # as recorded; documented are core and basic
LEVELS = ("DEBUG", "DEFAULT", "WARNING", "ERROR")
_SIMPLE = {
    "name": "name", "userId": "userId", "sessionId": "sessionId", "type": "type",
    "traceId": "traceId", "level": "level", "version": "version",
}  # fmt: skip
_NEEDS_MATCH = "Input/output filters require at least one `matches` or `=` operator."


class Invalid(Exception):
    """Answered with 400 and this body."""

    def __init__(self, body: Mapping[str, Json]) -> None:
        super().__init__(str(body))
        self.body = body


def invalid(path: str, message: str, code: str = "custom") -> Invalid:
    error: list[Json] = [{"code": code, "path": [path], "message": message}]
    return Invalid({"message": "Invalid request data", "error": error})


def whole_number(params: QueryParams, key: str, default: int, most: int | None) -> int:
    given = params.get(key)
    if given is None or given in ("", "null"):
        return default
    try:
        number = int(given)
    except ValueError as error:
        message = "Invalid input: expected number, received NaN"
        raise invalid(key, message, "invalid_type") from error
    if number < 1:
        raise invalid(key, "Too small: expected number to be >=1", "too_small")
    if most is not None and number > most:
        raise Invalid({"message": "Invalid request data", "error": [
            {"origin": "number", "code": "too_big", "maximum": most, "inclusive": True,
             "path": [key], "message": f"Too big: expected number to be <={most}"}]})  # fmt: skip
    return number


def instant(params: QueryParams, key: str) -> datetime | None:
    given = params.get(key)
    if given is None or given in ("", "null"):
        return None
    return _instant(given, key)


def _instant(given: Json, key: str) -> datetime:
    try:
        when = datetime.fromisoformat(str(given))
    except ValueError as error:
        raise invalid(key, "Invalid ISO datetime", "invalid_format") from error
    if when.tzinfo is None:
        raise invalid(key, "Invalid ISO datetime", "invalid_format")
    return when.astimezone(UTC)


def at(row: Row, key: str) -> datetime:
    return datetime.fromisoformat(str(row[key]))


def kept(params: QueryParams) -> Keep:
    """The rows that the parameters of observations v2 ask for; `filter` overrides the others."""
    if params.get("parseIoAsJson", "").lower() == "true":
        raise invalid("parseIoAsJson", "parseIoAsJson is no longer supported")
    if params.get("level") not in (None, "", "null", *LEVELS):
        raise invalid("level", "Invalid option", "invalid_value")
    given = params.get("filter")
    if given not in (None, "", "null"):
        rules = [_rule(item) for item in _items(str(given))]
        return lambda row: all(rule(row) for rule in rules)
    return _simple(params)


def _simple(params: QueryParams) -> Keep:
    begin, end = instant(params, "fromStartTime"), instant(params, "toStartTime")
    same = {column: params[key] for key, column in _SIMPLE.items() if params.get(key)}
    places = [one for one in params.getlist("environment") if one]
    parent = params.get("parentObservationId")
    root = params.get("isRootObservation")
    if root not in (None, "", "null", "true", "false"):
        raise invalid("isRootObservation", "expected boolean", "invalid_type")

    def keep(row: Row) -> bool:
        return (
            (begin is None or at(row, "startTime") >= begin)
            and (end is None or at(row, "startTime") < end)
            and all(row.get(column) == value for column, value in same.items())
            and (not places or row.get("environment") in places)
            and (parent is None or (row.get("parentObservationId") or "") == parent)
            and (root not in ("true", "false") or row.get("isRootObservation") is (root == "true"))
        )

    return keep


def named_ids(params: QueryParams) -> tuple[str, list[str]] | None:
    """(column, ids) where the parameters name the traces or rows that may be given."""
    given = params.get("filter")
    if given in (None, "", "null"):
        return ("traceId", [params["traceId"]]) if params.get("traceId") else None
    for item in _items(str(given)):
        value, column = item.get("value"), item.get("column")
        if item.get("operator") == "any of" and column in ("id", "traceId"):
            return str(column), list(dict.fromkeys(map(str, value))) if isinstance(
                value, list
            ) else []
    return None


def _items(given: str) -> Sequence[Mapping[str, Json]]:
    try:
        items = json.loads(given)
    except ValueError as error:
        raise invalid("filter", "Invalid JSON in filter") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise invalid("filter", "expected an array of filter conditions")
    io = [item for item in items if item.get("column") in ("input", "output")]
    if io and not any(item.get("operator") in ("=", "matches") for item in io):
        raise Invalid({"message": _NEEDS_MATCH, "error": "InvalidRequestError"})
    return items


def _rule(item: Mapping[str, Json]) -> Keep:
    column, operator, value = item.get("column"), item.get("operator"), item.get("value")
    if not isinstance(column, str):
        raise invalid("filter", "Invalid column")
    test: Callable[[Json], bool] | None = None
    match item.get("type"), operator:
        case "stringOptions", "any of" if isinstance(value, list):
            test = lambda cell: cell in value  # noqa: E731
        case "stringOptions", "none of" if isinstance(value, list):
            test = lambda cell: cell not in value  # noqa: E731
        case "datetime", (">" | "<" | ">=" | "<="):
            limit = _instant(value, "filter")
            test = lambda cell: _compared(datetime.fromisoformat(str(cell)), str(operator), limit)  # noqa: E731
        case "string", "=":
            test = lambda cell: cell == value  # noqa: E731
        case "string", ("contains" | "matches"):
            test = lambda cell: str(value).lower() in str(cell or "").lower()  # noqa: E731
        case "boolean", ("=" | "<>"):
            test = lambda cell: (cell is value) == (operator == "=")  # noqa: E731
        case "null", ("is null" | "is not null"):
            test = lambda cell: (cell in (None, "")) == (operator == "is null")  # noqa: E731
    if test is None:
        raise invalid("filter", "Invalid filter condition")
    asked = test
    return lambda row: asked(row.get(column))


def _compared(left: datetime, operator: str, right: datetime) -> bool:
    return {">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}[
        operator
    ]


def selected(row: Row, fields: str | None) -> dict[str, Json]:
    """The asked-for field groups of a row; groups not asked for are absent, prices are null."""
    groups = {"core", *(fields or UNASKED).split(",")}
    out = {key: row[key] for group, keys in GROUPS.items() if group in groups for key in keys
           if key in row}  # fmt: skip
    return {**out, **{key: row.get(key) if "model" in groups else None for key in ALWAYS}}


def place_of(row: Row) -> tuple[str, str, str]:
    """Where a row stands in the order, which is newest first."""
    return str(row["startTime"]), str(row["traceId"]), str(row["id"])


def write_cursor(place: tuple[str, str, str], turn: int) -> str:
    """As the server does, with how many pages came before."""
    start, trace, row = place
    document = {"lastStartTimeTo": start, "lastTraceId": trace, "lastId": row, "n": turn}
    return base64.b64encode(json.dumps(document).encode()).decode()


def read_cursor(given: str | None) -> tuple[tuple[str, str, str] | None, int]:
    if given is None or given in ("", "null"):
        return None, 0
    try:
        found = json.loads(base64.b64decode(given, validate=True))
        place = (found["lastStartTimeTo"], found["lastTraceId"], found["lastId"])
        return place, int(found.get("n", 0))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise invalid("cursor", "Invalid cursor format") from error


def words(params: QueryParams, key: str) -> list[str]:
    """A parameter of values joined by commas."""
    return [one for one in (params.get(key) or "").split(",") if one]


def ordered(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=place_of, reverse=True)
