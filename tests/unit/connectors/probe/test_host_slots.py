"""Runs on one host are counted over all probes of a process, whatever loop they run in."""

import asyncio
import random
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.probe.hosts import HostSlots, host_of


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Agents.Example:8000/run", "agents.example"),
        ("https://agents.example/other", "agents.example"),
        ("http://user:secret@agents.example", "agents.example"),
        ("http://[::1]:80/", "::1"),
    ],
)
def test_ports_and_spelling_do_not_make_another_host(url: str, host: str) -> None:
    assert host_of(url) == host


async def _hold(slots: HostSlots, most: int | None, seen: list[int], turns: int = 1) -> None:
    async with slots.slot("a", most):
        seen.append(slots.busy("a"))
        for _ in range(turns):
            await asyncio.sleep(0)


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12))
def test_no_more_are_under_way_than_the_highest_limit_and_all_get_their_turn(
    limits: Sequence[int],
) -> None:
    slots, seen = HostSlots(), list[int]()

    async def work() -> None:
        await asyncio.gather(*(_hold(slots, most, seen, turns=3) for most in limits))

    asyncio.run(asyncio.wait_for(work(), 60))
    assert len(seen) == len(limits)
    assert max(seen) <= max(limits)
    assert slots.busy("a") == 0


async def test_a_run_without_a_limit_counts_and_does_not_wait() -> None:
    slots = HostSlots()
    async with slots.slot("a", None), slots.slot("a", None):
        waits = asyncio.create_task(_hold(slots, 2, []))
        await asyncio.sleep(0)
        assert not waits.done()
        assert slots.busy("a") == 2
    await waits


async def test_hosts_do_not_wait_for_each_other() -> None:
    slots = HostSlots()
    async with slots.slot("a", 1), slots.slot("b", 1):
        assert (slots.busy("a"), slots.busy("b")) == (1, 1)


async def test_one_that_came_first_with_the_same_limit_goes_first() -> None:
    slots, order = HostSlots(), list[int]()

    async def one(number: int) -> None:
        async with slots.slot("a", 1):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(one(number) for number in range(6)))
    assert order == list(range(6))


async def test_a_waiter_that_is_cancelled_takes_nothing_along() -> None:
    slots = HostSlots()
    for cancel_after_grant in (False, True):
        held = slots.slot("a", 1)
        await held.__aenter__()
        waiting = asyncio.create_task(_hold(slots, 1, []))
        await asyncio.sleep(0)
        if cancel_after_grant:
            await held.__aexit__(None, None, None)  # granted now, and not yet woken
            waiting.cancel()
        else:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await held.__aexit__(None, None, None)
        await asyncio.gather(waiting, return_exceptions=True)
        assert slots.busy("a") == 0
        await asyncio.wait_for(_hold(slots, 1, []), 60)


def test_loops_in_several_threads_share_a_host() -> None:
    slots, most, lock = HostSlots(), 2, threading.Lock()
    now = peak = 0

    async def one(pause: float) -> None:
        nonlocal now, peak
        async with slots.slot("a", most):
            with lock:
                now += 1
                peak = max(peak, now)
            await asyncio.sleep(pause)
            with lock:
                now -= 1

    async def many(seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311  pauses of a test
        await asyncio.gather(*(one(rng.random() / 500) for _ in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(many(seed),)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert peak <= most
    assert slots.busy("a") == 0
