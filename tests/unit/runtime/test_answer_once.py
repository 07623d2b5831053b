"""One run in a process of its own, by the runtime."""

import asyncio
import io
import json
from pathlib import Path

import pytest
from tracemend_runtime import RunAnswer, RunRequest, answer_once
from tracemend_runtime.records import BadRequestError

RUN = {
    "op": "run", "id": "a", "input": {"message": "hi"}, "harness": "/h", "workdir": "/w",
    "seed": 7, "deadline_s": 5,
}  # fmt: skip


def answered(run: object, **fields: object) -> dict[str, object]:
    out = io.StringIO()
    answer_once(run, stdin=io.StringIO(json.dumps(RUN | fields)), stdout=out)  # type: ignore[arg-type]  # wrong agents on purpose
    (line,) = out.getvalue().splitlines()
    answer: dict[str, object] = json.loads(line)
    assert answer["id"] == "a"
    return answer


def test_the_agent_gets_the_run_and_its_answer_is_the_only_line() -> None:
    def agent(request: RunRequest) -> RunAnswer:
        print("agent talks")  # noqa: T201  must not reach stdout
        assert (request.harness, request.workdir, request.seed) == (Path("/h"), Path("/w"), 7)
        return RunAnswer(output=request.input)

    assert answered(agent)["output"] == {"message": "hi"}


def test_a_request_without_a_folder_to_work_in_has_none() -> None:
    assert answered(lambda r: RunAnswer(output=r.workdir), workdir=None)["output"] is None


def test_what_an_agent_raises_is_its_error() -> None:
    def agent(_: RunRequest) -> RunAnswer:
        raise SystemExit("no order")

    assert answered(agent)["error"] == "SystemExit: no order"


def test_an_async_agent_is_cancelled_at_its_deadline() -> None:
    async def agent(request: RunRequest) -> RunAnswer:
        await asyncio.sleep(600 if request.input == "hang" else 0)
        return RunAnswer(output="fine")

    async def slow_tool(_: RunRequest) -> RunAnswer:
        raise TimeoutError("the tool")

    assert answered(agent)["output"] == "fine"
    assert answered(agent, input="hang", deadline_s=0.05)["error"] == "timeout"
    assert answered(slow_tool)["error"] == "TimeoutError: the tool"


def test_something_else_than_an_answer_is_missing() -> None:
    assert answered(lambda _: "text")["missing"] == "run returned str, not a RunAnswer"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"op": "stop"}', '{"op": "run"}'])
def test_no_run_on_stdin_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError):
        answer_once(lambda _: RunAnswer(), stdin=io.StringIO(text), stdout=io.StringIO())
