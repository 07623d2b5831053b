"""Record the research desk at work, as OTLP JSON lines.

python -m examples.research_desk.record --out traces.jsonl
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from examples.refund_agent.tracing import recording
from examples.research_desk.library import TOPICS, Library, Trouble
from examples.research_desk.team import PROMPTS, answer

_ASKS = (
    "What do we know about {topic}?",
    "Please look up {topic} for me.",
    "Is there anything new on {topic}?",
)


def questions(count: int, seed: int) -> list[str]:
    """`count` questions, the same for the same seed."""
    return [
        _ASKS[(seed + n // len(TOPICS)) % len(_ASKS)].format(topic=TOPICS[(seed + n) % len(TOPICS)])
        for n in range(count)
    ]


def record(
    asked: Sequence[str],
    out: Path,
    *,
    seed: int,
    trouble: Trouble | None = None,
    prompt_version: str = "13",
    environment: str = "production",
) -> list[str]:
    """Ask each question, write the traces to `out`, replacing it; returns the answers.

    Question number i runs under the seed `seed + i`.
    """
    resource = {"deployment.environment.name": environment, "service.name": "research-desk"}
    draft = out.with_name(f"{out.name}.partial")
    draft.unlink(missing_ok=True)
    answers = []
    with recording(draft, resource) as tracer:
        for number, question in enumerate(asked, seed):
            library = Library(trouble=trouble or Trouble(), seed=number)
            said = answer(
                question, library=library, prompt_version=prompt_version,
                session=f"desk-{number}", tracer=tracer,
            )  # fmt: skip
            answers.append(said)
    draft.replace(out)
    return answers


def main() -> None:
    """Record from the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.research_desk.record")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--prompt", choices=sorted(PROMPTS), default="13")
    chosen = parser.parse_args()
    asked = questions(chosen.runs, chosen.seed)
    record(asked, chosen.out, seed=chosen.seed, prompt_version=chosen.prompt)
    print(f"{chosen.runs} runs: {chosen.out}")


if __name__ == "__main__":
    main()
