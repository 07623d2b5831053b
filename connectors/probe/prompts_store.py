"""The managed prompts of a harness: what `prompts/<name>.json` and text files hold."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, cast

from connectors.prompts.text import (
    CHAT_SUFFIX,
    PromptTextError,
    chat_messages,
    is_chat,
    prompt_name,
)
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, sha256_hex

FOLDER: Final = "prompts/"
MAX_DEPTH: Final = 10
"""Of prompts within prompts."""
_INSERT: Final = re.compile(r"@@@langfusePrompt:(.*?)@@@")
TemplateFormat = Literal["f-string", "mustache", "jinja2"]


class PromptError(ValueError):
    """A prompt of the harness cannot be served; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPrompt:
    """One prompt as the harness has it. `prompt` is None where only a manifest is known."""

    name: str
    prompt: str | Sequence[Mapping[str, Json]] | None
    """A text, or the messages of a chat."""
    config: Json
    labels: tuple[str, ...]
    """None are given: every label reads it."""
    tags: tuple[str, ...]
    version: int
    """As the file says; 1 where it says nothing."""
    manifest: Mapping[str, Json] | None
    """What LangSmith keeps of a prompt."""
    template_format: TemplateFormat
    commit: str
    """64 hex digits that change with the file."""
    latest: bool = True
    """Whether an agent that asks for the newest version reads the prompt, too."""

    def under(self, label: str) -> bool:
        """Whether an agent that asks for this label reads the prompt."""
        newest = label == "latest" and self.latest
        return not self.labels or newest or label in self.labels


class PromptFiles:
    """Reads prompts off one snapshot of the harness."""

    def __init__(self, snapshot: HarnessSnapshot) -> None:
        self._files = {path: file.data for path, file in snapshot.files.items()}

    def names(self) -> Iterator[str]:
        """Of the prompts under `prompts/`, sorted."""
        found: set[str] = set()
        for path in self._files:
            stem, dot, ending = path.removeprefix(FOLDER).rpartition(".")
            if path.startswith(FOLDER) and dot and ending in ("json", "md", "txt"):
                found.add(prompt_name(path) if is_chat(path) else stem)
        yield from sorted(found)

    def get(self, name: str) -> StoredPrompt | None:
        """The prompt: `prompts/<name>` with .json, .chat.md, .md or .txt, else `<name>.md`.

        Raises:
            PromptError: there is such a file and it is no prompt.
        """
        for path in (f"{FOLDER}{name}.json", f"{FOLDER}{name}{CHAT_SUFFIX}", f"{FOLDER}{name}.md",
                     f"{FOLDER}{name}.txt", f"{name}.md", name):  # fmt: skip
            data = self._files.get(path)
            if data is not None and not (is_chat(path) and prompt_name(path) != name):
                return _prompt(name, path, data)
        return None

    def folder(self, path: str) -> Mapping[str, bytes]:
        """The files below a folder of the harness, by their path in it."""
        return {
            name.removeprefix(path): data
            for name, data in self._files.items()
            if name.startswith(path)
        }

    def resolved(self, stored: StoredPrompt) -> StoredPrompt:
        """The prompt with the prompts that it names put in, as Langfuse does it.

        Raises:
            PromptError: one of them is not there, is a chat, or names itself.
        """
        prompt = stored.prompt
        if isinstance(prompt, str):
            return replace(stored, prompt=self._filled(prompt, (stored.name,)))
        if prompt is None:
            return stored
        filled = [
            {k: self._filled(v, (stored.name,)) if isinstance(v, str) else v for k, v in m.items()}
            for m in prompt
        ]
        return replace(stored, prompt=filled)

    def _filled(self, text: str, within: tuple[str, ...]) -> str:
        def put_in(found: re.Match[str]) -> str:
            name = dict(p.partition("=")[::2] for p in found.group(1).split("|")).get("name", "")
            if name in within or len(within) > MAX_DEPTH:
                raise PromptError(f"the prompt {within[0]} contains itself by way of {name}")
            other = self.get(name)
            if other is None or not isinstance(other.prompt, str):
                raise PromptError(f"the prompt {within[-1]} names {name}, which is no text prompt")
            return self._filled(other.prompt, (*within, name))

        return _INSERT.sub(put_in, text)


def _prompt(name: str, path: str, data: bytes) -> StoredPrompt:
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text) if path.endswith(".json") else {"prompt": _plain(path, text)}
    except PromptTextError as error:
        raise PromptError(f"{path}: {error}") from None
    except (ValueError, RecursionError):
        raise PromptError(f"{path} is no JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise PromptError(f"{path} is no JSON object")
    given = cast("Mapping[str, Json]", value)
    manifest, prompt = given.get("manifest"), given.get("prompt")
    if manifest is None and "lc" in given and "kwargs" in given:
        manifest, given = given, {}
    if not isinstance(manifest, Mapping):
        manifest = None
    if manifest is None and not _usable(prompt):
        raise PromptError(f"{path} has neither a `prompt` (text or messages) nor a `manifest`")
    version, form = given.get("version"), given.get("template_format")
    return StoredPrompt(
        name=name,
        prompt=cast("str", prompt) if _usable(prompt) else None,
        config=given.get("config") or {},
        labels=_texts(given.get("labels")),
        tags=_texts(given.get("tags")),
        version=version if isinstance(version, int) and version > 0 else 1,
        manifest=manifest,
        template_format=form if form in ("mustache", "jinja2") else "f-string",
        commit=sha256_hex(data),
        latest=given.get("latest") is not False,
    )


def _plain(path: str, text: str) -> Json:
    return list[Json](chat_messages(text)) if is_chat(path) else text


def _usable(prompt: Json) -> bool:
    if isinstance(prompt, str):
        return True
    return isinstance(prompt, list) and all(isinstance(m, Mapping) for m in prompt)


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()
