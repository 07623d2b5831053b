"""Ordinary traffic as sealed cases: a random sample of what the agent is asked day by day.

Targets come from failures (nodes/insights/targets.py). What shows that an edit harms nothing has to
come from elsewhere: units of a window drawn by a hash of the seed, whatever became popular lately,
one input a family, and no relative of a case that an editor saw.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from configs.settings import ScoreRule
from contracts.gate import Case
from contracts.json_types import JsonObject
from contracts.protocols import TraceSource
from contracts.traces import ReadReport, ReadStatus, Trace, TraceQuery
from memory.assertions import is_weak
from memory.cases import case_id
from memory.families import assign_families
from memory.workspace import Workspace
from nodes.casebook import members, read_casebook
from nodes.cases.soundness import check_ordinary
from nodes.cases.witness import NAMELESS, witness_of_detected
from nodes.insights.detect.all import Detected, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.detect.view import ToolCall, View
from nodes.insights.detect.writes import changing_verb, stem, words_of
from nodes.insights.lowest import Lowest, rank
from nodes.insights.sketch import request_of

ORDINARY: Final = "ordinary"
"""Stands for the finding of cases that belong to none."""
MOST: Final = 1_000
"""Cases of one sample."""
SPARE: Final = 8
"""Units drawn for each case that is wanted: some failed, asked nothing, or are near duplicates."""
AT_LEAST: Final = 200
MOST_TOOLS: Final = 3
"""Tool assertions of one case."""
MOST_SIGNATURES: Final = 20
"""Open findings that a case is held against, the worst first."""
OWN_DOING: Final = ("empty_answer", "invented_tool", "repeated_call", "unfinished")
"""Failures that are the agent's own and that no run that went well has; an edit can bring them."""
_THINKING: Final = frozenset(map(stem, ("calculate", "compute", "count", "think")))
"""Words of tools that a run may do without and still be right."""
LATER_TURN: Final = "later in a conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mined:
    """A random sample of ordinary traffic as cases, tagged `sealed`, with their families."""

    cases: tuple[Case, ...]
    asked: int
    """How many were wanted."""
    read: ReadReport
    units: int
    """Sessions or traces that were drawn and looked at, until there were enough."""
    left_out: Mapping[str, int]
    """Why units among them gave no case, with counts."""

    @property
    def status(self) -> ReadStatus:
        """Of the read; of a window that was read in part the sample is of that part."""
        return self.read.status


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One unit of the sample: its first trace as a case, or why it is none."""

    case: Case | None
    why: str


async def mine_ordinary(
    ws: Workspace, source: TraceSource, window: TraceQuery, n: int, seed: int
) -> Mined:
    """Draw `n` ordinary requests of a window as sealed cases. Writes nothing.

    Memory holds one batch of traces and some units a case, however long the window is. The order
    of the traces changes nothing; another seed draws others.

    Args:
        ws: of the project; its cases are what the sample is kept apart from.
        source: where the traffic is read; it leaves out our own runs and counts them.
        window: which traces.
        n: cases wanted, 1 to `MOST`; there may be fewer.
        seed: of the draw.

    Raises:
        UsageError: nothing there can be read at all.
        SourceError: the source is unreachable.
        ConfigError: a case file cannot be used.
    """
    if not 1 <= n <= MOST:
        raise ValueError(f"n must be from 1 to {MOST}, got {n}")
    draw = _Draw(seed, _open_signatures(ws), ws.settings.analysis.scores, Scans())
    drawn: Lowest[_Drawn] = Lowest(max(SPARE * n, AT_LEAST))
    report = ReadReport(source=source.name, format="none")
    async for batch in source.window(window):
        for trace in batch.traces:
            draw.offer(drawn, trace)
        report = batch.read
    return _sample(drawn.items(), read_casebook(ws).cases, n, report)


def keep_ordinary(ws: Workspace, tx: Connection, mined: Mined) -> int:
    """Store a sample with the mined cases and in the manifest of sealed ones: how many are new."""
    known = {case.id for _, _, case in ws.ledger.knowledge.mined()}
    ws.ledger.knowledge.put_cases(tx, ORDINARY, mined.cases)
    ws.ledger.sealed.seal(tx, members(mined.cases))
    return sum(case.id not in known for case in mined.cases)


def _open_signatures(ws: Workspace) -> tuple[str, ...]:
    """Keys of what is known to go wrong, without marks of wordings, and what no agent may do."""
    stored = [one for one in ws.ledger.knowledge.findings() if one.state != "closed"]
    keys = (
        key
        for one in stored
        for key in (one.finding.signature, *(other.signature for other in one.finding.merged))
    )
    known = tuple(dict.fromkeys(key.partition("~")[0] for key in keys))[:MOST_SIGNATURES]
    return (*known, *(kind for kind in OWN_DOING if kind not in known))


@dataclass(frozen=True, slots=True)
class _Draw:
    """How traces are offered to the sample."""

    seed: int
    signatures: Sequence[str]
    scores: Sequence[ScoreRule]
    scans: Scans

    def offer(self, drawn: Lowest[_Drawn], trace: Trace) -> None:
        """Take a trace in if its unit is drawn: of each unit its earliest trace stands for it."""
        begun = 0 if trace.timeless else int(trace.started_at.timestamp() * 1e6)
        order = (rank(f"{self.seed}|{trace.unit}"), (begun << 64) + rank(trace.id))
        if drawn.wants(trace.unit, order):
            detected = detect(trace, self.scans, scores=self.scores)
            drawn.put(trace.unit, order, _looked_at(detected, self.signatures))


def _looked_at(detected: Detected, signatures: Sequence[str]) -> _Drawn:
    trace = detected.view.trace
    request = request_of(trace)
    if trace.own:
        return _Drawn(None, "our own run")
    if detected.failed:
        return _Drawn(None, "failed")
    if request is None:
        return _Drawn(None, "no request recorded")
    if _answers_before(trace):
        return _Drawn(None, LATER_TURN)
    assertions = ordinary_assertions(worked_tools(detected.view), signatures)
    case = Case(
        id=case_id(request),
        input=request,
        assertions=assertions,
        tags=frozenset({"sealed"}),
        family="",
        origin=f"trace:{trace.id}",
        weak=not any("tool_called" in one for one in assertions) or is_weak(assertions),
    )
    checked = check_ordinary(case, witness_of_detected(detected))
    return _Drawn(checked.case, "") if checked.sound else _Drawn(None, checked.why_not or "")


def worked_tools(view: View) -> tuple[str, ...]:
    """Named tools that were called and did not fail, each once, by their last call."""
    calls: list[ToolCall] = [
        call for call in view.calls.values()
        if call.span.id not in view.failed and call.tool not in NAMELESS
    ]  # fmt: skip
    last_first = dict.fromkeys(call.tool for call in reversed(calls))
    return tuple(reversed(last_first))


def ordinary_assertions(worked: Sequence[str], signatures: Sequence[str]) -> tuple[JsonObject, ...]:
    """What a run that went well says of any other run of its request.

    Something is answered, what it changed is changed again (else its last tool is called again),
    and nothing that is known to go wrong does.

    Args:
        worked: tools that it called, in order.
        signatures: of what is known to go wrong.
    """
    changing = [tool for tool in worked if changing_verb(tool) is not None]
    plain = [tool for tool in worked if _THINKING.isdisjoint(words_of(tool))]
    tools = changing[-MOST_TOOLS:] if changing else plain[-1:]
    return (
        {"not_empty": True},
        *({"tool_called": {"name": tool}} for tool in tools),
        *({"no_symptom": key} for key in signatures),
    )


def _answers_before(trace: Trace) -> bool:
    """Whether the recorded request holds an earlier answer: alone it would ask something else."""
    value = trace.asked.input.value if trace.asked.input is not None else None
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list):
        return False
    return any(_role(one) in ("assistant", "ai") for one in messages)


def _role(message: object) -> object:
    if isinstance(message, list) and len(message) == 2:
        return message[0]
    if not isinstance(message, dict):
        return None
    inner = message.get("data") or message.get("kwargs")
    fields = inner if isinstance(inner, dict) else message
    return fields.get("role") or fields.get("type") or message.get("type")


def _sample(drawn: Iterable[_Drawn], known: Sequence[Case], n: int, report: ReadReport) -> Mined:
    """The first `n` that are of a family of their own, in the order in which they were drawn."""
    units = list(drawn)
    new = [one.case for one in units if one.case is not None]
    together = assign_families((*known, *new))
    families = dict(zip(map(id, new), together[len(known) :], strict=True))
    taken = {case.family for case in together[: len(known)]}
    left: Counter[str] = Counter()
    cases: list[Case] = []
    looked = 0
    for one in units:
        if len(cases) == n:
            break
        looked += 1
        if one.case is None:
            left[one.why] += 1
            continue
        case = families[id(one.case)]
        if case.family in taken:
            left["near duplicate of another case"] += 1
            continue
        taken.add(case.family)
        cases.append(case)
    return Mined(
        cases=tuple(cases), asked=n, read=report, units=looked, left_out=dict(sorted(left.items()))
    )
