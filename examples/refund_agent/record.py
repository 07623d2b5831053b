"""Run the agent on requests and record its traces to a file of OTLP JSON lines.

python -m examples.refund_agent.record --harness repo --out traces.jsonl
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.refund_agent.agent import RefundAgent, Usage, build_model
from examples.refund_agent.back_office import WEATHERS, Weather
from examples.refund_agent.requests import Request, generate
from examples.refund_agent.tools import open_office
from examples.refund_agent.tracing import recording

SHIFT_ATTRIBUTE = "tracemend.demo.time_shift_s"
"""Resource attribute that declares by how much all times of a file were moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSummary:
    """What a recording holds."""

    path: Path
    runs: int
    crashed: int
    """Runs that ended in an exception; their traces are recorded as such."""
    first_crash: str | None
    """Type and text of the first of these exceptions."""
    seconds: float
    usage: Usage


def record(
    requests: Sequence[Request],
    harness: Path,
    out: Path,
    *,
    weather: Weather,
    seed: int,
    model: str | None = None,
    time_shift_s: float = 0,
    progress: Callable[[int, int], None] | None = None,
    environment: str = "production",
) -> RecordingSummary:
    """Run the agent on each request in turn and write the traces to `out`, replacing it.

    Request number i runs under the seed `seed + i`. With `time_shift_s`, every time in the file is
    moved by that many seconds afterwards; the file says so in a resource attribute and is
    otherwise as the exporter wrote it.

    Raises:
        FileNotFoundError: the harness has no instructions.
        ValueError: there is no such model here.
    """
    resource: dict[str, str | float] = {
        "deployment.environment.name": environment,
        "deployment.environment": environment,
    }
    if time_shift_s:
        resource[SHIFT_ATTRIBUTE] = float(time_shift_s)
    draft = out.with_name(f"{out.name}.partial")
    draft.unlink(missing_ok=True)
    chat_model = build_model(model)
    started = time.monotonic()
    used: list[Usage] = []
    crashes: list[str] = []
    with open_office(weather) as office, recording(draft, resource) as tracer:
        agent = RefundAgent(model=chat_model, harness=harness, office=office)
        for index, request in enumerate(requests):
            try:
                reply = agent.answer(
                    request.input,
                    seed=seed + index,
                    run_id=request.session,
                    session=request.session,
                    tracer=tracer,
                )
                used.append(reply.usage)
            except Exception as error:  # noqa: BLE001 -- in production one crash ends one run, not all
                crashes.append(f"{type(error).__name__}: {error}")
            if progress is not None:
                progress(index + 1, len(requests))
    if time_shift_s:
        shift_times(draft, round(time_shift_s * 1e9))
    draft.replace(out)
    return RecordingSummary(
        path=out,
        runs=len(requests),
        crashed=len(crashes),
        first_crash=crashes[0] if crashes else None,
        seconds=time.monotonic() - started,
        usage=_total(used, complete=not crashes),
    )


def _total(used: Sequence[Usage], *, complete: bool) -> Usage:
    """Sums; unknown as soon as one run is."""
    sent = [u.input_tokens for u in used if u.input_tokens is not None]
    received = [u.output_tokens for u in used if u.output_tokens is not None]
    cost = [u.cost_usd for u in used if u.cost_usd is not None]
    return Usage(
        input_tokens=sum(sent) if complete and len(sent) == len(used) else None,
        output_tokens=sum(received) if complete and len(received) == len(used) else None,
        cost_usd=sum(cost) if complete and len(cost) == len(used) else None,
    )


def shift_times(path: Path, shift_ns: int) -> None:
    """Move every time of a file of OTLP JSON lines; nothing else changes."""
    moved = path.with_name(f"{path.name}.shifted")
    with path.open(encoding="utf-8") as lines, moved.open("w", encoding="utf-8") as out:
        for line in lines:
            batch = json.loads(line)
            for resource in batch["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        _move(span, shift_ns)
            out.write(json.dumps(batch, separators=(",", ":")) + "\n")  # as the exporter writes
    moved.replace(path)


def _move(span: dict[str, object], shift_ns: int) -> None:
    events = span.get("events")
    for item in (span, *(events if isinstance(events, list) else ())):
        for key in ("startTimeUnixNano", "endTimeUnixNano", "timeUnixNano"):
            if key in item:
                item[key] = str(int(item[key]) + shift_ns)


def main() -> None:
    """Record from the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.refund_agent.record")
    parser.add_argument("--harness", type=Path, default=Path(__file__).parent / "repo")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--weather", choices=sorted(WEATHERS), default="stormy")
    parser.add_argument("--model", help="such as openai:gpt-5-mini; without it the offline model")
    chosen = parser.parse_args()
    try:
        summary = record(
            generate(chosen.runs, chosen.seed),
            chosen.harness,
            chosen.out,
            weather=WEATHERS[chosen.weather],
            seed=chosen.seed,
            model=chosen.model,
        )
    except (ValueError, FileNotFoundError) as error:  # the model's name, the harness folder
        sys.exit(str(error))
    print(f"{summary.runs} runs in {summary.seconds:.1f} s: {summary.path}")
    if summary.first_crash is not None:
        print(f"{summary.crashed} runs crashed, the first with {summary.first_crash}")


if __name__ == "__main__":
    main()
