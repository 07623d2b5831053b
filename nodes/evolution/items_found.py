"""Find in a harness what earlier edits added for a finding, and take it out again. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contracts.errors import PolicyRefused
from contracts.harness import HarnessSnapshot
from contracts.proposals import Operation
from nodes.evolution.edits import shown_text
from nodes.evolution.items import Item, body_text, item_id, items_in, located


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownText:
    """A text that a release added, as the ledger has it: for files that carry no comments."""

    path: str
    text: str
    finding: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An item of ours where it stands now."""

    path: str
    item: Item
    lines: str
    """Its lines as the file has them, its comment included; LF ends them, the last one not."""

    @property
    def is_skill(self) -> bool:
        """Whether it stands in a skill, of which it may be the whole body."""
        return self.path.rsplit("/", 1)[-1] == "SKILL.md"


def own_items(
    snapshot: HarnessSnapshot, signatures: Mapping[str, str], known: Sequence[KnownText] = ()
) -> tuple[Placed, ...]:
    """Items of these findings (signature by id), by path and line.

    By their comments; those of `known` that no comment marks by their words, where these stand
    whole and once.
    """
    found: list[Placed] = []
    for path in sorted(snapshot.files):
        text = _text(snapshot, path)
        if text is None:
            continue
        marked = [i for i in items_in(text, signatures) if i.finding in signatures]
        spans = [(i.start, i.stop) for i in marked]
        for one in known:
            item = _by_words(one, text) if one.path == path else None
            if item is not None and one.finding in signatures and not _meets(item, spans):
                marked.append(item)
                spans.append((item.start, item.stop))
        rows = text.split("\n")
        found += [
            Placed(path=path, item=item, lines="\n".join(rows[item.start : item.stop]))
            for item in sorted(marked, key=lambda i: i.start)
        ]
    return tuple(found)


def retired(placed: Placed, snapshot: HarnessSnapshot) -> Operation | str:
    """The operation that takes an item out again, or why there is none.

    A skill stays: taking its body out would leave a skill that says nothing, and files are never
    removed. Undoing the release that added it does.
    """
    if placed.is_skill and not _text_before(placed, snapshot):
        return f"{placed.path}: the item is the whole skill; undo the release that added it"
    rows = (_text(snapshot, placed.path) or "").split("\n")
    before, after = rows[: placed.item.start], rows[placed.item.stop :]
    if after and not after[0].strip() and (not before or not before[-1].strip()) and any(after):
        # One of the two blank lines around it goes with it.
        return Operation(op="remove", path=placed.path, text="", anchor=placed.lines + "\n\n")
    last = next((row for row in reversed(before) if row.strip()), None)
    if any(row.strip() for row in after) or last is None:
        return Operation(op="remove", path=placed.path, text="", anchor=placed.lines)
    blanks = len(before) - 1 - max(at for at, row in enumerate(before) if row.strip())
    anchor = "\n".join([last, *[""] * blanks, placed.lines])
    return Operation(op="replace", path=placed.path, anchor=anchor, text=last)


def _text_before(placed: Placed, snapshot: HarnessSnapshot) -> str:
    """What of the body stands before the item."""
    rows = (_text(snapshot, placed.path) or "").split("\n")
    whole = body_text("\n".join(rows))
    before = "\n".join(rows[: placed.item.start])
    return body_text(before + "\n").strip() if whole else ""


def _by_words(one: KnownText, text: str) -> Item | None:
    words = body_text(one.text)
    place = located(text, words)
    if place is None:
        return None
    return Item(
        id=item_id(one.signature, words), finding=one.finding, start=place[0], stop=place[1],
        text="\n".join(text.split("\n")[place[0] : place[1]]),
    )  # fmt: skip


def _meets(item: Item, spans: Sequence[tuple[int, int]]) -> bool:
    return any(item.start < stop and start < item.stop for start, stop in spans)


def _text(snapshot: HarnessSnapshot, path: str) -> str | None:
    try:
        return shown_text(snapshot.files[path], path)
    except PolicyRefused:
        return None
