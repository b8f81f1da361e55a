"""The tables of transitions in the docstring of ports/hot.py, each row played on the store that it is about.

Each column of a row is observed in a play of its own, right after the event: what one observation changes in the store
must not decide the next.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bots_service.ports import hot as port
from bots_service.ports.hot import KnownState, LeaseTicket
from bots_service.storage.memory import MemoryLeases, MemoryStates
from tests.servers import RedisServer, running, wait_until
from tests.storage.contracts.hot import Clock, Hot, found, run_row, selection_of, state_at
from tests.storage.redis_stores import PATIENT_S, RedisClock, Replica, replica
from tests.system.lossy_proxy import LossyProxy

SHORT_S = 0.3
Observe = Callable[["Play"], Awaitable[str]]


@dataclass
class Play:
    """Process P after it has published state 4 and leased task 1, with the token and the ticket that it holds then.

    in_sql: the seq of the run's head.
    """

    hot: Hot
    token: str = ""
    ticket: LeaseTicket = field(default_factory=lambda: LeaseTicket(0, state_at(0).open_step.evidence.tasks))
    in_sql: int = 4
    server: RedisServer | None = None
    other: Replica | None = None

    async def begin(self) -> None:
        await self.hot.states.register(run_row())
        await self.hot.publish(state_at(4))
        if self.other is not None:
            await self.other.follow()
        await self.hot.select(1, seconds=1000)
        self.token, self.ticket = self.hot.known.token, await self.hot.prepare()


async def after_newest(play: Play) -> str:
    state = (await play.hot.states.newest(run_row())).state
    return "none" if state is None else f"state {state.seq}"


async def after_publish(play: Play) -> str:
    return (await play.hot.states.publish(run_row(), state_at(4), play.token)).name


async def after_acquire(play: Play) -> str:
    result = await play.hot.leases.acquire(
        run_row(),
        selection_of(state_at(4), 2),
        play.ticket,
        seconds=1000,
        key=None,
        fingerprint="",
        reuse=False,
    )
    if result.selection is not None:
        return "leased"
    return "stale" if result.stale else "conflict"


async def after_next_ticket(play: Play) -> str:
    newest = await play.hot.states.newest(run_row())
    if newest.state is None:
        await play.hot.publish(state_at(play.in_sql))
    else:
        play.hot.known = KnownState(newest.state, newest.token)
    ticket = await play.hot.prepare()
    if ticket.local:
        return "local"
    return "degraded" if ticket.degraded else "shared"


COLUMNS: dict[str, Observe] = {
    "newest": after_newest,
    "publish": after_publish,
    "acquire": after_acquire,
    "next ticket": after_next_ticket,
}


async def nothing(play: Play) -> None: ...


async def p_publishes_state_5(play: Play) -> None:
    play.in_sql = 5
    await play.hot.publish(state_at(5))


async def q_publishes_state_5(play: Play) -> None:
    assert play.other is not None
    play.in_sql = 5
    await play.other.publish(state_at(5))


async def q_leases_tasks(play: Play) -> None:
    assert play.other is not None
    assert (await play.other.select(3)).selection is not None


async def q_releases_tasks(play: Play) -> None:
    assert play.other is not None
    await play.other.release(1)


async def a_lease_ends(play: Play) -> None:
    play.hot.clock.advance(1001)


async def clear(play: Play) -> None:
    await play.hot.leases.clear(run_row())


async def invalidate(play: Play) -> None:
    await play.hot.states.invalidate(run_row())


async def delete(play: Play) -> None:
    await play.hot.states.delete(run_row())


async def redis_is_wiped(play: Play) -> None:
    assert play.server is not None
    with play.server.client() as client:
        client.flushall()


async def redis_restarts_from_its_file(play: Play) -> None:
    assert play.server is not None
    play.server.kill()
    play.server.start()
    await found(play.hot.states, run_row())
    await back(play.hot)


async def q_finds_the_states_bytes_damaged(play: Play) -> None:
    assert play.server is not None
    with play.server.client() as client:
        client.hset("bots:{uid-1}:header", "state", b"BOTS no state")
    async with replica(play.server.url) as reader:
        assert await found(reader.states, run_row()) is None


async def redis_is_away(play: Play) -> None:
    assert play.server is not None
    play.server.hang()


async def redis_was_away(play: Play) -> None:
    assert play.server is not None
    play.server.hang()
    await found(play.hot.states, run_row())
    play.server.resume()
    await back(play.hot)


async def q_published_while_cut_off(play: Play) -> None:
    assert play.server is not None
    cut = False
    with LossyProxy(play.server.port, loses=lambda: cut) as proxy:
        async with replica(f"redis://127.0.0.1:{proxy.port}/0", timeout_s=SHORT_S) as cut_off:
            await cut_off.follow()
            cut, play.in_sql = True, 5
            assert await cut_off.publish(state_at(5)) is port.PublishResult.LOCAL
            cut = False
            await back(cut_off)


async def back(hot: Hot) -> None:
    """Return once a replica works with Redis again."""
    assert isinstance(hot, Replica)
    connection = hot.connection
    assert connection is not None
    await asyncio.to_thread(wait_until, lambda: not connection.is_away)


EVENTS = {
    "nothing": nothing,
    "P publishes state 5": p_publishes_state_5,
    "Q publishes state 5": q_publishes_state_5,
    "Q leases tasks": q_leases_tasks,
    "Q releases tasks": q_releases_tasks,
    "a lease ends": a_lease_ends,
    "clear": clear,
    "invalidate": invalidate,
    "delete": delete,
    "Redis is wiped": redis_is_wiped,
    "Redis restarts from its file": redis_restarts_from_its_file,
    "Q finds the state's bytes damaged": q_finds_the_states_bytes_damaged,
    "Redis is away": redis_is_away,
    "Redis was away": redis_was_away,
    "Q published while cut off": q_published_while_cut_off,
}


def tables() -> list[list[dict[str, str]]]:
    """Return the docstring's tables; each row says by column what is expected."""
    made: list[list[dict[str, str]]] = []
    assert port.__doc__ is not None
    for part in port.__doc__.split("\n\n"):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
        if cells:
            head, _, *rows = cells
            made.append([dict(zip(head, row, strict=True)) for row in rows])
    return made


IN_REDIS, IN_THE_ONLY_PROCESS, IN_ONE_OF_SEVERAL = tables()


def rows(table: list[dict[str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", table, ids=[row["event"] for row in table])


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running(RedisServer()) as started:
        yield started


@asynccontextmanager
async def in_redis(server: RedisServer, *, timeout_s: float) -> AsyncIterator[Play]:
    with server.client() as client:
        client.flushall()
        clock = RedisClock(client)
        async with replica(server.url, clock, timeout_s=timeout_s) as hot, replica(server.url, clock) as other:
            play = Play(hot, server=server, other=other)
            await play.begin()
            try:
                yield play
            finally:
                server.resume()


async def in_memory(*, only_process: bool) -> Play:
    clock = Clock()
    play = Play(Hot(MemoryStates(10**6, only_process=only_process), MemoryLeases(clock=clock), clock))
    await play.begin()
    return play


def test_every_event_is_in_a_table():
    assert {row["event"] for table in tables() for row in table} == set(EVENTS)


@rows(IN_REDIS)
async def test_in_redis(server: RedisServer, row: dict[str, str]):
    seen = {"event": row["event"]}
    for column, observe in COLUMNS.items():
        timeout_s = SHORT_S if "away" in row["event"] else PATIENT_S
        async with in_redis(server, timeout_s=timeout_s) as play:
            await EVENTS[row["event"]](play)
            seen[column] = await observe(play)
    assert seen == row


@pytest.mark.parametrize(
    ("only_process", "row"), [(True, row) for row in IN_THE_ONLY_PROCESS] + [(False, row) for row in IN_ONE_OF_SEVERAL]
)
async def test_in_memory(row: dict[str, str], only_process: bool):
    seen = {"event": row["event"]}
    for column, observe in COLUMNS.items():
        play = await in_memory(only_process=only_process)
        await EVENTS[row["event"]](play)
        seen[column] = await observe(play)
    assert seen == row
