"""The agent as a worker of a probe: `python -m examples.refund_agent.worker`.

Run it with the checkout as working directory or on `PYTHONPATH`. Environment:
`REFUND_AGENT_WEATHER` is `stormy` (default) or `calm`; `--model NAME` or `REFUND_AGENT_MODEL` names
a real chat model, such as `openai:gpt-5-mini`, in place of the offline one. Standard output belongs
to the protocol: nothing else writes there.
"""

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from tracemend_runtime import RunAnswer, RunRequest, serve

from examples.refund_agent.agent import RefundAgent, build_model
from examples.refund_agent.back_office import WEATHERS, Weather
from examples.refund_agent.tools import OfficeClient, open_office
from examples.refund_agent.tracing import recording

ENVIRONMENT = "tracemend-gate"
"""Marks the spans of a probe run, so that they are never taken for production."""


def weather_of(name: str) -> Weather:
    """The weather with this name.

    Raises:
        ValueError: there is none.
    """
    if name not in WEATHERS:
        raise ValueError(f"REFUND_AGENT_WEATHER: got {name!r}, needs one of {sorted(WEATHERS)}")
    return WEATHERS[name]


def answer(
    request: RunRequest, *, model: BaseChatModel, office: OfficeClient, folder: Path
) -> RunAnswer:
    """Run the agent once with the harness that the request names."""
    given = request.input
    if not isinstance(given, dict) or not isinstance(given.get("message"), str):
        return RunAnswer(output=None, error="the input needs a text under `message`")
    run = {key: str(value) for key, value in given.items()}
    spans = folder / f"{hashlib.sha256(request.id.encode()).hexdigest()[:16]}.jsonl"
    spans.unlink(missing_ok=True)
    resource = {
        "deployment.environment.name": ENVIRONMENT,
        "deployment.environment": ENVIRONMENT,
        "tracemend.run_id": request.id,
    }
    try:
        with recording(spans, resource) as tracer:
            agent = RefundAgent(model=model, harness=request.harness, office=office)
            reply = agent.answer(
                run, seed=request.seed, run_id=request.id, session=request.id, tracer=tracer
            )
    except Exception as error:  # noqa: BLE001 -- an agent that breaks is what the probe wants to see
        return RunAnswer(output=None, error=f"{type(error).__name__}: {error}", spans=spans)
    return RunAnswer(
        output=reply.text,
        input_tokens=reply.usage.input_tokens,
        output_tokens=reply.usage.output_tokens,
        cost_usd=reply.usage.cost_usd,
        spans=spans,
    )


def main() -> None:
    """Serve until told to stop. One run at a time, since the instrumentation is one a process."""
    parser = argparse.ArgumentParser(prog="python -m examples.refund_agent.worker")
    parser.add_argument(
        "--model",
        metavar="NAME",
        default=os.environ.get("REFUND_AGENT_MODEL") or None,
        help="such as openai:gpt-5-mini; without it the offline model",
    )
    chosen = parser.parse_args()
    try:
        weather = weather_of(os.environ.get("REFUND_AGENT_WEATHER", "stormy"))
        model = build_model(chosen.model)
    except ValueError as error:
        sys.exit(str(error))
    with (
        open_office(weather) as office,
        tempfile.TemporaryDirectory(prefix="refund-agent-") as folder,
    ):
        serve(
            lambda request: answer(request, model=model, office=office, folder=Path(folder)),
            concurrency=1,
        )


if __name__ == "__main__":
    main()
