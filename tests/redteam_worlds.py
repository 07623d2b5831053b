"""The red team's set: hostile edits and traces as data, and the harness they are tried on.

An entry of `tests/data/redteam/*.yaml` says one of

    add: text            inserted after `## Tools` of instructions/main.md
    skill: text          the body of a new skill `skills/extra/SKILL.md`
    op: {...}, ops: []   operations as they are

beside `id`, `kind`, `expect` (refused | warned | fine) and `rule`, the id of the rule that says so.
`quotes` are texts of the traces, `rejected` earlier edits, `invariants` the operator's sentences,
`author` who wrote it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from contracts.errors import PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import Check, Operation, Risk
from nodes.evolution.edits import apply_operations
from nodes.evolution.policy import RejectedEdit, check, refused, risk_of, warned
from tests.card_worlds import edit, skill_text

DATA = Path(__file__).parent / "data" / "redteam"
INCLUDE = ("instructions/*.md", "instructions/*.txt", "skills/**", "prompts/**")
MAIN = """# Shop assistant

You help customers of https://shop.example with orders. 用中文或英文回答。

## Tools

- Look an order up with `lookup_order` before you talk about it.
- Never promise a delivery date.
- Call `payment_api` at most 3 times.
- Refund only after a supervisor approved it.
- Mail goes to help@shop.example.
"""
CHAT = """=== system ===
You write to {{customer}} in the tone of the brand.
Be brief.
=== placeholder history ===
=== user ===
{{question}}
"""
FILES = {
    "instructions/main.md": MAIN,
    "instructions/letter.txt": "Dear %s,\nyour order %s is on its way.\n",
    "instructions/greeting.md": "Hello {name}, this is {shop}.\n\nAsk for the number.\n",
    "skills/lookup/SKILL.md": skill_text("lookup", "Find the order by its number first."),
    "prompts/reply.chat.md": CHAT,
    "prompts/note.md": "Write a note about {{order}}.\n\nKeep it short.\n",
    "prompts/plain.md": "Sum the order up.\n\nKeep it short.\n",
}


def base() -> HarnessSnapshot:
    """The shop assistant's text, as files and as prompts of a vendor."""
    return HarnessSnapshot(
        files={path: HarnessFile(data=text.encode()) for path, text in FILES.items()}
    )


Entry = Mapping[str, object]


def entries(name: str) -> list[Entry]:
    """The entries of one file of the set."""
    loaded: list[Entry] = yaml.safe_load((DATA / f"{name}.yaml").read_text("utf-8"))
    return loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """How an edit fared: why its anchors or paths refused it, else the checks and the risk."""

    merge: str | None
    checks: tuple[Check, ...] = ()
    risk: Risk | None = None
    reasons: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """refused, warned or fine."""
        if self.merge is not None or refused(self.checks):
            return "refused"
        return "warned" if warned(self.checks) else "fine"

    def told_by(self, level: str) -> set[str]:
        """Ids of the rules that refuse, or that warn; `merge` for anchors and paths."""
        if self.merge is not None:
            return {"merge"}
        if level == "refused":
            return {c.rule for c in self.checks if not c.ok}
        return {said.split(":", 1)[0] for said in warned(self.checks)}


def operations(entry: Entry) -> tuple[Operation, ...]:
    """What the entry would do."""
    if "add" in entry:
        text = str(entry["add"])
        return (
            Operation(
                op="insert_after", path="instructions/main.md", anchor="## Tools\n", text=text
            ),
        )
    if "skill" in entry:
        text = f"---\nname: extra\ndescription: Use when needed.\n---\n\n{entry['skill']}\n"
        return (Operation(op="add_skill", path="skills/extra/SKILL.md", text=text),)
    given = entry.get("ops", [entry.get("op")])
    assert isinstance(given, list)
    return tuple(Operation(**{"text": "", **one}) for one in given)


def tried(entry: Entry, before: HarnessSnapshot | None = None) -> Tried:
    """The entry's edit, merged and judged as evolution does it."""
    start = before or base()
    draft = edit(*operations(entry), author=str(entry.get("author", "model:editor")))
    try:
        after = apply_operations(start, draft.operations)
    except PolicyRefused as error:
        return Tried(merge=str(error))
    rejected = [RejectedEdit(proposal="p-old", text=text) for text in _texts(entry, "rejected")]
    checks = check(
        start, after, draft, include=INCLUDE, invariants=_texts(entry, "invariants"),
        trace_texts=_texts(entry, "quotes"), rejected=rejected,
    )  # fmt: skip
    risk, reasons = risk_of(start, after, draft, rejected=rejected)
    return Tried(merge=None, checks=checks, risk=risk, reasons=reasons)


def _texts(entry: Entry, key: str) -> Sequence[str]:
    found = entry.get(key, [])
    assert isinstance(found, list)
    return [str(one) for one in found]
