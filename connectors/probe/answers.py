"""What a remote agent answered, as values; and the candidate's files as JSON can carry them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from connectors.probe.company import company
from connectors.probe.environment import ENVIRONMENT
from connectors.probe.wire import Answer, ProtocolBreachError, WireId, answer_of, parse_object
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, JsonObject

MAX_DEPTH: Final = 200  # levels of an answer; every later reader walks them one in another


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFiles:
    """A harness as texts by path; what is no text is named only."""

    files: Mapping[str, str]
    left_out: tuple[str, ...]


def text_files(harness: HarnessSnapshot) -> TextFiles:
    """The harness for an agent that cannot read our folder."""
    files: dict[str, str] = {}
    left_out: list[str] = []
    for path, file in sorted(harness.files.items()):
        try:
            text = file.data.decode()
        except UnicodeDecodeError:
            left_out.append(path)
            continue
        if "\0" in text:
            left_out.append(path)
        else:
            files[path] = text
    return TextFiles(files=files, left_out=tuple(left_out))


def run_body(
    wire_id: WireId, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
) -> bytes:  # fmt: skip
    """The object that asks for one run: that of the worker protocol, files instead of a folder."""
    texts = text_files(harness)
    message: dict[str, Json] = {
        "op": "run", "id": wire_id, "input": case_input, "harness": None, "seed": seed,
        "deadline_s": deadline_s, "files": dict(texts.files), "left_out": list(texts.left_out),
        "environment": ENVIRONMENT,
    }  # fmt: skip
    message.update({str(service): url for service, url in company().items()})
    return json.dumps(message, allow_nan=False).encode()


def marks(run_id: str) -> dict[str, str]:
    """Headers that tell an agent whose run it is; what it records should carry the same."""
    return {
        "X-Tracemend-Run": run_id,
        "X-Tracemend-Environment": ENVIRONMENT,
        "baggage": f"tracemend.run_id={run_id},deployment.environment.name={ENVIRONMENT}",
    }


def read_answer(body: bytes, wire_id: WireId) -> tuple[Answer, JsonObject | None]:
    """The answer of a run, and the spans where they stand in it.

    Raises:
        ProtocolBreachError: it is no answer to this run.
    """
    try:
        message = parse_object(body)
        answer = answer_of(message)
    except ProtocolBreachError as breach:
        raise ProtocolBreachError(str(breach).replace("a line", "an answer", 1)) from None
    if answer.id != wire_id:
        raise ProtocolBreachError("an answer to another run")
    if too_deep(answer.output):
        raise ProtocolBreachError(f"an answer nested over {MAX_DEPTH} levels")
    spans = message.get("spans")
    if not isinstance(spans, Mapping) or too_deep(spans):
        return answer, None
    return replace(answer, spans=None), spans


def too_deep(value: Json) -> bool:
    """Whether the value is nested over `MAX_DEPTH` levels; without recursion."""
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
