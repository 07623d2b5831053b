"""One run in a process of its own: the request on stdin, one answer on stdout."""

import asyncio
from typing import TextIO, cast

from tracemend_runtime.records import BadRequestError, RunAnswer, RunRequest, answer_line, parse
from tracemend_runtime.replay import replaying
from tracemend_runtime.streams import protocol_streams
from tracemend_runtime.worker import AsyncRun, SyncRun, checked, failed, is_async


def answer_once(
    run: SyncRun | AsyncRun, *, stdin: TextIO | None = None, stdout: TextIO | None = None
) -> None:
    """Answer the one run that stands on stdin; for probes of kind `command`.

    Args:
        run: the agent on one request, as for `serve`.
        stdin: where the request comes from instead of the process's own stdin.
        stdout: where the answer goes instead of the process's own stdout.

    Raises:
        BadRequestError: there is no run on stdin.
    """
    with protocol_streams(stdin, stdout) as (source, sink):
        request = parse(source.read())
        if request is None:
            raise BadRequestError("not a run: op 'stop'")
        sink.write(answer_line(request.id, _answer(run, request)))
        sink.flush()


def _answer(run: SyncRun | AsyncRun, request: RunRequest) -> RunAnswer:
    try:
        with replaying(request.replay):
            if is_async(run):
                return asyncio.run(_within(cast("AsyncRun", run), request))
            return checked(cast("SyncRun", run)(request))
    except BaseException as error:  # noqa: BLE001  also `sys.exit()` in an agent is its failure
        return failed(error)


async def _within(run: AsyncRun, request: RunRequest) -> RunAnswer:
    deadline = asyncio.timeout(request.deadline_s)
    try:
        async with deadline:
            return checked(await run(request))
    except TimeoutError:
        if deadline.expired():
            return RunAnswer(error="timeout")
        raise
