"""Keep what the editor model was shown, so that a sealed case that was in it is found."""

import itertools
from collections.abc import Sequence
from typing import Final, cast

from langchain_core.messages import BaseMessage
from sqlalchemy import Connection

from configs.redaction import redact
from contracts.json_types import Json, sha256_hex
from contracts.proposals import Proposal
from memory.workspace import Workspace

KIND: Final = "shown"
_PART = 8_000
"""Characters of one kept part: below the cap of a text artifact in any script."""
_OVERLAP = 400
"""Characters that two parts share, so that no run of words is cut in two."""


def keep_shown(ws: Workspace, thread: str, revision: int, messages: Sequence[BaseMessage]) -> None:
    """Keep the first messages to the model, masked, before they are sent.

    A step that is done again after a crash may show something else: that is kept as well.
    """
    text = "\n\n".join(str(message.content) for message in messages)
    parts = [text[at : at + _PART + _OVERLAP] for at in range(0, len(text), _PART)]

    def write(tx: Connection) -> dict[str, Json]:
        return {"parts": [ws.ledger.artifacts.put_text(tx, KIND, part) for part in parts]}

    same: list[Json] = [sha256_hex(redact(part).encode("utf-8", "replace")) for part in parts]
    for number in itertools.count():
        if ws.ledger.steps.once(thread, _step(revision, number), write)["parts"] == same:
            return


def shown_text(ws: Workspace, proposal: Proposal) -> str:
    """What the model was shown for this proposal's revisions so far; empty: no model drafted."""
    found: list[str] = []
    for revision in range(1, proposal.revision + 1):
        for number in itertools.count():
            step = ws.ledger.steps.get(proposal.thread, _step(revision, number))
            if step is None:
                break
            parts = cast("Sequence[str]", step["parts"])
            found += [ws.ledger.artifacts.text(part, KIND) for part in parts]
    return "\n".join(found)


def _step(revision: int, number: int) -> str:
    return f"shown:{revision}:{number}"
