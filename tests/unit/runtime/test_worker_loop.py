"""The worker loop in this process: streams are given, so no file descriptor is touched."""

import asyncio
import io
import json
import threading
import time
from pathlib import Path

import pytest
from tracemend_runtime import RunAnswer, RunRequest, serve


def run_line(request_id: str, **fields: object) -> str:
    message = {
        "op": "run", "id": request_id, "input": {"message": "hi"}, "harness": "/h", "seed": 7,
        "deadline_s": 5,
    }  # fmt: skip
    return json.dumps(message | fields) + "\n"


def answers(run: object, *lines: str, concurrency: int = 1) -> list[dict[str, object]]:
    out = io.StringIO()
    serve(run, concurrency=concurrency, stdin=io.StringIO("".join(lines)), stdout=out)  # type: ignore[arg-type]  # the tests give wrong agents on purpose
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_the_first_line_says_ready_and_the_concurrency() -> None:
    ready = answers(lambda _: RunAnswer(), concurrency=3)
    assert ready == [{"op": "ready", "v": 1, "concurrency": 3}]


def test_an_answer_carries_what_the_agent_returned_and_null_for_the_unknown() -> None:
    def agent(request: RunRequest) -> RunAnswer:
        assert (request.harness, request.seed) == (Path("/h"), 7)
        return RunAnswer(output=request.input, input_tokens=9, spans=Path("/s.jsonl"))

    assert answers(agent, run_line("a"))[1] == {
        "id": "a", "output": {"message": "hi"}, "error": None, "missing": None,
        "usage": {"input_tokens": 9, "output_tokens": None, "cost_usd": None}, "spans": "/s.jsonl",
    }  # fmt: skip


def test_an_exception_is_the_agents_error_and_the_next_run_is_answered() -> None:
    def agent(request: RunRequest) -> RunAnswer:
        if request.id == "a":
            raise KeyError("order")
        return RunAnswer(output=1)

    first, second = answers(agent, run_line("a"), run_line("b"))[1:]
    assert first["error"] == "KeyError: 'order'"
    assert second["output"] == 1


def test_an_agent_that_exits_does_not_end_the_worker() -> None:
    def agent(request: RunRequest) -> RunAnswer:
        raise SystemExit(3)

    assert [a.get("error") for a in answers(agent, run_line("a"), run_line("b"))[1:]] == [
        "SystemExit: 3",
        "SystemExit: 3",
    ]


async def sleeper(request: RunRequest) -> RunAnswer:
    await asyncio.sleep(120)
    return RunAnswer(output="late")


def test_an_async_agent_is_cancelled_at_its_deadline() -> None:
    started = time.monotonic()
    assert answers(sleeper, run_line("a", deadline_s=0.05))[1]["error"] == "timeout"
    assert time.monotonic() - started < 60


def test_an_agents_own_timeout_error_is_told_from_its_deadline() -> None:
    async def agent(request: RunRequest) -> RunAnswer:
        raise TimeoutError("payment_api")

    assert answers(agent, run_line("a"))[1]["error"] == "TimeoutError: payment_api"


def test_an_object_with_an_async_call_is_awaited() -> None:
    class Agent:
        async def __call__(self, request: RunRequest) -> RunAnswer:
            return RunAnswer(output="async")

    assert answers(Agent(), run_line("a"))[1]["output"] == "async"


@pytest.mark.parametrize("output", [{1, 2}, float("nan"), b"bytes"])
def test_an_output_that_json_cannot_carry_is_missing_not_an_error(output: object) -> None:
    answer = answers(lambda _: RunAnswer(output=output), run_line("a"))[1]
    assert answer["error"] is None
    assert str(answer["missing"]).startswith("the answer is not made of JSON values: ")


def test_a_run_that_returns_something_else_is_missing() -> None:
    answer = answers(lambda _: "text", run_line("a"))[1]
    assert answer["missing"] == "run returned str, not a RunAnswer"


def test_as_many_runs_as_the_concurrency_are_under_way_at_once() -> None:
    both = threading.Barrier(2, timeout=60)

    def agent(request: RunRequest) -> RunAnswer:
        both.wait()
        return RunAnswer(output=request.id)

    done = answers(agent, run_line("a"), run_line("b"), concurrency=2)[1:]
    assert {a["output"] for a in done} == {"a", "b"}


def test_stop_ends_the_loop_and_later_lines_are_not_run() -> None:
    done = answers(
        lambda r: RunAnswer(output=r.id), run_line("a"), '{"op":"stop"}\n', run_line("b")
    )
    assert [a["id"] for a in done[1:]] == ["a"]


@pytest.mark.parametrize(
    "line", ["no json\n", "[]\n", '{"op":"dance"}\n', '{"op":"run","id":"x"}\n']
)
def test_a_line_that_is_no_request_is_logged_and_skipped(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = answers(lambda r: RunAnswer(output=r.id), line, run_line("a"))
    assert [a["id"] for a in done[1:]] == ["a"]
    assert "ignored a line of stdin" in capsys.readouterr().err


def test_a_thread_that_hangs_does_not_hold_the_end_for_longer_than_its_deadline() -> None:
    release = threading.Event()

    def agent(request: RunRequest) -> RunAnswer:
        release.wait(120)
        return RunAnswer()

    started = time.monotonic()
    assert len(answers(agent, run_line("a", deadline_s=0.05))) == 1
    assert time.monotonic() - started < 60
    release.set()


def test_a_concurrency_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="concurrency: got 0, needs at least 1"):
        serve(sleeper, concurrency=0, stdin=io.StringIO(), stdout=io.StringIO())


def test_what_the_agent_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def agent(request: RunRequest) -> RunAnswer:
        print("thinking")  # noqa: T201  agents do
        return RunAnswer(output=1)

    assert len(answers(agent, run_line("a"))) == 2
    assert capsys.readouterr() == ("", "thinking\n")
