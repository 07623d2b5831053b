"""A playbook for a finding that came back: its earlier item is changed, not said a second time."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from configs.playbooks import Playbook, fill
from contracts.harness import HarnessSnapshot
from contracts.proposals import Operation
from nodes.evolution.items import body_text, normal
from nodes.evolution.items_found import Placed, retired

CAME_BACK: Final = "The finding came back although item {item} stands in {path}; this replaces it."
_HEADING: Final = re.compile(r"(#{1,6})[ \t]+[^\n]*\n*")


def again(
    playbook: Playbook,
    values: Mapping[str, str],
    earlier: Sequence[Placed],
    snapshot: HarnessSnapshot,
    signature: str,
) -> tuple[Operation, ...] | str:
    """Operations that put the playbook's words in the place of the earlier item, or why not.

    Where the item holds this playbook's own words, `again` takes their place. Further items of the
    finding go. What a person changed by hand since is never touched.
    """
    first = earlier[0]
    for placed in earlier:
        if not placed.item.intact(signature):
            return f"{placed.path}: item {placed.item.id} was changed by hand since; it stays"
    words = _words(playbook, values, first)
    if words is None:
        said = f"{first.path} says it already (item {first.item.id})"
        return f"{said}, and the playbook has no `again` that says more"
    operations = [
        Operation(
            op="replace", path=first.path, anchor=first.lines, text=_headed(first.item.text, words)
        )
    ]
    for placed in earlier[1:]:
        operation = retired(placed, snapshot)
        if isinstance(operation, Operation):
            operations.append(operation)
    return tuple(operations)


def _words(playbook: Playbook, values: Mapping[str, str], first: Placed) -> str | None:
    """What takes the place of the item; None: the playbook has nothing that says more."""
    here = normal(first.item.text)
    edits = [part for edit in (playbook.edit, *playbook.otherwise) for part in edit if part.text]
    bodies = [(part.op, body_text(fill(part.text, values))) for part in edits]
    more = fill(playbook.again, values).strip("\n") if playbook.again else None
    if more is not None and _same(more, here):
        return None
    if any(_same(body, here) for _, body in bodies):
        return more
    fitting = [body for op, body in bodies if (op == "add_skill") == first.is_skill]
    return fitting[0] if fitting else more


def _same(words: str, here: str) -> bool:
    """Whether two texts say the same below their headings."""
    return normal(_bare(words)) == normal(_bare(here))


def _bare(text: str) -> str:
    """Without hashes, which only say how deep a heading is."""
    return re.sub(r"^#{1,6}[ \t]+", "", text.lstrip("\n"))


def _headed(old: str, new: str) -> str:
    """The new words with a heading as deep as the old one; without one where there was none."""
    was, now = _HEADING.match(old), _HEADING.match(new)
    if now is None:
        return new
    if was is None:
        return new[now.end() :]
    return was[1] + new[len(now[1]) :]
