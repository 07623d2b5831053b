"""The routes of the Agent Protocol, together."""

from importlib.metadata import version

from fastapi import APIRouter
from starlette.responses import Response

from graph.server.deps import PrincipalDep
from graph.server.protocol import assistants, runs, states, threads, unsupported
from graph.server.protocol.live import lifespan
from graph.server.protocol.shapes import Answer

router = APIRouter(lifespan=lifespan, tags=["Agent Protocol"])


@router.get("/ok")
async def ok() -> Response:
    """The server answers. Whether it can work says /readyz."""
    return Answer({"ok": True})


@router.get("/info")
async def info(caller: PrincipalDep) -> Response:
    """Versions and what is supported; `strict_resume`: an id that waits for nothing is refused."""
    del caller
    return Answer({
        "version": version("tracemend"), "langgraph_py_version": version("langgraph"),
        "flags": {"assistants": True, "crons": False, "langsmith": False, "strict_resume": True},
        "host": {"kind": "self-hosted"},
    })  # fmt: skip


for part in (unsupported, assistants, states, runs, threads):
    router.include_router(part.router)
