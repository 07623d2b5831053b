"""What a vendor keeps of a prompt beside its text, and both together as an agent is given them."""

import json
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from connectors.prompts.manifest import ManifestError, with_text
from connectors.prompts.text import PROMPTS, PromptTextError, chat_messages, is_chat, prompt_name
from contracts.json_types import Json

Head = Mapping[str, Json]
"""Keys of `prompts/<name>.json` beside `type` and `prompt`, such as `config`, `labels`, `manifest`.
A `manifest` has some text in it, which is not the one that counts."""
Heads = Mapping[str, Head]
"""By the path of the prompt's text in the harness."""

_MANIFEST: Final = "manifest"


@runtime_checkable
class KeepsHeads(Protocol):
    """A place of a harness whose prompts are more than their text."""

    async def heads(self) -> Heads:
        """What stands beside the text of each prompt now, by its path in this place.

        Raises:
            ConnectorError: the place cannot be read.
        """
        ...


class ServingError(ValueError):
    """A text cannot be what an agent is given; the message says why."""


def served_path(path: str) -> str:
    """Where an agent's folder has the prompt of this text, whole."""
    return f"{PROMPTS}{prompt_name(path)}.json"


def served(path: str, data: bytes, head: Head) -> bytes:
    """The prompt as one JSON object: its text or messages, and what goes with them.

    Raises:
        ServingError: the vendor could not keep this text in this prompt.
    """
    chat = is_chat(path)
    try:
        text = data.decode()
        prompt: Json = list[Json](chat_messages(text)) if chat else text
        whole: dict[str, Json] = {**head, "type": "chat" if chat else "text", "prompt": prompt}
        if _MANIFEST in head:
            whole[_MANIFEST] = with_text(head[_MANIFEST], text)
    except (UnicodeDecodeError, PromptTextError, ManifestError) as error:
        raise ServingError(f"{path}: {error}") from None
    return json.dumps(whole, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
