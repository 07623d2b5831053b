"""Prompts of a Langfuse project as files: `prompts/<name>.md`, and `.chat.md` for a chat.

Source: Langfuse 4.16 public API (OpenAPI, recorded answers, server source) and SDK 5.0.4:
`v2/prompts` lists names with versions and labels; `v2/prompts/{name}` gives one version by number
or label, with `resolve=false` as it was written; `POST v2/prompts` makes a version, which gets the
tags of the newest one and the label `latest`; `PATCH v2/prompts/{name}/versions/{n}` adds a label
and takes it from the version that had it. No call takes a label away, and none has a precondition.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

from connectors.harness.langfuse_api import LangfuseProject, Session, odd
from connectors.harness.langfuse_items import Item
from connectors.harness.langfuse_labelled import LAG_S, LabelledHarness
from connectors.harness.langfuse_versions import LATEST, Store, Version, moment, whole, words
from connectors.prompts.heads import Heads
from connectors.prompts.text import (
    PLACEHOLDER,
    PromptTextError,
    chat_messages,
    chat_text,
    is_chat,
    prompt_name,
    prompt_path,
)
from contracts.errors import PolicyRefused
from contracts.harness import HarnessFile
from contracts.json_types import Json

KIND: Final = "langfuse_prompts"
_PROMPTS: Final = "/api/public/v2/prompts"
_MESSAGE_TYPES: Final = (None, "chatmessage", "message")


class LangfusePromptsHarness(LabelledHarness):
    """The prompts under one label that patterns name. A prompt's config is kept as it is."""

    kind = KIND

    def __init__(
        self, project: LangfuseProject, *, names: Sequence[str], label: str, lag_s: float = LAG_S
    ) -> None:
        """Reach nothing.

        Args:
            project: which one, and its keys.
            names: patterns of names, with folders.
            label: that agents read and that is moved.
            lag_s: how long the server may go on to answer with what was.

        Raises:
            ConfigError: a pattern is unsafe, or the label is `latest`.
        """
        ends = (prompt_path(n, chat=chat) for n in names for chat in (False, True))
        target = project.target(KIND, label)
        super().__init__(target=target, patterns=tuple(ends), label=label, lag_s=lag_s)
        self._project = project
        self._names = tuple(names)

    async def heads(self) -> Heads:
        """The config of each prompt by its path, and the label that it is read by."""
        async with self._open() as store:
            look = await self._look(store)
        return {
            path: {
                **(version.beside if isinstance(version.beside, dict) else {}),
                "labels": [self._label], "latest": False, "version": version.number,
            }
            for version in look.versions.values()
            for path in version.files
        }  # fmt: skip

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Store]:
        async with self._project.open() as session:
            yield PromptStore(session)

    def _name_of(self, path: str) -> str:
        return prompt_name(path)

    def _wanted(self, name: str) -> bool:
        return self._include.matches(prompt_path(name, chat=False))

    def _named(self) -> Sequence[str]:
        return [name for name in self._names if not set(name) & set("*?[")]

    def _check_item(self, item: Item) -> None:
        if set(item.old) != set(item.new):
            raise PolicyRefused(
                f"{', '.join(item.paths)}: a text prompt cannot become a chat prompt, nor the "
                "other way round; Langfuse keeps the kind of a name for ever"
            )
        for path, file in item.new.items():
            try:
                written = _prompt(path, file)
            except (UnicodeDecodeError, PromptTextError) as error:
                raise PolicyRefused(f"{path}: cannot be a prompt: {error}") from error
            if is_chat(path) and chat_text(_messages(written)) != file.data.decode():
                raise PolicyRefused(
                    f"{path}: a chat prompt ends each message with one line break, and a "
                    "placeholder has no text; write it so"
                )


class PromptStore:
    """Implements `langfuse_versions.Store` for prompts."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def names(self) -> Sequence[str]:
        """All prompts of the project."""
        rows = await self._session.rows(_PROMPTS)
        return sorted({name for row in rows if isinstance(name := row.get("name"), str)})

    async def labelled(self, name: str, label: str) -> Version | None:
        """What a reader by the label gets."""
        return await self._get(name, {"label": label, "resolve": "false"})

    async def numbered(self, name: str, number: int) -> Version | None:
        """One version, as it was written."""
        version = await self._get(name, {"version": number, "resolve": "false"})
        if version is not None and version.number != number:
            why = f"asked for version {number} of {name!r}, answers with {version.number}"
            raise odd("GET of a prompt", why)
        return version

    async def numbers(self, name: str) -> Sequence[int]:
        """Newest first."""
        rows = await self._session.rows(_PROMPTS, {"name": name})
        found: set[int] = set()
        for row in rows:
            versions = row.get("versions")
            if row.get("name") == name and isinstance(versions, list):
                found |= {whole(one, "GET of prompts") for one in versions}
        return sorted(found, reverse=True)

    async def create(
        self, name: str, files: Mapping[str, HarnessFile], base: Version | None, message: str
    ) -> int:
        """A version with the text, and with the config of `base`."""
        [(path, file)] = files.items()
        beside = base.beside if base is not None and isinstance(base.beside, dict) else {}
        body: dict[str, Json] = {
            "name": name, "type": "chat" if is_chat(path) else "text",
            "prompt": _prompt(path, file), "config": beside.get("config"), "labels": [],
            "commitMessage": message,
        }  # fmt: skip
        made = await self._session.write("POST", _PROMPTS, body)
        return whole(made.get("version"), "POST of a prompt")

    async def label(self, version: Version, label: str) -> None:
        """One call moves it; the version keeps its other labels."""
        path = f"{_PROMPTS}/{quote(version.name, safe='')}/versions/{version.number}"
        await self._session.write("PATCH", path, {"newLabels": [label]})

    async def unlabel(self, version: Version, label: str, *, instead: str) -> None:
        """Refused."""
        del instead
        raise PolicyRefused(f"{version.name}: Langfuse has no call that takes {label} from it")

    async def _get(self, name: str, params: Mapping[str, str | int]) -> Version | None:
        row = await self._session.find(f"{_PROMPTS}/{quote(name, safe='')}", params)
        if row is None:
            return None
        if row.get("name") != name:
            raise odd("GET of a prompt", f"asked for {name!r}, answers with another one")
        return _version(row, name)


def _version(row: Mapping[str, Json], name: str) -> Version:
    files, problem = _files(row, name)
    message, by = row.get("commitMessage"), row.get("createdBy")
    return Version(
        name=name, number=whole(row.get("version"), "GET of a prompt"), files=files,
        labels=words(row.get("labels")) - {LATEST}, beside={"config": row.get("config")},
        message=message if isinstance(message, str) else "", at=moment(row.get("createdAt")),
        by=by if isinstance(by, str) else None, problem=problem,
    )  # fmt: skip


def _files(row: Mapping[str, Json], name: str) -> tuple[dict[str, HarnessFile], str | None]:
    """The prompt as a file, or why it cannot be one."""
    chat = row.get("type") == "chat"
    path = prompt_path(name, chat=chat)
    if is_chat(path) != chat or prompt_name(path) != name:
        return {}, "its name ends like the file of a chat prompt"
    try:
        return {path: HarnessFile(data=_text(row.get("prompt"), chat=chat).encode())}, None
    except (PromptTextError, UnicodeEncodeError) as error:
        return {}, str(error)


def _text(written: Json, *, chat: bool) -> str:
    """The text of a prompt; of a chat, all its messages.

    Raises:
        PromptTextError: there is more to it than a text can say.
    """
    if chat:
        messages = _messages(written)
        text = chat_text(messages)
        if chat_messages(text) != messages:
            raise PromptTextError("its messages cannot be written as one text")
        return text
    if not isinstance(written, str):
        raise PromptTextError("it is neither a text nor a chat")
    return written


def _messages(written: Json) -> list[dict[str, Json]]:
    """The messages of a chat as `chat_messages` gives them.

    Raises:
        PromptTextError: one has more to it than a role and a text, which an edit would lose.
    """
    if not isinstance(written, list):
        raise PromptTextError("it is no list of messages")
    messages: list[dict[str, Json]] = []
    for number, one in enumerate(written, 1):
        if not isinstance(one, dict):
            raise PromptTextError(f"message {number} is none")
        placeholder = one.get("type") == PLACEHOLDER
        keys = ("type", "name") if placeholder else ("role", "content")
        if set(one) - {"type", *keys} or not (placeholder or one.get("type") in _MESSAGE_TYPES):
            raise PromptTextError(f"message {number} has more to it than a role and a text")
        messages.append({key: one.get(key) for key in keys})
    return messages


def _prompt(path: str, file: HarnessFile) -> Json:
    """What is written for a file.

    Raises:
        PromptTextError: it is no chat prompt though its path says so, or holds a NUL.
        UnicodeDecodeError: it is not UTF-8.
    """
    text = file.data.decode()
    if "\0" in text:
        raise PromptTextError("it holds a NUL character")
    if not is_chat(path):
        return text
    return [dict(message) for message in chat_messages(text)]
