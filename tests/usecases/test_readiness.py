"""What /readyz tells: looked up beforehand, true within two seconds, never held up by what it tells about."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bots_service import readiness as module
from bots_service.background import ended
from bots_service.errors import OutdatedTablesError, StorageUnavailableError
from bots_service.readiness import Readiness, Ready

SOON_S = 30.0
HANGS = "hangs"


class Part:
    """A dependency that is as it is told to be: "ok", an error, or "hangs". No real one does that on demand."""

    def __init__(self) -> None:
        self.state: str | Exception = "ok"
        self.looks = 0

    async def check(self) -> None:
        self.looks += 1
        if self.state == HANGS:
            await asyncio.Event().wait()
        if isinstance(self.state, Exception):
            raise self.state


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    monkeypatch.setattr(module, "GIVE_UP_S", 0.05)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - a probe looks again and again, too
            await asyncio.sleep(0.005)


def both() -> tuple[Part, Part, Readiness]:
    sql, redis = Part(), Part()
    return sql, redis, Readiness({"sql": sql.check, "redis": redis.check})


AWAY = StorageUnavailableError("the database did not answer")
OLD = OutdatedTablesError("the tables are at revision 0001, not 0002")


@pytest.mark.parametrize(
    ("sql_is", "redis_is", "expected"),
    [
        ("ok", "ok", Ready("ready", {"sql": "ok", "redis": "ok"})),
        (AWAY, "ok", Ready("degraded", {"sql": "down: the database did not answer", "redis": "ok"})),
        ("ok", AWAY, Ready("degraded", {"sql": "ok", "redis": "down: the database did not answer"})),
        (HANGS, "ok", Ready("degraded", {"sql": "down: no answer in 0.05 s", "redis": "ok"})),
        (AWAY, HANGS, Ready("unavailable", {"sql": f"down: {AWAY}", "redis": "down: no answer in 0.05 s"})),
        (OLD, "ok", Ready("outdated", {"sql": f"outdated: {OLD}", "redis": "ok"})),
        (KeyError("x"), "ok", Ready("degraded", {"sql": "down: KeyError('x')", "redis": "ok"})),
    ],
)
async def test_it_tells_what_each_part_says_and_comes_back_with_it(sql_is: Any, redis_is: Any, expected: Ready):
    sql, redis, readiness = both()
    async with readiness.in_background():
        assert readiness() == Ready("ready", {"sql": "ok", "redis": "ok"})
        sql.state, redis.state = sql_is, redis_is
        await until(lambda: readiness() == expected)
        assert readiness().is_ready == (expected.status in {"ready", "degraded"})
        sql.state = redis.state = "ok"
        await until(lambda: readiness().status == "ready")


async def test_it_is_not_ready_before_it_looked_nor_once_it_drains():
    sql, _, readiness = both()
    sql.state = AWAY
    assert readiness() == Ready("starting", {})
    async with readiness.in_background():
        assert readiness().status == "degraded"  # at once
        readiness.drain()
        assert readiness().status == "draining"
        assert not readiness().is_ready


async def test_work_that_misses_its_cancellation_is_told_again():
    missed = asyncio.Event()

    async def hard_of_hearing() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            missed.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(hard_of_hearing())
    await asyncio.sleep(0)
    await ended([task])
    assert missed.is_set()
    assert task.cancelled()
