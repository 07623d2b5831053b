"""Errors as a Langfuse server answers with them."""

from collections.abc import Mapping

from starlette.responses import JSONResponse

from contracts.json_types import Json


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, body: Mapping[str, Json]) -> None:
        super().__init__(status)
        self.response = JSONResponse(dict(body), status)


def invalid(field_name: str, why: str) -> Refusal:
    """What a body that the schema refuses gets."""
    error: Json = [{"code": "custom", "path": [field_name], "message": why}]
    return Refusal(400, {"message": "Invalid request data", "error": error})


def bad_request(why: str) -> Refusal:
    """What a request that makes no sense gets."""
    return Refusal(400, {"message": why, "error": "InvalidRequestError"})


def missing(why: str) -> Refusal:
    """What is asked of something that is not there."""
    return Refusal(404, {"message": why, "error": "LangfuseNotFoundError"})
