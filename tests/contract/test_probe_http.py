"""What the probe of kind "http" promises, against real HTTP over loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connectors.probe.company import accompanied
from connectors.probe.hosts import HostSlots
from connectors.probe.http import HttpProbe, Service
from connectors.traces.files import read_spans
from connectors.traces.inline import trace_in
from connectors.traces.tree import is_own
from contracts.errors import ProbeError
from contracts.harness import HarnessFile, HarnessSnapshot, Observation
from contracts.json_types import Json
from tests.fakes.http_agent import Agent, Ask, Handler, serving

HARNESS = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data="Be brief. Ça va?\r\n".encode()),
        "skills/run/tool.sh": HarnessFile(data=b"#!/bin/sh\n", mode=0o755),
        "skills/run/logo.png": HarnessFile(data=b"\x89PNG\xff"),
        "skills/run/zeros.bin": HarnessFile(data=b"a\0b"),
    }
)
TOKEN = {"token": "t0ken", "token_env": "AGENT_TOKEN"}
OTHER = HarnessSnapshot(files={"instructions/main.md": HarnessFile(data=b"Be kind.\n")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A probe that talks to a service of the test."""

    probe: HttpProbe
    agent: Agent

    async def once(self, case_input: Json = "hi", deadline_s: float = 60) -> Observation:
        return await self.probe.run(case_input, HARNESS, seed=7, deadline_s=deadline_s)


@asynccontextmanager
async def opened(handler: Handler, **changed: Any) -> AsyncIterator[Opened]:
    async with serving(handler) as agent:
        settings: dict[str, Any] = {
            "url": agent.url + "/run?key=hidden", "token": None, "token_env": None,
            "concurrency": 4, "per_host": None, "timeout_s": 60.0, "output_cap_bytes": 131_072,
        }  # fmt: skip
        others: dict[str, Any] = {
            name: changed.pop(name) for name in ("grace_s", "hosts", "places") if name in changed
        }
        service = Service(**(settings | changed))
        probe = HttpProbe(
            service=service, read_spans=read_spans, read_inline=trace_in,
            **{"grace_s": 0.3, "hosts": HostSlots(), **others},
        )  # fmt: skip
        async with probe:
            yield Opened(probe=probe, agent=agent)


async def obedient(ask: Ask) -> None:
    run = ask.body
    await ask.say(
        {
            "id": run["id"], "error": None, "missing": None, "spans": None,
            "output": [run["input"], run["seed"], run["files"]["instructions/main.md"]],
            "usage": {"input_tokens": 9, "output_tokens": 3, "cost_usd": 0.5},
        }
    )  # fmt: skip


def saying(answer: Callable[[dict[str, Any]], object], **how: Any) -> Handler:
    """A service whose answer is made from the run that it is asked for."""

    async def handler(ask: Ask) -> None:
        await ask.say(answer(ask.body), **how)

    return handler


async def test_an_answer_is_observed_with_its_usage() -> None:
    async with opened(obedient) as it:
        seen = await it.once()
    assert (seen.output, seen.error, seen.missing) == (
        ["hi", 7, "Be brief. Ça va?\r\n"],
        None,
        None,
    )
    assert (seen.usage.input_tokens, seen.usage.output_tokens, seen.usage.cost_usd) == (9, 3, 0.5)
    assert 0 < seen.seconds < 60


async def test_each_run_reads_the_harness_it_was_given() -> None:
    async with opened(obedient) as it:
        other = await it.probe.run("hi", OTHER, seed=1, deadline_s=60)
        assert other.output == ["hi", 1, "Be kind.\n"]
        assert (await it.once()).output == ["hi", 7, "Be brief. Ça va?\r\n"]


async def test_the_body_is_the_run_object_with_the_texts_and_the_names_of_what_is_no_text() -> None:
    async with opened(obedient) as it:
        await it.once(deadline_s=30)
        await it.once()
    first, second = (ask.body for ask in it.agent.asks)
    assert set(first) == {
        "op", "id", "input", "harness", "seed", "deadline_s", "files", "left_out", "environment",
    }  # fmt: skip
    assert (first["op"], first["harness"], first["deadline_s"]) == ("run", None, 30)
    assert set(first["files"]) == {"instructions/main.md", "skills/run/tool.sh"}
    assert first["left_out"] == ["skills/run/logo.png", "skills/run/zeros.bin"]
    assert first["id"] != second["id"]
    assert len(first["id"]) == 32


async def test_body_and_headers_say_whose_run_it_is() -> None:
    async with opened(obedient, **TOKEN) as it:
        await it.once()
    (ask,) = it.agent.asks
    run_id = ask.body["id"]
    assert (ask.method, ask.path) == ("POST", "/run?key=hidden")
    assert ask.headers["authorization"] == "Bearer t0ken"
    assert ask.headers["x-tracemend-run"] == run_id
    assert ask.body["environment"] == "tracemend-gate"
    baggage = dict(part.split("=") for part in ask.headers["baggage"].split(","))
    assert baggage["tracemend.run_id"] == run_id
    assert is_own([], baggage)


async def test_a_run_is_told_the_address_of_what_accompanies_it() -> None:
    async with opened(obedient) as it:
        with accompanied("replay", "http://127.0.0.1:1/x"):
            await it.once()
        await it.once()
    beside, alone = (ask.body for ask in it.agent.asks)
    assert beside["replay"] == "http://127.0.0.1:1/x"
    assert "replay" not in alone


async def test_what_the_agent_calls_an_error_or_missing_is_passed_on() -> None:
    say = saying(lambda run: {"id": run["id"], "output": "half", **run["input"]})
    async with opened(say) as it:
        failed = await it.once({"error": "ValueError: no order"})
        gone = await it.once({"missing": "no model", "error": "x"})
    assert (failed.output, failed.error, failed.missing) == (None, "ValueError: no order", None)
    assert (gone.output, gone.error, gone.missing) == (None, None, "no model")


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 502, 503])
async def test_a_failing_service_is_missing_and_never_the_agents_failure(status: int) -> None:
    async with opened(saying(lambda _: {"error": "secret text"}, status=status)) as it:
        seen = await it.once()
    assert (seen.output, seen.error, seen.missing) == (None, None, f"http_{status}")


async def test_a_redirect_is_not_followed() -> None:
    async with opened(obedient) as other:

        async def away(ask: Ask) -> None:
            await ask.say({}, status=307, Location=other.agent.url)

        async with opened(away, **TOKEN) as it:
            seen = await it.once()
        assert (seen.error, seen.missing) == (None, "http_307")
        assert other.agent.asks == []


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_token_is_one_line_that_names_the_variable_and_not_the_token(
    status: int,
) -> None:
    async with opened(saying(lambda _: {"t": "text"}, status=status), **TOKEN) as it:
        with pytest.raises(
            ProbeError, match=rf"answered {status}: the variable AGENT_TOKEN"
        ) as told:
            await it.once()
    assert "t0ken" not in str(told.value)
    assert "hidden" not in str(told.value)
    assert str(told.value).isprintable()


async def test_without_a_token_the_line_says_where_to_name_one() -> None:
    async with opened(saying(lambda _: {}, status=401)) as it:
        with pytest.raises(ProbeError, match=r"`probe\.token_env`"):
            await it.once()


async def test_a_service_that_is_not_there_is_missing() -> None:
    async with serving(obedient) as agent:
        pass
    async with opened(obedient, url=agent.url) as it:
        seen = await it.once()
    assert (seen.error, seen.missing) == (None, "unreachable: the service takes no connection")


async def test_a_connection_that_breaks_is_missing() -> None:
    async def broken(ask: Ask) -> None:
        ask.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
        await ask.writer.drain()

    async with opened(broken) as it:
        seen = await it.once()
    assert seen.error is None
    assert str(seen.missing).startswith("disconnected: ")


BREACHES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no json": lambda _: b"<html>busy</html>",
    "nothing": lambda _: b"",
    "a list": lambda _: [],
    "no id": lambda _: {"output": 1},
    "another id": lambda run: {"id": run["id"][::-1] + "0", "output": 1},
    "not utf-8": lambda _: b'{"id": "\xff"}',
    "deep nesting": lambda run: b'{"id": "%s", "output": ' % run["id"].encode() + b"[" * 9000,
    "deep nesting in order": lambda run: (
        b'{"id": "%s", "output": %s%s}' % (run["id"].encode(), b"[" * 300, b"]" * 300)
    ),
    "compressed": lambda _: b"\x1f\x8b\x08\x00\x00",
}


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES)
async def test_what_is_no_answer_to_the_run_is_missing(
    breach: Callable[[dict[str, Any]], object],
) -> None:
    async with opened(saying(breach)) as it:
        seen = await it.once()
    assert (seen.output, seen.error) == (None, None)
    assert str(seen.missing).startswith("protocol: an answer ")


async def hanging(ask: Ask) -> None:
    await asyncio.sleep(600)


async def test_a_run_over_its_deadline_is_the_agents_timeout_and_is_cancelled() -> None:
    async with opened(hanging) as it:
        seen = await it.once(deadline_s=0.2)
        assert (seen.output, seen.error, seen.missing) == (None, "timeout", None)
        assert 0.2 <= seen.seconds < 50
        async with asyncio.timeout(60):
            while not it.agent.closed:  # noqa: ASYNC110  the other side is no task of ours
                await asyncio.sleep(0.01)


async def test_the_deadline_is_never_longer_than_the_configured_one() -> None:
    async with opened(hanging, timeout_s=0.2) as it:
        assert (await it.once(deadline_s=3600)).error == "timeout"
    assert it.agent.asks[0].body["deadline_s"] == 0.2


async def test_a_late_answer_is_a_timeout_that_keeps_its_usage() -> None:
    async def late(ask: Ask) -> None:
        await asyncio.sleep(0.4)
        await ask.say({"id": ask.body["id"], "output": "late", "usage": {"input_tokens": 5}})

    async with opened(late, grace_s=60.0) as it:
        seen = await it.once(deadline_s=0.1)
    assert (seen.output, seen.error, seen.usage.input_tokens) == (None, "timeout", 5)


async def test_an_answer_over_its_limit_is_the_agents_failure_and_is_not_read_on() -> None:
    async def endless(ask: Ask) -> None:
        ask.writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            ask.writer.write(b"x" * 65_536)
            await ask.writer.drain()

    async with opened(endless) as it:
        seen = await it.once()
    assert (seen.output, seen.missing) == (None, None)
    assert seen.error == "output limit 0.125 MB"


async def test_numbers_of_a_wrong_kind_are_unknown() -> None:
    say = saying(
        lambda run: (
            b'{"id": "%s", "output": {"x": Infinity, "y": "\\ud800"}, "usage": {"cost_usd": NaN}}'
            % run["id"].encode()
        )
    )
    async with opened(say) as it:
        seen = await it.once()
    assert seen.output == {"x": None, "y": "�"}
    assert seen.usage.cost_usd is None


def otlp(**attributes: str) -> dict[str, Any]:
    """One tool call as an export request."""
    known = {"openinference.span.kind": "TOOL", "tool.name": "queue_refund", **attributes}
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in known.items()]
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
        "name": "queue_refund", "startTimeUnixNano": "1544712660000000000",
        "endTimeUnixNano": "1544712661000000000", "attributes": pairs,
    }  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


async def test_spans_in_the_answer_become_the_runs_trace() -> None:
    async with opened(saying(lambda run: {"id": run["id"], "output": 1, "spans": otlp()})) as it:
        seen = await it.once()
    assert seen.trace is not None
    assert [span.tool_name for span in seen.trace.spans] == ["queue_refund"]


@pytest.mark.parametrize(
    "spans", [[], {}, {"resourceSpans": 7}, {"resourceSpans": [{"scopeSpans": None}]}, 7, True]
)
async def test_spans_that_are_none_leave_the_answer_as_it_is(spans: Json) -> None:
    async with opened(saying(lambda run: {"id": run["id"], "output": 1, "spans": spans})) as it:
        seen = await it.once()
    assert (seen.output, seen.trace) == (1, None)


async def test_a_file_of_spans_is_read_only_where_such_files_may_lie(tmp_path: Path) -> None:
    allowed, elsewhere = tmp_path / "allowed", Path(__file__).parent / "spans.jsonl"
    allowed.mkdir()
    file = allowed / "spans.jsonl"
    file.write_text(json.dumps(otlp()))
    say = saying(lambda run: {"id": run["id"], "output": 1, "spans": run["input"]})
    async with opened(say, places=[allowed]) as it:
        seen = await it.once(str(file))
        assert seen.trace is not None
        for place in ("/etc/hostname", "spans.jsonl", str(elsewhere), str(allowed)):
            assert (await it.once(place)).trace is None, place


class Meeting:
    """A service whose answers wait until as many runs as it expects are under way together."""

    def __init__(self, expected: int) -> None:
        self.now = self.most = 0
        self._together = asyncio.Barrier(expected)

    async def __call__(self, ask: Ask) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.wait_for(self._together.wait(), 60)
        self.now -= 1
        await ask.say({"id": ask.body["id"], "output": 1})


async def test_as_many_runs_are_under_way_as_configured_and_no_more() -> None:
    meeting = Meeting(3)
    async with opened(meeting, concurrency=3) as it:
        await asyncio.gather(*(it.once() for _ in range(9)))
    assert meeting.most == 3


async def test_a_host_is_shared_by_all_probes_of_the_process() -> None:
    hosts, meeting = HostSlots(), Meeting(2)
    async with (
        opened(meeting, per_host=2, hosts=hosts) as one,
        opened(meeting, per_host=2, hosts=hosts) as other,
    ):
        await asyncio.gather(*(it.once() for it in (one, other) for _ in range(6)))
    assert meeting.most == 2
    assert hosts.busy("127.0.0.1") == 0


async def test_a_cancelled_run_closes_its_connection_and_leaves_its_slots() -> None:
    hosts = HostSlots()
    async with opened(hanging, per_host=1, hosts=hosts, concurrency=1) as it:
        run = asyncio.create_task(it.once())
        async with asyncio.timeout(60):
            while not it.agent.asks:  # noqa: ASYNC110  the other side is no task of ours
                await asyncio.sleep(0.01)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            while not it.agent.closed:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert hosts.busy("127.0.0.1") == 0
