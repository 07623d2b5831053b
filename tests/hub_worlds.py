"""LangSmith's hub in a few words: manifests as LangChain writes them, and a served fake."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.load import dumpd
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from configs.harness_settings import LangsmithHubTarget
from connectors.harness.langsmith_calls import Access
from connectors.harness.langsmith_hub import LangsmithHubHarness
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from tests.fakes.langsmith_hub import FakeHub

CHAT = (
    "=== system ===\nYou help {name}.\nBe brief.\n=== placeholder history ===\n"
    "=== user ===\n{question}\n=== assistant ===\nFine.\n"
)


def text_manifest(text: str, template_format: Any = "f-string") -> Json:
    """A text prompt."""
    return cast("Json", dumpd(PromptTemplate.from_template(text, template_format=template_format)))


def chat_manifest(system: str = "You help {name}.\nBe brief.") -> Json:
    """A chat with a template, a place, another template and a plain message."""
    messages: Sequence[Any] = [
        ("system", system), MessagesPlaceholder("history", optional=True), ("human", "{question}"),
        AIMessage("Fine."),
    ]  # fmt: skip
    return cast("Json", dumpd(ChatPromptTemplate.from_messages(messages)))


def with_model(manifest: Json) -> Json:
    """The prompt and the model that it was saved with, as the hub keeps them."""
    model = {
        "lc": 1, "type": "constructor", "id": ["langchain", "chat_models", "openai", "ChatOpenAI"],
        "kwargs": {
            "model": "gpt-5-mini", "temperature": 0.2,
            "openai_api_key": {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]},
        },
    }  # fmt: skip
    binding = {
        "lc": 1, "type": "constructor",
        "id": ["langchain", "schema", "runnable", "RunnableBinding"],
        "kwargs": {"bound": model, "kwargs": {"tools": [{"type": "function"}]}, "config": {}},
    }  # fmt: skip
    sequence: Mapping[str, Any] = {
        "lc": 1, "type": "constructor",
        "id": ["langchain", "schema", "runnable", "RunnableSequence"],
        "kwargs": {"first": manifest, "last": binding},
    }  # fmt: skip
    return cast("Json", sequence)


class Hubs:
    """Several fakes behind one server, told apart by the key of a request."""

    def __init__(self) -> None:
        self.url = ""
        self._apps: dict[str, ASGIApp] = {}

    def add(self, hub: FakeHub) -> FakeHub:
        """Serve it under a key of its own."""
        hub.key = f"lsv2_pt_{len(self._apps)}"
        self._apps[hub.key] = hub.app()
        return hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(cast("Sequence[tuple[bytes, bytes]]", scope["headers"]))
        key = headers.get(b"x-api-key", b"").decode()
        await self._apps.get(key, next(iter(self._apps.values())))(scope, receive, send)


def access_of(url: str, hub: FakeHub, **more: Any) -> Access:
    """What opens a fake."""
    return Access(api_url=url, api_key=SecretStr(hub.key), **{"timeout_s": 5.0, **more})


def harness_of(
    url: str, hub: FakeHub, access: Access | None = None, sleep: Any = asyncio.sleep, **spec: Any
) -> LangsmithHubHarness:
    """The harness of a fake."""
    target = LangsmithHubTarget(kind="langsmith_hub", **spec)
    return LangsmithHubHarness(target, access or access_of(url, hub), sleep=sleep)


async def at_once(seconds: float) -> None:
    """Wait for nothing."""
    del seconds


async def edited(
    harness: LangsmithHubHarness, old: str, new: str
) -> tuple[HarnessSnapshot, HarnessSnapshot]:
    """What the harness holds, and the same with a text replaced in every file."""
    before = await harness.read()
    files = {p: f.data.replace(old.encode(), new.encode()) for p, f in before.files.items()}
    return before, HarnessSnapshot(files={p: HarnessFile(data=d) for p, d in files.items()})
