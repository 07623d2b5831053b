"""Agents' runs as turns: a model call, what it asked for or wrote as code, what was run for it."""

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from contracts.traces import Message, Span, SpanId
from nodes.insights.detect.contracts import (
    Contracts,
    Offered,
    offered_by_schema,
    offered_in_list,
    offered_in_prompt,
)
from nodes.insights.detect.view import ToolCall, View

MAX_CODE = 20_000
_FENCED = re.compile(r"```(?:py|python|tool_code)[ \t]*\n(.*?)(?:\n?```|\Z)", re.DOTALL)
_SPOKE = frozenset({"assistant", "ai", "tool-call"})
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w{1,63})\s*\(")


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One model call of an agent and what came of it before the agent's next model call."""

    call: Span
    said: str
    """The text of the answer, without the native requests for tools."""
    asked: tuple[tuple[str, str], ...]
    """(tool, raw arguments) of the native requests."""
    tools: tuple[ToolCall, ...]
    """Tools that were run for it, in order."""
    agents: tuple[Span, ...]
    """Other agents that were run for it."""
    news: tuple[Message, ...] = ()
    """What the agent's next model call was told after its own last word: results, errors."""
    shown_at: Span | None = None
    """That next model call."""

    @cached_property
    def code(self) -> str:
        """The fenced Python that the answer holds; "" where there is none."""
        if "```" not in self.said:
            return ""
        return "\n".join(match[1] for match in _FENCED.finditer(self.said))[:MAX_CODE]

    @cached_property
    def words(self) -> str:
        """The answer outside its code."""
        return _FENCED.sub("\n", self.said) if "```" in self.said else self.said

    @cached_property
    def tree(self) -> ast.Module | None:
        """The code as a tree; None where it cannot be parsed."""
        if not self.code:
            return None
        try:
            with warnings.catch_warnings():  # what is odd in a trace's code is nobody's news here
                warnings.simplefilter("ignore")
                return ast.parse(self.code)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree, once walked; empty where there is none."""
        return () if self.tree is None else tuple(ast.walk(self.tree))

    @cached_property
    def called(self) -> frozenset[str]:
        """Names of what it calls, natively or as functions in its code."""
        names = {name for name, _ in self.asked}
        if self.tree is not None:
            names |= {
                node.func.id
                for node in self.nodes
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            }
        elif self.code:
            names |= set(_CALLED.findall(self.code))
        return frozenset(names)

    @property
    def acts(self) -> bool:
        """Whether it does something: asks for a tool or writes code to be run."""
        return bool(self.asked or self.code)


@dataclass(frozen=True, kw_only=True)
class Run:
    """The model calls of one agent, by start."""

    span: Span | None
    """The agent's span; None: the model calls that belong to no agent's span."""
    turns: tuple[Turn, ...]
    offered: Mapping[str, Offered]
    """Tools and agents that it could use."""
    answer: int | None
    """Which turn gives the run's answer; None where it gave none."""
    final_tools: frozenset[str]
    """Tools whose call is the answer: by a documented convention, or since the run's output is what
    its last tool was given."""

    @property
    def usable(self) -> frozenset[str]:
        """Names of what could bring it something: tools that do not merely end the run."""
        return frozenset(self.offered) - self.final_tools

    def results_before(self, index: int) -> bool:
        """Whether a tool or an agent gave it something before (or in) the turn at `index`."""
        return self._first_result is not None and self._first_result <= index

    @cached_property
    def _first_result(self) -> int | None:
        """The first turn in which a tool or an agent gave it something."""
        return next(
            (
                index
                for index, turn in enumerate(self.turns)
                if turn.agents or any(call.tool not in self.final_tools for call in turn.tools)
            ),
            None,
        )


def runs_of(view: View) -> tuple[Run, ...]:
    """The runs of all agents of the trace, by their first model call."""
    contracts = view.contracts
    owner = _owners(view)
    calls: dict[SpanId | None, list[Span]] = {}
    tools: dict[SpanId | None, list[ToolCall]] = {}
    agents: dict[SpanId | None, list[Span]] = {}
    for span in view.trace.spans:
        if span.kind == "llm":
            calls.setdefault(owner[span.id], []).append(span)
        elif span.id in view.calls:
            tools.setdefault(owner[span.id], []).append(view.calls[span.id])
        elif span.kind == "agent" and span.parent_id is not None:
            agents.setdefault(owner[span.id], []).append(span)
    prompts: dict[str, tuple[Offered, ...]] = {}
    runs = []
    for key, unordered in calls.items():
        asked = sorted(unordered, key=lambda s: s.started_at)
        used = tools.get(key, [])
        turns = _turns(asked, used, agents.get(key, []))
        offered = _offered(asked, contracts, prompts)
        for call in used:
            offered.setdefault(call.tool, Offered(name=call.tool, parameters=None))
        agent = view.by_id.get(key) if key is not None else None
        runs.append(
            Run(
                span=agent,
                turns=turns,
                offered=offered,
                answer=_answer(turns, agent, contracts),
                final_tools=(contracts.final_tools & frozenset(offered))
                | _delivering(turns, agent),
            )
        )
    return tuple(runs)


def _owners(view: View) -> dict[SpanId, SpanId | None]:
    """For each span the nearest agent above it; parents come before children."""
    owner: dict[SpanId, SpanId | None] = {}
    for span in view.trace.spans:
        parent = view.by_id.get(span.parent_id) if span.parent_id is not None else None
        if parent is None:
            owner[span.id] = None
        elif parent.kind == "agent":
            owner[span.id] = parent.id
        else:
            owner[span.id] = owner.get(parent.id)
    return owner


def _turns(
    calls: list[Span], tools: Iterable[ToolCall], agents: Iterable[Span]
) -> tuple[Turn, ...]:
    starts = [call.started_at for call in calls]
    by_turn: list[tuple[list[ToolCall], list[Span]]] = [([], []) for _ in calls]
    for tool in tools:
        at = bisect_right(starts, tool.span.started_at) - 1
        if at >= 0:
            by_turn[at][0].append(tool)
    for agent in agents:
        at = bisect_right(starts, agent.started_at) - 1
        if at >= 0:
            by_turn[at][1].append(agent)
    return tuple(
        Turn(
            call=call,
            said="\n".join(m.content for m in call.messages_out if m.content),
            asked=tuple((name, raw) for m in call.messages_out for _, name, raw in m.tool_calls),
            tools=tuple(ran),
            agents=tuple(below),
            news=news(after.messages_in) if after else (),
            shown_at=after,
        )
        for call, after, (ran, below) in zip(calls, [*calls[1:], None], by_turn, strict=True)
    )


def news(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What came after the model's own last word, in order; nothing where it said none."""
    found: list[Message] = []
    for message in reversed(messages):
        if message.role in _SPOKE:
            return tuple(reversed(found))
        found.append(message)
    return ()


def _offered(
    calls: list[Span], contracts: Contracts, prompts: dict[str, tuple[Offered, ...]]
) -> dict[str, Offered]:
    """What the calls were offered, by name; a declaration with parameters wins over a bare name."""
    found: dict[str, Offered] = {}
    schemas: set[str] = set()
    for call in calls:
        here: list[Offered] = []
        recorded = call.attributes.get("llm.tools")
        key = str(recorded) if recorded else ""
        if key and key not in schemas:
            schemas.add(key)
            here += offered_by_schema(call)
        for message in opening(call):
            here += _listed(message.content, contracts, prompts)
        for one in here:
            if one.name not in found or one.parameters is not None or one.agent:
                found[one.name] = one
    return found


def _listed(
    text: str, contracts: Contracts, prompts: dict[str, tuple[Offered, ...]]
) -> tuple[Offered, ...]:
    if text not in prompts:
        listed = offered_in_list(text)
        prompts[text] = (*listed, *(offered_in_prompt(text) if contracts.prompts else ()))
    return prompts[text]


def opening(call: Span) -> list[Message]:
    """What the model was told before anything was said in answer: instructions and the task."""
    found = []
    for message in call.messages_in[:6]:
        if message.role in ("assistant", "ai", "tool", "tool-call", "tool-response"):
            break
        found.append(message)
    return found


def _answer(turns: tuple[Turn, ...], span: Span | None, contracts: Contracts) -> int | None:
    for index, turn in enumerate(turns):
        if turn.called & contracts.final_tools:
            return index
    if not turns or (span is not None and (span.status == "error" or span.output is None)):
        return None
    last = turns[-1]
    return len(turns) - 1 if last.said.strip() or last.asked else None


def _delivering(turns: tuple[Turn, ...], span: Span | None) -> frozenset[str]:
    """The tool that only hands over the run's answer: the last one, given what the run put out."""
    used = turns[-1].tools if turns else ()
    output = span.output.text.strip().strip('"') if span is not None and span.output else ""
    given = used[-1].arguments if used and output else None
    if given is not None and any(str(value).strip() == output for value in given.values()):
        return frozenset({used[-1].tool})
    return frozenset()
