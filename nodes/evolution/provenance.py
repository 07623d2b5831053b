"""Put the comment that names an item before what an edit adds, where a comment does no harm. Pure.

No comment stands in a vendor's prompt, in a format without comments, in front matter, in fenced
code, in a table or between the nested lines of a list.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from contracts.errors import PolicyRefused
from contracts.harness import HarnessSnapshot
from contracts.proposals import Operation
from nodes.evolution.edits import apply_operations, place_of, shown_text
from nodes.evolution.items import ITEM_COMMENT, commented, takes_comments

_FENCE: Final = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_FRONT: Final = re.compile(r"\A---[ \t]*\n[\s\S]*?\n---[ \t]*(?:\n|\Z)")


def provenanced(
    snapshot: HarnessSnapshot, operations: Sequence[Operation], *, signature: str, finding: str
) -> tuple[Operation, ...]:
    """The operations with a comment on what they add; said twice, they stay the same.

    Operations that cannot be merged come back as they are: the merge says what is wrong.

    Args:
        snapshot: the base of the edit.
        operations: of a playbook or a model; a person's text is left alone by the caller.
        signature: of the finding.
        finding: its id, as the comment names it.
    """
    made: list[Operation] = []
    try:
        for operation in operations:
            text = _kept(operation)
            if _carries(snapshot, operation, text):
                text = commented(text, signature=signature, finding=finding)
            made.append(operation if text == operation.text else replace(operation, text=text))
            snapshot = apply_operations(snapshot, made[-1:])
    except PolicyRefused:
        return tuple(operations)
    return tuple(made)


def _kept(operation: Operation) -> str:
    """The text without comments in our form that nothing of ours put there."""
    text = operation.text.replace("\r\n", "\n")
    if not ITEM_COMMENT.search(text):
        return operation.text
    there = (operation.anchor or "").split("\n") if operation.op == "replace" else []
    lines = [x for x in text.split("\n") if x in there or not ITEM_COMMENT.fullmatch(x)]
    return "\n".join(lines)


def _carries(snapshot: HarnessSnapshot, operation: Operation, text: str) -> bool:
    """Whether what the operation adds gets a comment."""
    if not takes_comments(operation.path) or operation.op == "remove":
        return False
    if operation.op == "replace":  # only an item of ours is marked again; the rest was there
        return bool(ITEM_COMMENT.match((operation.anchor or "").replace("\r\n", "\n")))
    if operation.op != "insert_after":
        return True
    first = text.lstrip("\n")
    if not first or first[0] in "| \t":
        return False
    file = snapshot.files.get(operation.path)
    before = shown_text(file, operation.path) if file is not None else ""
    place = place_of(before, (operation.anchor or "").replace("\r\n", "\n"))
    return place is not None and not _inside(before[: place[1]], text)


def _inside(before: str, text: str) -> bool:
    """Whether what comes after a text is inside its front matter, its fenced code or a table."""
    if before.startswith("---") and not _FRONT.match(before + "\n"):
        return True
    if len(_FENCE.findall(before)) % 2:
        return True
    last = before.rstrip("\n").rsplit("\n", 1)[-1].lstrip()
    return last.startswith("|") and not text.startswith("\n")
