"""What text steered the steps of a trace: managed prompts, system texts, skills, agents. Pure.

Texts are kept as prints (`nodes.textprint`), names masked and cut. Everything here is said by a
trace: it ranks files that are there anyway, and names no path that is opened.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from contracts.traces import Span, SpanId
from nodes.insights.detect.view import View
from nodes.insights.signature import clean
from nodes.textprint import packed, print_of, runs_of

MAX_STEERS: Final = 8
MAX_SKILLS: Final = 16
MAX_TEXTS: Final = 3
"""Different prints kept of one trace; those of failing steps first."""
LOOKED_BACK: Final = 64
"""Model calls that are looked at for the one that decided on a step."""
NAME_CHARS: Final = 160
_CACHED: Final = 512
_MIN_WORDS_CHARS: Final = 20

_NAMES: Final = ("prompt.id", "langsmith.metadata.lc_hub_repo", "lc_hub_repo",
                 "langfuse.observation.metadata.prompt_name")  # fmt: skip
_OWNERS: Final = ("langsmith.metadata.lc_hub_owner", "lc_hub_owner")
_VERSIONS: Final = ("llm.prompt_template.version", "langsmith.metadata.lc_hub_commit_hash",
                    "lc_hub_commit_hash",
                    "langfuse.observation.metadata.prompt_version")  # fmt: skip
_AGENTS: Final = ("gen_ai.agent.name", "agent.name", "graph.node.id", "node")
_TEMPLATE: Final = "llm.prompt_template.template"
_SKILL_PATH: Final = re.compile(r"skills/([A-Za-z0-9][\w.-]{0,63})(?=[/\"'\s\\]|\Z)")
_SKILL_FILE: Final = re.compile(r"([A-Za-z0-9][\w.-]{0,63})/SKILL\.md", re.IGNORECASE)
_SKILL_TOOLS: Final = re.compile(
    r"(?:load|read|use|get|activate|invoke|run|open)?_?skills?", re.IGNORECASE
)
_SKILL_NAMES: Final = ("skill", "skill_name", "name", "command", "id")
_SKILL_HEAD: Final = re.compile(
    r"---\s*\n(?:[^\n]*\n){0,4}?name:[ \t]*[\"']?([A-Za-z0-9][\w.-]{0,63})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steer:
    """One way in which model calls of a trace were steered; empty: not recorded."""

    agent: str = ""
    prompt: str = ""
    version: str = ""
    text: str = ""
    """Print of the system text that was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """All of one trace."""

    steers: tuple[Steer, ...] = ()
    skills: tuple[str, ...] = ()
    """Names of skills whose text a step opened."""
    of: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By signature of a symptom: which of `steers` the steps with it were steered by."""

    def failing(self, signature: str) -> tuple[Steer, ...]:
        """Those behind the steps of a finding; its own signature may be longer, by its message."""
        key = signature.partition("~")[0].rstrip(":")
        found = {n for name, which in self.of.items() if _covers(key, name) for n in which}
        return tuple(self.steers[n] for n in sorted(found) if n < len(self.steers))


def _covers(key: str, name: str) -> bool:
    plain = name.partition("~")[0].rstrip(":")
    return plain == key or plain.startswith(f"{key}:")


def steering_of(view: View, places: Sequence[tuple[str, SpanId]]) -> Steering:
    """What steered a trace.

    Args:
        view: the trace.
        places: (signature, span) of its lasting symptoms.
    """
    trace = view.trace
    calls = [span for span in trace.spans if span.kind == "llm"]
    found: dict[Steer, int] = {}
    prints: dict[str, None] = {}
    of: dict[str, dict[int, None]] = {}
    at = {span.id: number for number, span in enumerate(trace.spans)}
    # Failing steps first: of what is too much, the rest is left out.
    for signature, span_id in places:
        span = view.by_id.get(span_id)
        call = _decided(view, calls, at, span) if span is not None else None
        number = _number(view, call, found, prints) if call is not None else None
        if number is not None:
            of.setdefault(signature, {})[number] = None
    for call in calls[: 4 * LOOKED_BACK]:
        if len(found) == MAX_STEERS:
            break
        _number(view, call, found, prints)
    return Steering(
        steers=tuple(found), skills=tuple(dict.fromkeys(_skills(view)))[:MAX_SKILLS],
        of={signature: tuple(numbers) for signature, numbers in of.items()},
    )  # fmt: skip


def _number(view: View, call: Span, found: dict[Steer, int], prints: dict[str, None]) -> int | None:
    steer = _steer(view, call)
    if steer.text and steer.text not in prints:
        if len(prints) == MAX_TEXTS:
            steer = Steer(agent=steer.agent, prompt=steer.prompt, version=steer.version)
        else:
            prints[steer.text] = None
    if steer == Steer():
        return None
    if steer not in found and len(found) < MAX_STEERS:
        found[steer] = len(found)
    return found.get(steer)


def _decided(
    view: View, calls: Sequence[Span], at: Mapping[SpanId, int], span: Span
) -> Span | None:
    """The call that decided on a step: itself, its own last one, else the last one near before."""
    if span.kind == "llm":
        return span
    inside = [one for one in view.under(span) if one.kind == "llm"] if view.children else []
    if inside:
        return max(inside, key=lambda one: at[one.id])
    above = _above(view, span)
    here = at[span.id]
    before = [c for c in calls if at[c.id] < here][-LOOKED_BACK:]
    if not before:
        return None

    def near(call: Span) -> tuple[int, int]:
        shared = next((above[one] for one in _above(view, call) if one in above), len(above))
        return -shared, at[call.id]

    return max(before, key=near)


def _above(view: View, span: Span) -> dict[SpanId, int]:
    """How far each span above this one is, nearest first."""
    found: dict[SpanId, int] = {}
    here: Span | None = span
    while here is not None and here.parent_id is not None and here.parent_id not in found:
        found[here.parent_id] = len(found)
        here = view.by_id.get(here.parent_id)
    return found


def _steer(view: View, call: Span) -> Steer:
    linked = (pair for one in _beside(view, call) if (pair := _prompt(one)) is not None)
    name, version = next(linked, ("", ""))
    return Steer(
        agent=_cut(_agent(view, call)), prompt=_cut(name), version=_cut(version),
        text=_text_print(call),
    )  # fmt: skip


def _beside(view: View, call: Span) -> Iterator[Span]:
    """The call, and steps that may carry its prompt: those just before it in its chain, the chain.

    LangSmith, for one, links a prompt of its hub to the template's own run.
    """
    yield call
    parent = view.by_id.get(call.parent_id) if call.parent_id else None
    if parent is None or parent.kind == "agent":
        return
    before: list[Span] = []
    for one in view.children.get(parent.id, ()):
        if one.id == call.id:
            break
        before.append(one)
    for one in reversed(before[-LOOKED_BACK:]):
        if one.kind == "llm":
            break
        yield one
    yield parent


def _prompt(span: Span) -> tuple[str, str] | None:
    """The name and the version of the managed prompt that is linked to a step."""
    version = span.prompt_version or _said(span, _VERSIONS)
    if span.prompt_name:
        return span.prompt_name, version
    name, owner = _said(span, _NAMES), _said(span, _OWNERS)
    if not name:
        return None
    return f"{owner}/{name}" if owner and owner != "-" else name, version


def _agent(view: View, call: Span) -> str:
    """The agent that made a call: as recorded there, else the nearest agent above it."""
    here: Span | None = call
    seen = 0
    while here is not None and seen < LOOKED_BACK:
        if said := _said(here, _AGENTS):
            return said
        if here.kind == "agent" and not here.virtual and here.name:
            return here.name
        here = view.by_id.get(here.parent_id) if here.parent_id else None
        seen += 1
    return ""


def _said(span: Span, keys: Sequence[str]) -> str:
    values = (span.attributes.get(key) for key in keys)
    return next((value for value in values if isinstance(value, str) and value), "")


def _cut(text: str) -> str:
    return clean(text, NAME_CHARS) if text else ""


_prints: dict[tuple[int, int], str] = {}


def _text_print(call: Span) -> str:
    """Print of what the call's system messages say; empty where there are none."""
    texts = [m.content for m in call.messages_in if m.role in ("system", "developer")]
    text = "\n".join(texts)
    if not text:
        template = call.attributes.get(_TEMPLATE)
        text = template if isinstance(template, str) else ""
    if len(text) < _MIN_WORDS_CHARS:
        return ""
    key = (len(text), hash(text))
    known = _prints.get(key)
    if known is None:
        known = packed(print_of(runs_of(text)))
        if len(_prints) >= _CACHED:
            _prints.clear()
        _prints[key] = known
    return known


def _skills(view: View) -> Iterator[str]:
    """Names of skills that steps opened, by their path, a skill tool's argument, or what came."""
    for call in view.calls.values():
        tool = call.tool.rsplit(".", 1)[-1]
        for key, value in list((call.arguments or {}).items())[:16]:
            if not isinstance(value, str):
                continue
            if _SKILL_TOOLS.fullmatch(tool) and key in _SKILL_NAMES:
                yield from _named(value)
            head = value[:4_096]
            if "skill" in head or "SKILL" in head:
                yield from _SKILL_PATH.findall(head)
                yield from _SKILL_FILE.findall(head)
        answer = call.answer.text[:512]
        if "---" in answer and (match := _SKILL_HEAD.search(answer)):
            yield match[1]


def _named(value: str) -> Iterator[str]:
    name = value.strip().strip("/").removesuffix("/SKILL.md").rsplit("/", 1)[-1]
    if re.fullmatch(r"[A-Za-z0-9][\w.:-]{0,63}", name):
        yield name.rsplit(":", 1)[-1]
