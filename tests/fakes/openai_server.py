"""An OpenAI-compatible server on loopback: answers in turn, well or badly, keeps what it got."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contracts.json_types import Json

KEY = "sk-over-the-wire"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. `body` is sent as it is, for what is no answer at all."""

    content: str | None = None
    arguments: str | None = None
    """Of a call to the tool that the request names (or `tool`)."""
    tool: str | None = None
    refusal: str | None = None
    status: int = 200
    body: bytes | None = None
    finish: str = "stop"
    wait_s: float = 0.0


@dataclass(slots=True)
class OpenAIServer:
    """`POST /v1/chat/completions`, for one key. Past its last reply it answers 500."""

    replies: Sequence[Reply]
    schemas: bool = True
    """False: a request with `response_format` or tools is a 400, as some servers answer."""
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self._answer, methods=["POST"])])

    async def _answer(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return _error(401, "Incorrect API key provided")
        body: dict[str, Any] = json.loads(await request.body())
        shaped = "response_format" in body or "tools" in body
        if shaped and not self.schemas:
            return _error(400, "response_format is not supported by this model")
        number = len(self.asked)
        self.asked.append(body)
        if number >= len(self.replies):
            return _error(500, "no reply is left")
        reply = self.replies[number]
        await asyncio.sleep(reply.wait_s)
        if reply.body is not None:
            return Response(reply.body, reply.status, media_type="application/json")
        if reply.status != 200:
            return _error(reply.status, "try again later")
        return JSONResponse(_completion(body, reply))


def _completion(body: dict[str, Any], reply: Reply) -> Json:
    message: dict[str, Json] = {"role": "assistant", "content": reply.content,
                                "refusal": reply.refusal}  # fmt: skip
    if reply.arguments is not None:
        offered = body.get("tools") or [{"function": {"name": "nothing"}}]
        name = reply.tool or offered[0]["function"]["name"]
        called: Json = {"id": "call_1", "type": "function",
                        "function": {"name": name, "arguments": reply.arguments}}  # fmt: skip
        message["tool_calls"] = [called]
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish,
                     "logprobs": None}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000},
    }  # fmt: skip


def _error(status: int, message: str) -> Response:
    said: Json = {"error": {"message": message, "type": "error", "param": None, "code": None}}
    return JSONResponse(said, status)
