"""Traces made on the fly for measuring: re-sent contexts, several tools, 2 % of runs failing.

Shaped as recorders write them: a model call carries every message it was sent, as attributes and
once more as `input.value`, so a conversation is written down again in every call. Texts differ from
run to run, so that no memory of equal texts makes measuring pleasant.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import orjson

from contracts.json_types import Json

FAILING = 0.02
STEPS = (2, 10)
"""Model calls of a run; each but the last is followed by a tool call."""
START_NS = 1_795_510_800_000_000_000
_SYSTEM = "You are the order desk of a shop. Use the tools; never guess. " + " ".join(
    f"Rule {n}: look before you promise, and say what was not done." for n in range(9)
)
_TOOLS = tuple(
    f"{verb}_{noun}"
    for verb in ("get", "list", "update", "check")
    for noun in ("order", "parcel", "payment", "address", "stock", "label")
)
_WORDS = (
    "parcel", "depot", "left", "waiting", "customer", "counted", "blue", "carton", "Essen", "paid",
    "invoice", "morning", "second", "shelf", "van", "returned", "checked", "note", "lamp", "open",
)  # fmt: skip
_ERRORS = (
    ("TimeoutError", "504 Gateway Timeout after 30 s at shard {n}"),
    ("ValueError", "order id 'A-{n}' must have a capital letter, a hyphen and four digits"),
    ("KeyError", "carrier_{n}"),
    ("RateLimitError", "429 Too Many Requests, request {n}"),
)
_SILENT = (
    '{{"ok": false, "error": "no stock for item {n}"}}',
    "Error: the register did not accept entry {n}",
)

Span = dict[str, Json]


def write_made(path: Path, spans: int, seed: int = 7) -> int:
    """Write export requests with about `spans` spans, one run a line; returns how many exactly."""
    made = 0
    with path.open("wb") as out:
        for line, count in lines(spans, seed):
            out.write(line)
            made += count
    return made


def lines(spans: int, seed: int) -> Iterator[tuple[bytes, int]]:
    """(one run as a line, its spans) until there are at least `spans`."""
    made = number = 0
    while made < spans:
        run = _Run(number, seed).spans()
        made += len(run)
        number += 1
        document = {"resourceSpans": [{"scopeSpans": [{"spans": run}]}]}
        yield orjson.dumps(document) + b"\n", len(run)


class _Run:
    """One run in the making."""

    def __init__(self, number: int, seed: int) -> None:
        self._rng = random.Random(f"{seed}|{number}")  # noqa: S311  (sizes, no secret)
        self._trace = f"{number + 1:032x}"
        self._at = START_NS + number * 2_000_000_000
        self._made: list[Span] = []
        self._known = self._rng.randrange(1_000, 10_000)  # the number that is talked about
        self._order = f"A-{self._known}"
        self._messages: list[tuple[str, str]] = [("system", _SYSTEM), ("user", self._words(30))]
        self._fails = self._rng.random() < FAILING

    def spans(self) -> list[Span]:
        """The spans in the order in which they ended."""
        steps = self._rng.randint(*STEPS)
        for step in range(steps):
            last = step == steps - 1
            tool = self._rng.choice(_TOOLS)
            said = self._words(25)
            arguments = orjson.dumps({"order_id": self._order}).decode()
            self._call_model(said, None if last else (tool, arguments))
            self._messages.append(("assistant", said))
            if not last:
                self._call_tool(tool, arguments, fails=self._fails and step == steps - 2)
        self._span("agent", "AGENT", 1, None, {"input.value": self._messages[1][1],
                   "output.value": self._messages[-1][1]})  # fmt: skip
        return self._made

    def _words(self, count: int) -> str:
        chosen = self._rng.choices(_WORDS, k=count)
        chosen[count // 2] = str(self._known)
        return " ".join(chosen)

    def _call_model(self, said: str, call: tuple[str, str] | None) -> None:
        attributes: dict[str, Json] = {
            "llm.model_name": "some-model",
            "llm.token_count.prompt": sum(len(text) for _, text in self._messages) // 4,
            "input.value": orjson.dumps(self._messages).decode(),
        }
        for at, (role, text) in enumerate(self._messages):
            attributes[f"llm.input_messages.{at}.message.role"] = role
            attributes[f"llm.input_messages.{at}.message.content"] = text
        attributes["llm.output_messages.0.message.role"] = "assistant"
        attributes["llm.output_messages.0.message.content"] = said
        if call is not None:
            prefix = "llm.output_messages.0.message.tool_calls.0.tool_call.function"
            attributes[f"{prefix}.name"], attributes[f"{prefix}.arguments"] = call
        self._span("model", "LLM", len(self._made) + 2, 1, attributes)

    def _call_tool(self, tool: str, arguments: str, *, fails: bool) -> None:
        number = self._known = self._rng.randrange(10**6)
        answer = orjson.dumps(
            {"order": number, "state": "open", "lines": [self._words(12) for _ in range(3)]}
        ).decode()
        error: tuple[str, str] | None = None
        if fails and self._rng.random() < 0.5:
            kind, text = self._rng.choice(_ERRORS)
            error = (kind, text.format(n=number))
            answer = error[1]
        elif fails:
            answer = self._rng.choice(_SILENT).format(n=number)
        attributes: dict[str, Json] = {
            "tool.name": tool, "input.value": arguments, "output.value": answer,
        }  # fmt: skip
        self._span(tool, "TOOL", len(self._made) + 2, 1, attributes, error=error)
        self._messages.append(("tool", answer))

    def _span(
        self,
        name: str,
        kind: str,
        number: int,
        parent: int | None,
        attributes: dict[str, Json],
        *,
        error: tuple[str, str] | None = None,
    ) -> None:
        begin = self._at + number * 100_000_000
        span: Span = {
            "traceId": self._trace,
            "spanId": f"{number:016x}",
            "name": name,
            "startTimeUnixNano": str(self._at if parent is None else begin),
            "endTimeUnixNano": str(begin + (9_000_000_000 if parent is None else 90_000_000)),
            "status": {"code": 2 if error else 1},
            "attributes": [
                {"key": key, "value": _value(value)}
                for key, value in (("openinference.span.kind", kind), *attributes.items())
            ],
        }
        if parent is not None:
            span["parentSpanId"] = f"{parent:016x}"
        if error is not None:
            said = {"exception.type": error[0], "exception.message": error[1]}
            span["events"] = [
                {
                    "name": "exception",
                    "attributes": [{"key": k, "value": _value(v)} for k, v in said.items()],
                }
            ]
        self._made.append(span)


def _value(value: Json) -> dict[str, Json]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
