"""Whether what steered the failing runs stands outside the harness: in code, or in a prompt. Pure.

Only what is sure makes a ticket instead of an edit: the failing steps' own system text was
recorded, no file of the harness is in it, and a text in code (or a managed prompt) is. Where a
harness file is loaded and may reach the model another way, it is said on the card and no more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.review.clean import one_line
from contracts.json_types import Json
from nodes.evolution.governing import Governs, in_skill, uncovered_prompts
from nodes.evolution.loaders import PlacedText, PromptMap
from nodes.insights.steered import Steered, Told
from nodes.textprint import Overlap, Print, covered, overlap, runs_of, unpacked

MIN_RUNS: Final = 2
"""Failing runs from which it is concluded."""
MOSTLY: Final = 0.8
"""Share of the failing runs that tell it."""
MIN_COVERED: Final = 0.5
"""Share of what was sent that texts in code make up."""
MIN_OF_TEXT: Final = 8
"""Runs of words from which a text in code is told from a phrase."""
PLACES: Final = 3
_TESTS: Final = ("test", "example", "docs/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Where the text is that steered the failing runs."""

    why: str
    suggestion: str
    places: tuple[PlacedText, ...] = ()
    prompt: Told | None = None
    sure: bool = True
    """False: a file of the harness may steer them as well."""

    def to_json(self) -> dict[str, Json]:
        """For the ledger and the ticket; no text of the code is in it."""
        places: list[Json] = [
            {
                "path": one_line(one.path, 300),
                "line": one.text.line,
                "end_line": one.text.end_line,
                "name": one_line(one.text.name, 80),
            }
            for one in self.places
        ]
        prompt: Json = None
        if self.prompt is not None:
            prompt = {"name": self.prompt.value, "version": self.prompt.detail}
        return {"why": self.why, "suggestion": self.suggestion, "places": places, "prompt": prompt}


def worth_looking(files: Sequence[Governs], steered: Steered) -> bool:
    """Whether the repository is searched at all: failing runs tell a text and no file of it."""
    failing = steered.failing
    told = failing.with_text >= MIN_RUNS or failing.with_prompt >= MIN_RUNS
    return told and not any(governs.recorded for governs in files)


def by_prompt(files: Sequence[Governs], steered: Steered, vendor: str | None) -> Elsewhere | None:
    """The managed prompt that steered the failing runs and that no place of the harness holds.

    Args:
        files: as `ranked` gives them.
        steered: what steered the runs.
        vendor: kind of the place to add, `langfuse_prompts` or `langsmith_hub`; None: not known.
    """
    failing = steered.failing
    used = next(iter(uncovered_prompts(files, failing)), None)
    if used is None or used.runs < max(MIN_RUNS, MOSTLY * failing.with_prompt):
        return None
    instructions = [governs for governs in files if not in_skill(governs.path)]
    told = failing.with_text >= MIN_RUNS and all(one.text_known for one in instructions)
    version = f" version {used.detail}" if used.detail else ""
    return Elsewhere(
        why=one_line(
            f"The text that steers this is the managed prompt {used.value}{version}, in "
            f"{used.runs} of {failing.runs} failing runs, and no place of the harness holds it.",
            400,
        ),
        suggestion=_entry(used.value, vendor),
        prompt=used,
        sure=told or not instructions,
    )


def by_code(files: Sequence[Governs], steered: Steered, mapped: PromptMap) -> Elsewhere | None:
    """The texts in code that were sent to the failing steps, where no file of the harness was."""
    sent = [(p, told.runs) for told in steered.failing.texts if (p := unpacked(told.value))]
    total = sum(runs for _, runs in sent)
    if total < MIN_RUNS:
        return None
    found = list(_sent_texts(mapped.texts, sent, total))
    if not found:
        return None
    every: frozenset[int] = frozenset().union(*(runs for _, _, runs in found))
    made_up = sum(count for one, count in sent if covered(one, every).share >= MIN_COVERED)
    if made_up < MOSTLY * total:
        return None
    places = tuple(one for _, one, _ in sorted(found, key=lambda f: (-f[0], f[1].path)))[:PLACES]
    hit = max(count for count, _, _ in found)
    where = " and ".join(_where(one) for one in places)
    return Elsewhere(
        why=one_line(
            f"The text that steers this is a string in {where}: it was the system message of "
            f"{hit} of {total} failing runs, and no file of the harness was in it.",
            500,
        ),
        suggestion=one_line(
            f"Edit the string in {_where(places[0])}, or move it into a file of the harness that "
            "the code reads: then Tracemend can draft the edit. It never edits code.",
            500,
        ),
        places=places,
        sure=all(_accounted(one, steered, mapped) for one in files),
    )


def _sent_texts(
    texts: Iterable[PlacedText], sent: Sequence[tuple[Print, int]], total: int
) -> Iterator[tuple[int, PlacedText, frozenset[int]]]:
    """Texts in code that most of the failing runs were sent, with how many; tests come last."""
    seen: set[frozenset[int]] = set()
    for one in sorted(texts, key=lambda t: any(word in t.path.casefold() for word in _TESTS)):
        runs = runs_of(one.text.text, template=True)
        if len(runs) < MIN_OF_TEXT or runs in seen:
            continue
        hit = sum(count for print_, count in sent if _in(runs, print_))
        if hit >= max(MIN_RUNS, MOSTLY * total):
            seen.add(runs)
            yield hit, one, runs


def _in(runs: frozenset[int], sent: Print) -> bool:
    inside: Overlap = overlap(runs, sent)
    return inside.contained or covered(sent, runs).contained


def _accounted(governs: Governs, steered: Steered, mapped: PromptMap) -> bool:
    """Whether it is known that a harness file did not steer the failing steps.

    A skill is opened when it is wanted, so that not being there says nothing against it. A file
    that is loaded and was sent to no step may have been sent as another message than the system's.
    """
    if in_skill(governs.path):
        return True
    if not governs.text_known:
        return False
    prints = (unpacked(told.value) for told in steered.elsewhere.texts)
    sent_to_others = any(_in(governs.runs, one) for one in prints if one is not None)
    return sent_to_others or not mapped.loaders(governs.path)


def _where(one: PlacedText) -> str:
    lines = f"line {one.lines}" if one.text.line == one.text.end_line else f"lines {one.lines}"
    name = f" ({one.text.name})" if one.text.name else ""
    return f"{one.path} {lines}{name}"


def _entry(name: str, vendor: str | None) -> str:
    """What to add to the settings."""
    plain = one_line(name, 160).replace('"', "'")
    if vendor == "langfuse_prompts":
        entry = f'{{kind: langfuse_prompts, names: ["{plain}"]}}'
    elif vendor == "langsmith_hub":
        entry = f'{{kind: langsmith_hub, prompts: ["{plain.rpartition("/")[2]}"]}}'
    else:
        return (
            f"Add the place that holds {plain} to `harness:` of tracemend.yaml (kinds "
            "langfuse_prompts and langsmith_hub), or edit the prompt there."
        )
    return (
        f"Add `{entry}` to the list `harness:` of tracemend.yaml: then Tracemend can draft the "
        "edit. Or edit the prompt where it is managed."
    )
