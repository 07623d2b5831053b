"""The OpenAPI document, for callers who may call at all."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from graph.server.deps import PrincipalDep

router = APIRouter()


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, caller: PrincipalDep) -> JSONResponse:
    """Every route, its roles' refusals and its answers."""
    del caller
    return JSONResponse(request.app.openapi())
