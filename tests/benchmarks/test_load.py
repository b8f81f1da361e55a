"""The callers of the benchmarks, against services that only count."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from benchmarks.load import Ask, RefusedError, Tally, calling, send_paced, send_wave
from tests.ports import free_port

ASK = Ask("/select", b"{}", "key", "run")


class CountingService:
    """Answers every request alike, and counts them."""

    def __init__(self, *, status: int = 200, body: bytes = b"{}", seconds: float = 0.0) -> None:
        self.port = free_port()
        self.count = 0
        self.answer = b"HTTP/1.1 %d Fine\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
        self.seconds = seconds


class Answering(asyncio.Protocol):
    """One connection to a counting service; a request ends with its body, which is ASK's."""

    def __init__(self, service: CountingService) -> None:
        self._service = service

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._service.count += data.count(b"\r\n\r\n{}")
        asyncio.get_running_loop().call_later(self._service.seconds, self._transport.write, self._service.answer)


@asynccontextmanager
async def listening(*services: CountingService) -> AsyncIterator[list[int]]:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as servers:
        for service in services:
            server = await loop.create_server(partial(Answering, service), "127.0.0.1", service.port)
            servers.callback(server.close)
        yield [service.port for service in services]


async def test_a_caller_goes_from_one_service_to_the_next():
    one, other = CountingService(), CountingService()
    async with listening(one, other) as ports, calling(ports, 1) as callers:
        await send_wave(callers, iter([ASK] * 5), Tally(), until=lambda: False)
    assert (one.count, other.count) == (3, 2)


async def test_callers_begin_at_different_services():
    one, other = CountingService(), CountingService()
    async with listening(one, other) as ports, calling(ports, 4) as callers:
        await asyncio.gather(*(caller.post(ASK) for caller in callers))
    assert (one.count, other.count) == (2, 2)


async def test_a_run_that_stays_asks_one_service_and_runs_are_spread():
    one, other = CountingService(), CountingService()
    async with listening(one, other) as ports, calling(ports, 4, runs_stay=True) as callers:
        await send_wave(callers, iter([ASK] * 6), Tally(), until=lambda: False)
        assert {one.count, other.count} == {0, 6}
        await send_wave(
            callers, iter([replace(ASK, run=f"run-{number}") for number in range(50)]), Tally(), until=lambda: False
        )
    assert min(one.count, other.count) > 15


async def test_waiting_for_a_free_caller_counts():
    service, tally = CountingService(seconds=0.05), Tally()
    async with listening(service) as ports, calling(ports, 1) as callers:
        await send_paced(callers, [ASK] * 3, tally, per_second=math.inf)
    assert len(tally.times_ms) == service.count == 3
    assert tally.times_ms[2] > 2 * 50  # all were due at once, so it waited for two answers before its own


async def test_paced_requests_are_not_sent_early():
    service, tally = CountingService(), Tally()
    async with listening(service) as ports, calling(ports, 2) as callers:
        await send_paced(callers, [ASK] * 5, tally, per_second=100)
    assert tally.wall_s > 4 / 100


async def test_degraded_answers_are_counted():
    service, tally = CountingService(body=b'{"degraded":true}'), Tally()
    async with listening(service) as ports, calling(ports, 1) as callers:
        await send_wave(callers, iter([ASK] * 2), tally, until=lambda: False)
    assert tally.degraded == 2


async def test_a_refusal_ends_the_load():
    async with listening(CountingService(status=503)) as ports, calling(ports, 1) as callers:
        with pytest.raises(RefusedError, match="answered 503"):
            await send_wave(callers, iter([ASK]), Tally(), until=lambda: False)


async def test_a_service_that_hangs_up_is_noticed():
    class HangingUp(Answering):
        def data_received(self, data: bytes) -> None:
            self._transport.close()

    service = CountingService()
    server = await asyncio.get_running_loop().create_server(partial(HangingUp, service), "127.0.0.1", service.port)
    async with calling([service.port], 1) as (caller,):
        for _ in range(2):  # while it waits for the answer, and afterwards
            with pytest.raises(ConnectionError):
                await caller.post(ASK)
    server.close()
