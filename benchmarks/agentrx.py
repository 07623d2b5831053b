"""The root cause of a failed run, its step and its category: the AgentRx task.

    python -m benchmarks.agentrx --in DIR --out F
    python -m benchmarks.agentrx --measure DIR

`--in` reads every log below DIR and writes `{log: {agent, step, category}}`; steps count from one,
as in AgentRx. A log is named by its path below DIR without its ending, a run in a list of runs by
its task and trial. Nothing but the messages is read.

Runs with an orchestrator: the step before the first record that says there is no progress, else
the last one. Talks with a person: the first symptom that counts, else the first hint about what the
agent said, else the last change that the agent made, else its last words. The category is that of
the symptom (`agentrx_map.py`), else what a step of its sort most often is. These are fixed rules;
nothing is fitted. `--measure` wants `*ground_truth.json` in DIR.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.agentrx_map import ADHERENCE, MISALIGNED, MISREAD, TO_AGENTRX, plain
from benchmarks.arguments import run_command
from benchmarks.logs import documents, only, trace_of
from benchmarks.whowhen_steps import Log, Step, log_of
from connectors.traces.steps import STEP
from contracts.json_types import Json
from contracts.traces import Trace
from nodes.insights.detect.all import Detected, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.detect.writes import changing_verb

KEYS: Final = frozenset({"task_id", "trial", "traj", "history", "question"})
TRUTH: Final = "ground_truth"
ONLY_AGENT: Final = "Assistant"
LEAST_SAID: Final = 20  # characters; shorter last words are a farewell


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is said of one run."""

    agent: str
    step: int
    """From one."""
    category: str


def runs(folder: Path) -> Iterator[tuple[str, Trace]]:
    """(name, trace) of every run below a folder, read without labels."""
    for name, document in documents(folder):
        listed = isinstance(document, list) and not only(document, KEYS)
        for item in document if listed and isinstance(document, list) else [document]:
            kept = only(item, KEYS)
            trace = trace_of(kept)
            if trace is not None:
                yield (str(kept["task_id"]) if "task_id" in kept else name), trace


def answer_of(trace: Trace, scans: Scans) -> Answer | None:
    """The root cause of one run; None where it has no steps."""
    log = log_of(trace)
    if not log.steps:
        return None
    found = detect(trace, scans)
    kinds = _kinds(found)
    step = _unmoved(log) if log.orchestrated else _in_talk(log, found, kinds)
    kind = kinds.get(step.number)
    default = MISREAD if step.note else ADHERENCE if log.orchestrated else MISALIGNED
    category = TO_AGENTRX.get(kind or "", default)
    agent = step.speaker if log.orchestrated else ONLY_AGENT
    return Answer(agent=agent, step=step.number + 1, category=category)


def _unmoved(log: Log) -> Step:
    """The step after which the orchestrator first saw no progress, else the last."""
    stuck = next((step.number for step in log.steps if step.stuck), None)
    before = [one for one in log.candidates if stuck is None or one.number < stuck]
    return before[-1] if before else log.candidates[-1]


def _kinds(found: Detected) -> Mapping[int, str]:
    """The kind of a symptom at each step of the log, what counts before hints."""
    kinds: dict[int, str] = {}
    for symptom in sorted(found.symptoms, key=lambda s: not s.counts):
        number = found.view.by_id[symptom.span_id].attributes.get(STEP)
        if isinstance(number, int) and not symptom.recovered:
            kinds.setdefault(number, symptom.kind)
    return kinds


def _in_talk(log: Log, found: Detected, kinds: Mapping[int, str]) -> Step:
    """The step at which a talk with a person went wrong."""
    by_number = {step.number: step for step in log.steps}
    counted = {found.view.by_id[s.span_id].attributes.get(STEP) for s in found.symptoms if s.counts}
    for chosen in (counted, kinds.keys()):
        first = next((step for step in log.steps if step.number in chosen), None)
        if first is not None:
            return first
    changes = [
        by_number[number]
        for call in found.view.calls.values()
        if changing_verb(call.tool) is not None
        and isinstance(number := call.span.attributes.get(STEP), int)
        and number in by_number
    ]
    if changes:
        return changes[-1]
    said = [step for step in log.candidates if len(step.text) >= LEAST_SAID]
    return (said or log.candidates)[-1]


def answers(folder: Path) -> dict[str, dict[str, Json]]:
    """`{log: answer}` for a folder."""
    scans = Scans()
    found: dict[str, dict[str, Json]] = {}
    for name, trace in runs(folder):
        answer = answer_of(trace, scans)
        if answer is not None and TRUTH not in name:
            found[name] = {
                "agent": answer.agent,
                "step": answer.step,
                "category": answer.category,
            }
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What annotators said of one run."""

    step: int
    category: str
    agent: str
    steps: frozenset[int]
    """Of all its failures."""


def truths(folder: Path) -> dict[str, dict[str, Truth]]:
    """`{file: {run: truth}}` of the labels in a folder."""
    found: dict[str, dict[str, Truth]] = {}
    for name, document in documents(folder):
        if TRUTH not in name or not isinstance(document, list):
            continue
        for row in document:
            truth = _truth(row) if isinstance(row, dict) else None
            if truth is not None and isinstance(row, dict):
                found.setdefault(name, {})[str(row["trajectory_id"])] = truth
    return found


def _truth(row: Mapping[str, Json]) -> Truth | None:
    failures, root = row.get("failures"), row.get("root_cause")
    if not isinstance(failures, list) or not isinstance(root, dict):
        return None
    rows = [one for one in failures if isinstance(one, dict)]
    cause = next((one for one in rows if one.get("failure_id") == root.get("failure_id")), None)
    if cause is None:
        return None
    return Truth(
        step=int(str(cause["step_number"])),
        category=plain(str(cause["failure_category"])),
        agent=str(cause["failed_agent"]).lower(),
        steps=frozenset(int(str(one["step_number"])) for one in rows),
    )


def measure(folder: Path) -> None:
    """Print the table."""
    given = {name.rpartition("/")[2]: answer for name, answer in answers(folder).items()}
    labels = truths(folder)
    if not labels:
        raise SystemExit(f"{folder}: no *{TRUTH}.json")
    print(f"{'':36}{'runs':>6}{'step':>7}{'+-1':>7}{'+-3':>7}{'any':>7}{'agent':>7}{'kind':>7}")
    for file, rows in labels.items():
        pairs = [(given[name], truth) for name, truth in rows.items() if name in given]
        if not pairs:
            continue
        scores: Counter[str] = Counter()
        for answer, truth in pairs:
            step = int(str(answer["step"]))
            off = abs(step - truth.step)
            scores["step"] += off == 0
            scores["+-1"] += off <= 1
            scores["+-3"] += off <= 3
            scores["any"] += step in truth.steps
            scores["agent"] += str(answer["agent"]).lower() == truth.agent
            scores["kind"] += plain(str(answer["category"])) == truth.category
        line = "".join(
            f"{scores[name] / len(pairs):7.2f}"
            for name in ("step", "+-1", "+-3", "any", "agent", "kind")
        )
        print(f"{file:36}{len(pairs):>6}{line}")
        common, count = Counter(truth.category for _, truth in pairs).most_common(1)[0]
        print(f"{'  always ' + common:36}{'':>6}{'':35}{count / len(pairs):7.2f}")


def main() -> None:
    """Answer or measure."""
    run_command("agentrx", answers=answers, measure=lambda folder, _repeats: measure(folder))


if __name__ == "__main__":
    main()
