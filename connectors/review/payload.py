"""The interrupt's payload and the answer to it, in LangChain's human-in-the-loop shape.

Source: langchain.agents.middleware.human_in_the_loop (HITLRequest, HITLResponse), langchain 1.5.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from configs.redaction import find_secrets
from connectors.review.card import ReviewCard
from connectors.review.markdown import to_markdown
from contracts.codec import to_json
from contracts.json_types import Json

ACTION = "apply_proposal"
TEXT_KEY = "text:"
ALTERNATIVE_KEY = "alternative"
"""Which draft is meant: `a` is the proposal's own; an edit that names another one picks it."""


class EditedAction(BaseModel):
    """What the reviewer wants done instead: the same action with other texts."""

    model_config = ConfigDict(extra="ignore")

    name: str = ACTION
    args: dict[str, Json]


class ResumeDecision(BaseModel):
    """One decision. Whether a person may make it, and whether it is complete, decide checks."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["approve", "edit", "reject"]
    message: str | None = Field(default=None, max_length=4000)
    edited_action: EditedAction | None = None

    @model_validator(mode="after")
    def _an_edit_has_text(self) -> Self:
        if self.type == "edit" and self.edited_action is None:
            raise ValueError("an edit needs `edited_action` with the new texts in `args`")
        return self


class ResumeAnswer(BaseModel):
    """What a paused run is resumed with: exactly one decision, since there is one action."""

    model_config = ConfigDict(extra="ignore")

    decisions: Annotated[list[ResumeDecision], Field(min_length=1, max_length=1)]
    by: str | None = Field(default=None, max_length=200)
    """Who answers; taken for a low-risk proposal only, where nobody is signed in."""


def hitl_request(card: ReviewCard, texts: Mapping[str, str]) -> dict[str, Json]:
    """The interrupt's payload.

    Args:
        card: the card to decide on.
        texts: full proposed text by path, as a person edits it. A text that holds a secret is left
            out: it would leave memory unmasked, and masked it could not be edited.
    """
    args: dict[str, Json] = {
        "proposal_id": card.proposal_id,
        "revision": card.revision,
        "proposal_hash": card.proposal_hash,
    }
    if card.alternatives:
        args[ALTERNATIVE_KEY] = "a"
    if card.kind == "approve":
        args |= {TEXT_KEY + path: text for path, text in texts.items() if not find_secrets(text)}
    allowed: list[Json] = ["approve", "edit", "reject"]
    if card.kind != "approve":
        allowed.remove("edit")
    return {
        "action_requests": [{"name": ACTION, "args": args, "description": to_markdown(card)}],
        "review_configs": [{"action_name": ACTION, "allowed_decisions": allowed}],
        "card": to_json(card),
    }
