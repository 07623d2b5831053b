"""How often the policy speaks up on texts that nobody made for it: run it on a folder of texts.

Each paragraph of 20 to 6,000 characters of each Markdown or text file is added to an instruction
file as if it were a draft, with the file's own hosts known. Prints one line a rule and level.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.proposals import Draft
from nodes.evolution.policy import check, warned

START = "# Assistant\n"
WORDS = ("rights", "orders", "commands", "guarded-text", "hidden-characters", "mixed-letters",
         "hidden-text", "encoded", "new-hosts", "placeholders", "messages")  # fmt: skip
"""Rules that depend on the added text alone; the others ask for sizes, paths or history."""


def alarms(folder: Path) -> tuple[int, Counter[tuple[str, str]]]:
    """Paragraphs read, and how many of them each rule refused or warned of."""
    found: Counter[tuple[str, str]] = Counter()
    count = 0
    for file in sorted([*folder.rglob("*.md"), *folder.rglob("*.txt")]):
        text = file.read_text("utf-8", "replace")
        for part in re.split(r"\n\s*\n", text):
            if 20 <= len(part) <= 6000:
                count += 1
                found.update(_said(text, part))
    return count, found


def _said(whole: str, part: str) -> set[tuple[str, str]]:
    before = HarnessSnapshot(
        files={
            "instructions/main.md": HarnessFile(data=START.encode()),
            "known.md": HarnessFile(data=whole.encode()),
        }
    )
    changed = HarnessFile(data=f"{START}\n{part}\n".encode())
    after = HarnessSnapshot(files={**before.files, "instructions/main.md": changed})
    draft = Draft(operations=(), why="", falsifier="", author="model:none")
    checks = check(before, after, draft, include=["**"], invariants=())
    said = {(c.rule, "refused") for c in checks if not c.ok}
    said |= {(one.split(":", 1)[0], "warned") for one in warned(checks)}
    return {one for one in said if one[0] in WORDS}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    count, found = alarms(parser.parse_args().folder)
    print(f"{count} paragraphs")
    for (rule, level), times in sorted(found.items()):
        print(f"{rule:18} {level:8} {times:5} {times / count:.2%}")


if __name__ == "__main__":
    main()
