"""What frameworks document about themselves, and what models' interfaces record, in one place.

- smolagents (guided tour, "Tools" and "Agents"): a run ends by calling the tool `final_answer`;
  tools are told to the model as `- name: description` with a line `Takes inputs: {...}` below, and
  members of a team under "You can also give tasks to team members" as `- name: description`.
- Chat model interfaces: `stop` (OpenAI, LiteLLM) or `stop_sequences` (Anthropic, smolagents): the
  model's text ends *before* such a sequence, so its absence there is how the interface works.
- Function calling: schemas of offered tools with `parameters` or `input_schema` as JSON Schema.

A detector asks here and nowhere else, so that a trace can also be looked at without any of it.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from contracts.json_types import Json
from contracts.traces import Span
from nodes.insights.detect.answers import parsed

MAX_OFFERED = 256
MAX_LITERAL = 4_000
_STOP = re.compile(r'(?<!\\)"(?:stop_sequences|stop)"\s*:\s*(\[[^\]]{0,400}\]|"[^"]{0,80}")')
_LISTED = re.compile(
    r"^[ \t]*[-*] `?(\w{2,64})`?:[^\n]*(?:\n(?![ \t]*[-*] \w+:)[^\n]*){0,12}?\n"
    r"[ \t]*Takes inputs: (\{[^\n]{0,4000}\})",
    re.MULTILINE,
)
_BULLET = re.compile(
    r"^[ \t]*[-*] `?([a-z][a-z0-9]{0,30}(?:_[a-z0-9]{1,30}){1,6})`?\s?[:(]", re.MULTILINE
)
_TEAM = re.compile(r"give tasks to team members|team members that you can call")
_MEMBER = re.compile(r"^[-*] `?(\w{2,64})`?: ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A tool that a model was offered."""

    name: str
    parameters: frozenset[str] | None
    """None: its parameters are not known, or it takes any."""
    required: frozenset[str] = frozenset()
    closed: bool = False
    """Its declaration says that it takes no others."""
    agent: bool = False
    """Another agent that takes tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contracts:
    """Which documented conventions are recognised."""

    final_tools: frozenset[str] = field(default_factory=frozenset)
    """Tools whose call ends the run and gives its answer."""
    prompts: bool = False
    """Tools and team members are read from the prompt, where a framework lists them there."""
    stops: bool = False
    """Required end markers that are stop sequences are known as such."""


ALL = Contracts(final_tools=frozenset({"final_answer"}), prompts=True, stops=True)
NONE = Contracts()
"""Only what the trace itself shows: for measuring what the conventions are worth."""


def stop_sequences(span: Span) -> tuple[str, ...]:
    """The stop sequences that the model call was made with, as far as they were recorded."""
    texts = [str(span.attributes.get("llm.invocation_parameters", ""))]
    if span.input is not None:
        text = span.input.text  # parameters stand before or behind the messages
        texts += [text[-2_000:], text[:2_000] if len(text) > 2_000 else ""]
    found: dict[str, None] = {}
    for text in texts:
        if "stop" not in text:
            continue
        for match in _STOP.finditer(text):
            value = parsed(match[1]) if match[1].startswith("[") else match[1].strip('"')
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, str) and item:
                    found[item] = None
    return tuple(found)


def offered_by_schema(span: Span) -> list[Offered]:
    """Tools whose schemas were recorded with the model call."""
    schemas = span.attributes.get("llm.tools")
    if isinstance(schemas, str):
        schemas = parsed(schemas)
    found: list[Offered] = []
    for schema in schemas if isinstance(schemas, list) else ():
        value = parsed(schema) if isinstance(schema, str) else schema
        if isinstance(value, dict) and len(found) < MAX_OFFERED:
            found += _from_schema(value)
    return found


def _from_schema(value: Mapping[str, Json]) -> list[Offered]:
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        return []
    schema = inner.get("parameters") or inner.get("input_schema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return [Offered(name=name, parameters=None)]
    extra = schema.get("additionalProperties")
    required = schema.get("required")
    needed = [r for r in required if isinstance(r, str)] if isinstance(required, list) else []
    return [
        Offered(
            name=name,
            parameters=frozenset(properties) if extra in (None, False) else None,
            required=frozenset(needed),
            closed=extra is False,
        )
    ]


def offered_in_list(text: str) -> list[Offered]:
    """Names in a list of a prompt that speaks of tools, whatever the framework: `- name: ...`."""
    if "tool" not in text:
        return []
    names = dict.fromkeys(match[1] for match in _BULLET.finditer(text))
    return [Offered(name=name, parameters=None) for name in list(names)[:MAX_OFFERED]]


def offered_in_prompt(text: str) -> list[Offered]:
    """Tools and team members that the prompt lists, in the documented form."""
    found: list[Offered] = []
    if "Takes inputs:" in text:
        for match in _LISTED.finditer(text):
            found.append(_listed(match[1], match[2]))
            if len(found) >= MAX_OFFERED:
                break
    team = _TEAM.search(text)
    if team is not None:
        part = text[team.end() : team.end() + 8_000].split("\n\n\n", 1)[0]
        part = part.split("\nHere are the rules", 1)[0].split("\nList of facts", 1)[0]
        found += [
            Offered(name=match[1], parameters=None, agent=True)
            for match in list(_MEMBER.finditer(part))[:32]
        ]
    return found


def _listed(name: str, inputs: str) -> Offered:
    value: object = None
    if len(inputs) <= MAX_LITERAL:
        try:
            value = ast.literal_eval(inputs)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = None
    if not isinstance(value, dict):
        return Offered(name=name, parameters=None)
    names = {key for key in value if isinstance(key, str)}
    optional = {k for k in names if isinstance(value[k], dict) and value[k].get("nullable")}
    return Offered(
        name=name,
        parameters=frozenset(names),
        required=frozenset(names - optional),
        closed=True,  # they become the parameters of a Python function
    )
