"""Worker loop for agents that Tracemend probes; standard library only.

Tracemend starts the command of `probe.command` in `tracemend.yaml`, sends one JSON line for each
run and reads one back. `serve` is that loop. A whole worker:

    from tracemend_runtime import RunAnswer, RunRequest, serve

    from my_agent import build_agent


    def run(request: RunRequest) -> RunAnswer:
        agent = build_agent(instructions=request.harness / "instructions" / "main.md")
        reply = agent.invoke(request.input, seed=request.seed, timeout=request.deadline_s)
        return RunAnswer(
            output=reply.text,
            input_tokens=reply.usage.input,
            output_tokens=reply.usage.output,
        )


    if __name__ == "__main__":
        serve(run, concurrency=2)

`run` reads the agent's text from `request.harness`, a folder laid out as the harness is, and only
from there: it may not write into it. An exception that leaves `run` is the agent's failure; what
kept the run from being observed at all (the provider is down) is told by `missing`. `run` may be
`async`; then it is cancelled at its deadline. A synchronous one is run in one of `concurrency`
threads and cannot be stopped from outside: Tracemend kills a worker that does not answer in time.

For a probe of kind `command`, where each run is a process of its own, `answer_once(run)` stands in
the place of `serve(run)`.
"""

from tracemend_runtime.once import answer_once
from tracemend_runtime.records import RunAnswer, RunRequest
from tracemend_runtime.worker import serve

__all__ = ["RunAnswer", "RunRequest", "answer_once", "serve"]
