"""One policy for every backend, against a server that has mishaps."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from connectors.traces.buckets import Buckets
from connectors.traces.calls import (
    BadRequest,
    Broken,
    Budget,
    BudgetSpent,
    CallError,
    Calls,
    Limit,
    NotThere,
    Refused,
    Reply,
    TooMuch,
    Unreachable,
)
from contracts.errors import ConfigError
from tests.fakes.serving import Mishaps, serve

SECRET = "sk-very-secret"  # noqa: S105


@dataclass
class Time:
    """A clock that only moves when somebody sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def echo(request: Request) -> Response:
    body = (await request.body()).decode()
    return JSONResponse({
        "query": request.query_params.multi_items(), "body": body,
        "auth": request.headers.get("authorization"), "pad": "x" * 5000,
    })  # fmt: skip


async def moved(request: Request) -> Response:
    return RedirectResponse(request.query_params["to"])


async def raw(request: Request) -> Response:
    return Response(b"\x00" * 1000, headers={"x-auth": request.headers.get("authorization", "no")})


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Mishaps, str]]:
    routes = [
        Route("/echo", echo, methods=["GET", "POST"]), Route("/moved", moved), Route("/raw", raw)
    ]  # fmt: skip
    mishaps = Mishaps(Starlette(routes=routes))
    with serve(mishaps) as url:
        yield mishaps, url


@dataclass
class Door:
    mishaps: Mishaps
    url: str
    time: Time
    calls: Calls


@pytest.fixture
async def door(world: tuple[Mishaps, str]) -> AsyncIterator[Door]:
    mishaps, url = world
    mishaps.forget()
    time = Time()
    calls = a_door(url, time)
    yield Door(mishaps, url, time, calls)
    await calls.aclose()


def a_door(
    url: str, time: Time, *, seconds: float = 600, timeout_s: float = 60,
    max_body_bytes: int = 1 << 20, buckets: Buckets | None = None,
    limits: dict[str, Limit] | None = None,
) -> Calls:  # fmt: skip
    return Calls(
        backend="fake", base_url=url, headers={"authorization": f"Bearer {SECRET}"}, key=SECRET,
        budget=Budget(seconds, clock=time.clock), limits=limits or {}, timeout_s=timeout_s,
        max_body_bytes=max_body_bytes, hint="set FAKE_KEY", sleep=time.sleep,
        buckets=buckets or Buckets(clock=time.clock),
    )  # fmt: skip


async def test_a_question_comes_back_parsed_with_lists_and_our_key(door: Door) -> None:
    answer = await door.calls.get("/echo", {"a": "x y&z", "ids": ["1", "2"], "n": 3})
    assert isinstance(answer, dict)
    assert answer["query"] == [["a", "x y&z"], ["ids", "1"], ["ids", "2"], ["n", "3"]]
    assert answer["auth"] == f"Bearer {SECRET}"
    posted = await door.calls.post("/echo", {"q": [1]})
    assert isinstance(posted, dict)
    assert json.loads(str(posted["body"])) == {"q": [1]}
    assert door.calls.requests == 2
    assert door.calls.clock_offset_s is not None
    assert abs(door.calls.clock_offset_s) < 5


async def test_a_base_url_may_have_a_prefix(door: Door) -> None:
    calls = a_door(door.url + "/echo/", door.time)
    answer = await calls.get("")
    await calls.aclose()
    assert isinstance(answer, dict)


async def test_429_waits_as_long_as_it_is_told_and_keeps_all_other_jobs_out(door: Door) -> None:
    buckets = Buckets(clock=door.time.clock)
    limits = {"general": Limit(requests=1000, seconds=60)}
    one, other = (a_door(door.url, door.time, buckets=buckets, limits=limits) for _ in range(2))
    door.mishaps.limited("7")
    await one.get("/echo")
    assert door.time.slept[0] == 7
    assert one.requests == 2
    door.mishaps.limited("20")

    short = a_door(door.url, door.time, buckets=buckets, limits=limits, seconds=10)
    with pytest.raises(BudgetSpent):
        await short.get("/echo")
    before = len(door.mishaps.asked())
    await other.get("/echo")
    assert door.time.slept[-1] == pytest.approx(20)
    assert len(door.mishaps.asked()) == before + 1
    for calls in (one, other, short):
        await calls.aclose()


async def test_429_without_a_wait_backs_off_longer_each_time(door: Door) -> None:
    door.mishaps.limited(None, times=3)
    await door.calls.get("/echo")
    first, second, third = door.time.slept
    assert 0.75 <= first <= 1 < second <= 2 < third <= 4


async def test_a_wait_longer_than_the_job_ends_it_and_names_the_wait(door: Door) -> None:
    door.mishaps.limited("86400")
    with pytest.raises(BudgetSpent, match="a wait of 86400 s and this job has 600 s left"):
        await door.calls.get("/echo")
    assert door.time.slept == []


async def test_a_spent_budget_makes_no_call(door: Door) -> None:
    calls = a_door(door.url, door.time, seconds=5)
    door.time.now = 6
    with pytest.raises(BudgetSpent, match="GET /echo: the 5 s of this job are over"):
        await calls.get("/echo")
    assert (door.mishaps.asked(), calls.requests) == ([], 0)


async def test_a_rate_limit_of_ours_is_waited_for(door: Door) -> None:
    calls = a_door(door.url, door.time, limits={"general": Limit(requests=1, seconds=30)})
    await calls.get("/echo")
    await calls.get("/echo")
    await calls.get("/echo", klass="unlimited")
    await calls.aclose()
    assert sum(door.time.slept) == pytest.approx(30, rel=1e-3)


@pytest.mark.parametrize(
    ("status", "kind", "requests"),
    [
        (400, BadRequest, 1), (401, Refused, 1), (403, Refused, 1), (404, NotThere, 1),
        (408, TooMuch, 1), (422, TooMuch, 1), (500, TooMuch, 2), (502, TooMuch, 3),
        (503, TooMuch, 3), (504, TooMuch, 3), (524, TooMuch, 1),
    ],
)  # fmt: skip
async def test_every_failure_is_one_kind_of_error_after_the_retries_it_deserves(
    door: Door, status: int, kind: type[CallError], requests: int
) -> None:
    door.mishaps.status(status, times=9)
    with pytest.raises(kind) as caught:
        await door.calls.get("/echo", {"q": "private words"})
    assert type(caught.value) is kind
    assert (caught.value.status, door.calls.requests) == (status, requests)
    message = str(caught.value)
    assert message.startswith(f"fake: GET /echo ({status}): ")
    assert "private" not in message
    assert SECRET not in message
    assert "\n" not in message


async def test_a_passing_failure_is_retried_to_an_answer(door: Door) -> None:
    door.mishaps.status(503, times=2)
    assert await door.calls.get("/echo")
    door.mishaps.status(500)
    assert await door.calls.get("/echo")
    assert door.calls.requests == 5


async def test_a_refusal_says_where_to_look_and_a_bad_request_keeps_its_answer(door: Door) -> None:
    door.mishaps.status(401)
    with pytest.raises(Refused, match="refuses the key; set FAKE_KEY"):
        await door.calls.get("/echo")
    door.mishaps.status(400, body=b'{"message":"limit"}')
    with pytest.raises(BadRequest) as caught:
        await door.calls.get("/echo")
    assert caught.value.body == '{"message":"limit"}'


async def test_a_missing_thing_and_a_missing_endpoint_are_told_apart(door: Door) -> None:
    door.mishaps.status(404, body=b'{"error":"no trace"}')
    door.mishaps.status(404, body=b"<html>")
    for html in (False, True):
        with pytest.raises(NotThere) as caught:
            await door.calls.get("/echo")
        assert caught.value.html is html


async def test_a_torn_answer_is_asked_for_again_and_never_shortened(door: Door) -> None:
    door.mishaps.torn()
    assert await door.calls.get("/echo")
    door.mishaps.torn(times=2)
    with pytest.raises(Broken, match="breaks its answer off"):
        await door.calls.get("/echo")
    door.mishaps.page(b'{"data": [{"spanId": "1"}, {"spanId"', times=2)
    with pytest.raises(Broken, match="answers with torn JSON"):
        await door.calls.get("/echo")
    door.mishaps.page(b"<html>", times=2)
    with pytest.raises(Broken, match="answers with a page; is the base URL right"):
        await door.calls.get("/echo")


async def test_bad_utf8_lone_surrogates_and_nan_parse(door: Door) -> None:
    door.mishaps.page(b'{"a": "\\ud800", "b": "\xff", "c": NaN}')
    assert await door.calls.get("/echo") == {"a": "?", "b": "\ufffd", "c": None}


async def test_a_slow_answer_is_too_much_or_the_end_of_the_job(door: Door) -> None:
    door.mishaps.slow(5)
    calls = a_door(door.url, door.time, timeout_s=0.05)
    with pytest.raises(TooMuch, match=r"did not answer within 0\.05 s; ask for less"):
        await calls.get("/echo")
    assert calls.requests == 1
    await calls.aclose()
    door.mishaps.slow(5)
    calls = a_door(door.url, door.time, seconds=0.05)
    with pytest.raises(BudgetSpent, match="are over"):
        await calls.get("/echo")
    await calls.aclose()


async def test_a_body_over_the_cap_is_too_much(door: Door) -> None:
    calls = a_door(door.url, door.time, max_body_bytes=1000)
    with pytest.raises(TooMuch, match="answers with more than 1000 bytes"):
        await calls.get("/echo")
    await calls.aclose()


async def test_nobody_there_is_said_with_the_address_after_two_retries() -> None:
    time = Time()
    calls = a_door("http://127.0.0.1:9", time)
    with pytest.raises(Unreachable, match=r"cannot be reached at http://127\.0\.0\.1:9 \("):
        await calls.get("/echo")
    assert (calls.requests, len(time.slept)) == (3, 2)
    await calls.aclose()


async def test_a_redirect_is_not_followed_with_our_key(door: Door) -> None:
    with pytest.raises(Broken, match=r"\(307\): redirects to another address"):
        await door.calls.get("/moved", {"to": "/echo"})
    assert len(door.mishaps.asked()) == 1


async def test_a_presigned_address_gets_no_key_and_no_other_host(door: Door) -> None:
    body = await door.calls.raw(f"{door.url}/raw?signature=s3cret", klass="x", max_bytes=1000)
    assert body == b"\x00" * 1000
    there = await door.calls.raw(f"{door.url}/moved?to=/raw", klass="x", max_bytes=1000)
    assert len(there) == 1000
    assert all("authorization" not in seen.headers for seen in door.mishaps.asked())
    elsewhere = door.url.replace("127.0.0.1", "localhost")
    with pytest.raises(Broken, match="redirects elsewhere; nothing was read"):
        await door.calls.raw(f"{door.url}/moved?to={elsewhere}/raw", klass="x", max_bytes=1000)
    with pytest.raises(Broken, match=r"is not an http\(s\) address"):
        await door.calls.raw("file:///etc/passwd", klass="x", max_bytes=1000)
    with pytest.raises(TooMuch):
        await door.calls.raw(f"{door.url}/raw?signature=s3cret", klass="x", max_bytes=999)


async def test_no_secret_and_no_query_reaches_a_log(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="httpx"):
        await door.calls.get("/echo", {"q": "private"})
        await door.calls.raw(f"{door.url}/raw?signature=s3cret", klass="x", max_bytes=1000)
    assert "HTTP Request: GET" in caplog.text
    assert not any(word in caplog.text for word in ("private", "s3cret", SECRET))


async def test_a_vendors_sdk_goes_through_the_same_door(door: Door) -> None:
    replies = [
        Reply(status=429, headers={"retry-after": "3"}, body=b""),
        Reply(status=200, headers={}, body=b'{"ok": true}'),
    ]
    given: list[float] = []

    async def send(seconds: float) -> Reply:
        given.append(seconds)
        await asyncio.sleep(0)
        return replies.pop(0)

    assert await door.calls.through(send, klass="general", what="runs.query") == {"ok": True}
    assert (door.time.slept, given, door.calls.requests) == ([3], [60, 60], 2)

    async def refuse(seconds: float) -> Reply:
        raise httpx.ConnectError("nobody at home")

    with pytest.raises(Unreachable, match=r"fake: runs\.query: cannot be reached"):
        await door.calls.through(refuse, klass="general", what="runs.query")


@pytest.mark.parametrize("url", ["", "phoenix.example", "ftp://x", "http://", "http://a:b:c"])
def test_an_address_that_is_none_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError, match="fake: the base URL is not an http"):
        a_door(url, Time())
