"""Which file of the harness governs what failed, and how that is known. Pure.

What traces say ranks files that are in the harness anyway; it never makes a path of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from connectors.prompts.text import PROMPTS, PromptTextError, chat_messages, is_chat, prompt_name
from connectors.review.clean import one_line
from contracts.errors import PolicyRefused
from contracts.findings import Finding
from contracts.harness import HarnessSnapshot
from nodes.evolution.edits import shown_text
from nodes.evolution.paths import included, path_problem
from nodes.evolution.playbook import instruction_file, slug
from nodes.insights.steered import Side, Steered, Told
from nodes.textprint import covered, overlap, runs_of, unpacked

ReasonKind = Literal["prompt", "text", "skill", "named", "speaks", "main"]
_WEIGHTS: Final[Mapping[ReasonKind, float]] = {
    "prompt": 8, "text": 6, "skill": 4, "named": 3, "speaks": 2, "main": 1,
}  # fmt: skip
"""What one reason counts where all failing runs have it; less of them, less."""
RECORDED: Final[frozenset[ReasonKind]] = frozenset({"prompt", "text", "skill", "named"})
"""Reasons that failing runs recorded; the others are guesses by the file alone."""
_NO_NAMES: Final = frozenset({"", "agent", "assistant", "main", "default", "root", "langgraph"})
"""Names of agents that say nothing about a file of the same name."""
_SHOWN_FILES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a file governs."""

    kind: ReasonKind
    sentence: str
    share: float = 1.0
    """Of the failing runs that tell it, 0..1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Governs:
    """A file and what speaks for it, strongest first; no reason: nothing does."""

    path: str
    reasons: tuple[Reason, ...] = ()
    text_known: bool = True
    """False: failing runs recorded a text, and too little of it is kept to compare this file."""
    runs: frozenset[int] = frozenset()
    """Hashes of its words (`nodes.textprint`)."""

    @property
    def score(self) -> float:
        """The higher, the more likely."""
        return sum(_WEIGHTS[reason.kind] * reason.share for reason in self.reasons)

    @property
    def recorded(self) -> bool:
        """Whether failing runs themselves tell it."""
        return any(reason.kind in RECORDED for reason in self.reasons)

    @property
    def why(self) -> str:
        """The reasons in one line; empty where there are none."""
        return "; ".join(reason.sentence for reason in self.reasons)


def ranked(
    snapshot: HarnessSnapshot, steered: Steered, finding: Finding, include: Sequence[str]
) -> list[Governs]:
    """The text files that may be edited, those that govern first.

    Of files for which equally much speaks the shorter one comes first.

    Args:
        snapshot: the whole harness.
        steered: what steered the finding's runs.
        finding: what keeps failing.
        include: patterns of the files that may be edited.
    """
    main = instruction_file(snapshot, include)
    words = [str(v) for k, v in finding.diagnosis.parameters.items() if k == "tool"]
    words += finding.signature.split(":")[1:2]
    found: list[tuple[Governs, int]] = []
    for path, file in snapshot.files.items():
        if path_problem(path) or not included(path, include):
            continue
        try:
            text = shown_text(file, path)
        except PolicyRefused:
            continue
        found.append((_governs(path, text, steered, words, main), len(text)))
    found.sort(key=lambda pair: (-pair[0].score, pair[1], pair[0].path))
    return [governs for governs, _ in found]


def governing_file(files: Iterable[Governs]) -> str | None:
    """The instruction file that failing runs tell to govern them; None: none is told of.

    A skill is no place for an instruction that holds whatever the task is.
    """
    return next((f.path for f in files if f.recorded and not in_skill(f.path)), None)


def in_skill(path: str) -> bool:
    """Whether a file belongs to a skill."""
    return "skills" in path.split("/")[:-1]


def notes_on(
    paths: Iterable[str], files: Sequence[Governs], steered: Steered, origin: str | None
) -> tuple[str, ...]:
    """What a reviewer is told of the files of an edit: why these, and of which version it is.

    Nothing where nothing was kept of the finding's runs.

    Args:
        paths: files that the edit touches, new ones as well.
        files: as `ranked` gives them.
        steered: what steered the finding's runs.
        origin: what the harness calls its state; versions of prompts are looked for in it.
    """
    if steered == Steered():
        return ()
    known = {governs.path: governs for governs in files}
    edited = list(dict.fromkeys(paths))
    said: list[str] = []
    for path in edited[:_SHOWN_FILES]:
        governs = known.get(path)
        if governs is not None:
            said.append(f"edits {path}: {governs.why or 'nothing tells that it governs this'}")
            said += version_notes(path, steered.failing, origin)
    best = files[0] if files else None
    if best is not None and best.recorded and best.path not in edited:
        if any(path in known for path in edited):
            said.append(f"{best.path} is not edited, though more speaks for it: {best.why}")
        else:
            said.append(f"adds to what {best.path} says, which stays as it is: {best.why}")
    elif edited and not any(f.recorded for f in files):
        said.append("the failing runs do not tell which file steered them")
    return tuple(one_line(sentence, 300) for sentence in said)


def version_notes(path: str, failing: Side, origin: str | None) -> list[str]:
    """That failing runs used another version of a prompt than the one that is edited."""
    name = prompt_name(path)
    used = [told for told in failing.prompts if _same_prompt(told, path) and told.detail]
    ours = version_in(origin, name)
    if ours is None or not used or any(_same_version(told.detail, ours) for told in used):
        return []
    versions = " and ".join(dict.fromkeys(told.detail for told in used))
    runs = sum(told.runs for told in used)
    return [
        f"{runs} of {failing.runs} failing runs used version {versions} of {name}, this edit is of "
        f"version {ours}"
    ]


def version_in(origin: str | None, name: str) -> str | None:
    """The version of a prompt in what its place calls its state (`… name v5, other v2 …`)."""
    for part in (origin or "").replace(";", ",").split(","):
        words = part.split()
        for at, word in enumerate(words[:-1]):
            if word == name or word.endswith(f"/{name}"):
                return words[at + 1].strip("()").removeprefix("v") or None
        for word in words:
            for mark in ("@", ":", "#", "="):
                head, _, version = word.rpartition(mark)
                if head == name and version:
                    return version.removeprefix("v")
    return None


def uncovered_prompts(files: Sequence[Governs], failing: Side) -> list[Told]:
    """Managed prompts of failing runs that stand at no path of the harness, most runs first."""
    paths = [governs.path for governs in files]
    return [t for t in failing.prompts if not any(_same_prompt(t, p) for p in paths)]


def _governs(
    path: str, text: str, steered: Steered, words: Sequence[str], main: str | None
) -> Governs:
    failing = steered.failing
    runs = runs_of(steering_text(path, text), template=True)
    in_text, known = _by_text(runs, failing)
    reasons = [
        _by_prompt(path, steered),
        in_text,
        _by_skill(path, failing),
        _by_name(path, failing),
        next((_speaks(word) for word in words if word and word in text), None),
        Reason(kind="main", sentence="it is the main instruction file") if path == main else None,
    ]
    return Governs(path=path, reasons=tuple(r for r in reasons if r), text_known=known, runs=runs)


def _speaks(word: str) -> Reason:
    return Reason(kind="speaks", sentence=f"it speaks of {one_line(word, 80)}")


def _by_prompt(path: str, steered: Steered) -> Reason | None:
    failing, passing = steered.failing, steered.passing
    used = [told for told in failing.prompts if _same_prompt(told, path)]
    if not used:
        return None
    runs = min(sum(told.runs for told in used), failing.runs)
    went_well = sum(t.runs for t in passing.prompts if _same_prompt(t, path))
    versions = [f"v{t.detail.removeprefix('v')}" for t in used if t.detail]
    version = f" {' and '.join(versions[:3])}" if versions else ""
    beside = f", and in {went_well} of {passing.runs} passing ones" if passing.with_prompt else ""
    of = f"{runs} of {failing.runs}"
    return Reason(
        kind="prompt",
        sentence=f"prompt {used[0].value}{version} in {of} failing runs{beside}",
        share=runs / failing.runs,
    )


def _by_text(runs: frozenset[int], failing: Side) -> tuple[Reason | None, bool]:
    """The reason, and whether it could be told."""
    hit = compared = 0
    for told in failing.texts:
        sent = unpacked(told.value)
        if sent is None or not runs:
            continue
        inside, whole = overlap(runs, sent), covered(sent, runs)
        if inside.known or whole.contained:
            compared += told.runs
            hit += told.runs if inside.contained or whole.contained else 0
    if not hit:
        return None, bool(compared) or not failing.texts or not runs
    sentence = f"its text is in the system message of {hit} of {compared} failing runs"
    return Reason(kind="text", sentence=sentence, share=hit / compared), True


def _by_skill(path: str, failing: Side) -> Reason | None:
    parts = path.split("/")
    told = next((t for t in failing.skills if f"skills/{t.value}/" in f"{path}/"), None)
    if told is None or not in_skill(path) or told.value not in parts:
        return None
    sentence = f"skill {told.value} was loaded in {told.runs} of {failing.runs} failing runs"
    return Reason(kind="skill", sentence=sentence, share=told.runs / failing.runs)


def _by_name(path: str, failing: Side) -> Reason | None:
    """By the agent or the prompt that a file is called after."""
    parts = path.rsplit(".", 1)[0].split("/")
    names = {_plain(part) for part in parts} - _NO_NAMES
    agent = next((t for t in failing.agents if _plain(t.value) in names), None)
    if agent is not None:
        of = f"{agent.runs} of {failing.runs}"
        sentence = f"it is named like the agent {agent.value} of {of} failing runs"
        return Reason(kind="named", sentence=sentence, share=agent.runs / failing.runs)
    if path.startswith(PROMPTS):
        return None
    prompt = next((t for t in failing.prompts if _plain(_last(t.value)) == _plain(parts[-1])), None)
    if prompt is None or not _plain(parts[-1]):
        return None
    of = f"{prompt.runs} of {failing.runs}"
    sentence = f"it is named like the prompt {prompt.value} of {of} failing runs"
    return Reason(kind="named", sentence=sentence, share=prompt.runs / failing.runs)


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _plain(name: str) -> str:
    """A name as files and agents both write it."""
    plain = slug(name)
    for end in ("-agent", "-chat", "-assistant", "-prompt", "-instructions"):
        plain = plain.removesuffix(end)
    return plain


def _same_prompt(told: Told, path: str) -> bool:
    """Whether a harness path holds a managed prompt.

    Where versions are commits, the prompts of a hub may have an owner in front of their name.
    """
    if not path.startswith(PROMPTS):
        return False
    held, name = prompt_name(path), told.value
    counted = told.detail.removeprefix("v").isdigit()
    return name == held or (not counted and _last(name) == held)


def _same_version(used: str, ours: str) -> bool:
    one, other = used.removeprefix("v"), ours.removeprefix("v")
    short = min(len(one), len(other))  # commits are written short or whole
    return one == other or (short >= 7 and one[:short] == other[:short])


def steering_text(path: str, text: str) -> str:
    """What of a file is sent as system text: a chat's system messages, a skill without its head."""
    if is_chat(path):
        return _chat(text)
    if path.endswith("/SKILL.md") and text.startswith("---"):
        return text.partition("\n---")[2]
    return text


def _chat(text: str) -> str:
    try:
        messages = chat_messages(text)
    except PromptTextError:
        return text

    said = [str(m["content"]) for m in messages if m.get("role") in ("system", "developer")]
    said = said or [str(m.get("content") or "") for m in messages]
    return "\n".join(said)
