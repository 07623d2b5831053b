"""The text of a prompt as LangSmith's hub keeps it, taken out of its manifest and put back.

Source: what `langchain_core.load.dumpd` of langchain-core 1.x writes, which the hub stores: a
`PromptTemplate`, a `ChatPromptTemplate` or `StructuredPrompt` with its messages, or a
`RunnableSequence` that begins with one and goes on with a model. Nothing is ever constructed from a
manifest here: it is data, and what is no text of the prompt goes back byte for byte.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, cast

from connectors.prompts.text import PLACEHOLDER, PromptTextError, chat_messages, chat_text
from contracts.json_types import Json

_TEMPLATE: Final = "PromptTemplate"
_CHATS: Final = ("ChatPromptTemplate", "StructuredPrompt")
_SEQUENCE: Final = "RunnableSequence"
_PLACE: Final = "MessagesPlaceholder"
_NAMED: Final = "ChatMessagePromptTemplate"
_ROLES: Final[Mapping[str, str]] = {
    "SystemMessagePromptTemplate": "system", "HumanMessagePromptTemplate": "user",
    "AIMessagePromptTemplate": "assistant", "SystemMessage": "system", "HumanMessage": "user",
    "AIMessage": "assistant", "ToolMessage": "tool", "FunctionMessage": "function",
}  # fmt: skip
_MADE: Final[Mapping[str, str]] = {
    "system": "SystemMessagePromptTemplate", "user": "HumanMessagePromptTemplate",
    "assistant": "AIMessagePromptTemplate",
}  # fmt: skip
"""What a message that an edit adds becomes, by its role."""
_MAX_DEPTH: Final = 4
"""Of sequences within sequences."""

Object = dict[str, Json]


class ManifestError(ValueError):
    """A manifest has no text that could be edited and written back exactly; says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptText:
    """The text of a prompt, as it stands in the harness."""

    text: str
    chat: bool
    """Whether it is a chat's messages (`connectors.prompts.text`)."""


def manifest_text(manifest: Json) -> PromptText:
    """The prompt's text.

    Raises:
        ManifestError: it has none, or one that cannot be written back exactly.
    """
    found = _text(_prompt(_object(manifest, "the manifest")))
    try:
        found.text.encode()
    except UnicodeEncodeError:
        raise ManifestError("its text is not valid Unicode") from None
    return found


def _text(prompt: Object) -> PromptText:
    if _kind(prompt) == _TEMPLATE:
        return PromptText(text=_template(prompt), chat=False)
    messages = _messages(prompt)
    try:
        said = [_said(message, number) for number, message in enumerate(messages, 1)]
        text = chat_text(said)
        if not said or chat_messages(text) != said:
            raise ManifestError("it has no messages that can be written as text")
    except PromptTextError as error:
        raise ManifestError(str(error)) from None
    return PromptText(text=text, chat=True)


def with_text(manifest: Json, text: str) -> Object:
    """The manifest with this text in it, and everything else as it was.

    Messages may be changed, added (system, user, assistant) and left out; a place for messages
    only stays where it is.

    Raises:
        ManifestError: the text cannot be kept in a prompt like this one.
    """
    was = manifest_text(manifest)
    changed = copy.deepcopy(_object(manifest, "the manifest"))
    prompt = _prompt(changed)
    if was.chat:
        try:
            said = chat_messages(text)
        except PromptTextError as error:
            raise ManifestError(str(error)) from None
        _kwargs(prompt)["messages"] = list[Json](_aligned(_messages(prompt), said))
    else:
        _kwargs(prompt)["template"] = text
    if manifest_text(changed).text != text:
        raise ManifestError("the text would not come back from it as it is")
    return changed


def _aligned(messages: Sequence[Object], said: Sequence[Mapping[str, Json]]) -> list[Object]:
    """The messages that say this: of those that were there, as many as keep their order."""
    old = [_head(_said(message, number)) for number, message in enumerate(messages, 1)]
    new = [_head(message) for message in said]
    result: list[Object] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            kept = zip(messages[i1:i2], said[j1:j2], strict=True)
            result += [_saying(message, wanted) for message, wanted in kept]
            continue
        if any(name is not None for _, name in (*old[i1:i2], *new[j1:j2])):
            raise ManifestError("a place for messages is not added, removed or moved by an edit")
        result += [_made(wanted, messages) for wanted in said[j1:j2]]
    return result


def _head(message: Mapping[str, Json]) -> tuple[str, str | None]:
    """What its line in the text says: its role, and the name of a place for messages."""
    if message.get("type") == PLACEHOLDER:
        return PLACEHOLDER, str(message["name"])
    return str(message["role"]), None


def _saying(message: Object, wanted: Mapping[str, Json]) -> Object:
    """The message with another content."""
    kwargs = _kwargs(message)
    if _kind(message) == _PLACE:
        return message
    if "prompt" in kwargs:
        _kwargs(_object(kwargs["prompt"], "a message's prompt"))["template"] = wanted["content"]
    else:
        kwargs["content"] = wanted["content"]
    return message


def _made(wanted: Mapping[str, Json], beside: Sequence[Object]) -> Object:
    """A message that was not there, in the template format of the others."""
    role = str(wanted["role"])
    if role not in _MADE:
        raise ManifestError(f"a message of the role {role!r} is not added by an edit")
    form = next((f for one in beside if (f := _format(one))), "f-string")
    template: Object = {
        "lc": 1, "type": "constructor", "id": ["langchain", "prompts", "prompt", _TEMPLATE],
        "kwargs": {
            "input_variables": [], "template": wanted["content"], "template_format": form,
        },
        "name": _TEMPLATE,
    }  # fmt: skip
    return {
        "lc": 1, "type": "constructor", "id": ["langchain", "prompts", "chat", _MADE[role]],
        "kwargs": {"prompt": template},
    }  # fmt: skip


def _format(message: Object) -> str | None:
    prompt = _kwargs(message).get("prompt")
    form = _kwargs(prompt).get("template_format") if isinstance(prompt, dict) else None
    return form if isinstance(form, str) else None


def _prompt(manifest: Object, depth: int = 0) -> Object:
    """The template of a manifest, which may be the first part of a sequence."""
    kind = _kind(manifest)
    if kind == _TEMPLATE or kind in _CHATS:
        return manifest
    if kind == _SEQUENCE and depth < _MAX_DEPTH:
        return _prompt(
            _object(_kwargs(manifest).get("first"), "the sequence's beginning"), depth + 1
        )
    raise ManifestError(f"it is a {kind[:40]!r}, which is no text and no chat")


def _messages(prompt: Object) -> list[Object]:
    found = _kwargs(prompt).get("messages")
    if not isinstance(found, list):
        raise ManifestError("it has no list of messages")
    return [_object(one, f"message {number}") for number, one in enumerate(found, 1)]


def _said(message: Object, number: int) -> dict[str, Json]:
    kind, kwargs = _kind(message), _kwargs(message)
    if kind == _PLACE:
        return {"type": PLACEHOLDER, "name": kwargs.get("variable_name")}
    role = kwargs.get("role") if kind in (_NAMED, "ChatMessage") else _ROLES.get(kind)
    if not isinstance(role, str):
        raise ManifestError(f"message {number} is a {kind[:40]!r}, which is no text")
    if "prompt" not in kwargs:
        content = kwargs.get("content")
        if not isinstance(content, str):
            raise ManifestError(f"message {number} holds more than text")
        return {"role": role, "content": content}
    prompt = kwargs["prompt"]
    if not isinstance(prompt, dict) or _kind(prompt) != _TEMPLATE:
        raise ManifestError(f"message {number} holds more than text")
    return {"role": role, "content": _template(prompt)}


def _template(prompt: Object) -> str:
    template = _kwargs(prompt).get("template")
    if not isinstance(template, str):
        raise ManifestError("its template is no text")
    return template


def _kind(constructor: Object) -> str:
    """The class name: `id` ends with it, wherever the class lives in that release."""
    names = constructor.get("id")
    last = names[-1] if isinstance(names, list) and names else None
    return last if isinstance(last, str) and constructor.get("type") == "constructor" else ""


def _kwargs(constructor: Object) -> Object:
    return _object(constructor.get("kwargs"), "a part of the manifest")


def _object(value: Json, what: str) -> Object:
    if not isinstance(value, dict):
        raise ManifestError(f"{what} is no object")
    return cast("Object", value)
