"""What a run is asked and what it answers, and both as lines of the worker protocol."""

import json
from dataclasses import dataclass
from pathlib import Path

MAX_ERROR_CHARS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run of the agent. The id is random: it tells neither the case nor the arm."""

    id: str
    input: object
    """The case's input, as JSON values."""
    harness: Path
    """Folder with the agent's text for this run; read it, never write into it."""
    seed: int
    deadline_s: float
    """Seconds from the start of the run; a later answer counts as a timeout of the agent."""
    workdir: Path | None = None
    """Empty folder of this run, removed after it; for whatever the agent writes."""
    replay: str | None = None
    """Where tools are answered from a recording; `tracemend_runtime.replay` asks there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAnswer:
    """What the agent did. Leave out what is not known: None is unknown, never zero.

    `missing` says why the run could not be observed (the provider is down), `error` how the agent
    failed; `output` counts when both are None. `output` is made of JSON values.
    """

    output: object = None
    error: str | None = None
    missing: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    spans: Path | None = None
    """File with the spans of this run (OTLP JSON lines)."""


class BadRequestError(ValueError):
    """A line on stdin is not a message of the worker protocol."""


def parse(line: str) -> RunRequest | None:
    """The request of one line; None for stop.

    Raises:
        BadRequestError: the line is neither a run nor a stop.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"not JSON: {error}") from None
    if not isinstance(message, dict):
        raise BadRequestError("not a JSON object")
    if message.get("op") == "stop":
        return None
    if message.get("op") != "run" or not isinstance(message.get("id"), str):
        raise BadRequestError(f"neither a run nor a stop: op {message.get('op')!r}")
    try:
        return RunRequest(
            id=message["id"],
            input=message.get("input"),
            harness=Path(message["harness"]),
            seed=int(message["seed"]),
            deadline_s=float(message["deadline_s"]),
            workdir=_path(message.get("workdir")),
            replay=_text(message.get("replay")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadRequestError(f"run without a usable {error}") from None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _path(value: object) -> Path | None:
    return Path(value) if isinstance(value, str) else None


def answer_line(request_id: str, answer: RunAnswer) -> str:
    """One answer as a line; an output that JSON cannot carry makes the run missing."""
    try:
        return _line(request_id, answer)
    except (TypeError, ValueError, RecursionError) as error:
        why = f"the answer is not made of JSON values: {error}"
        return _line(request_id, RunAnswer(missing=why[:MAX_ERROR_CHARS]))


def _line(request_id: str, answer: RunAnswer) -> str:
    message = {
        "id": request_id,
        "output": answer.output,
        "error": None if answer.error is None else answer.error[:MAX_ERROR_CHARS],
        "missing": answer.missing,
        "usage": {
            "input_tokens": answer.input_tokens,
            "output_tokens": answer.output_tokens,
            "cost_usd": answer.cost_usd,
        },
        "spans": None if answer.spans is None else str(answer.spans.absolute()),
    }
    return json.dumps(message, allow_nan=False) + "\n"
