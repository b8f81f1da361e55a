"""Two replicas over one database and one Redis: whatever one does, the other goes on from it."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from bots_service import errors
from bots_service.core.belief import KINDS
from bots_service.core.codec import encode_state
from bots_service.core.draw import SelectRequest
from bots_service.core.entries import Report
from bots_service.core.receipt import Receipt
from bots_service.datasets import OpenRun
from bots_service.outcomes import ReportRequest
from bots_service.records import Head, IdempotencyKey
from bots_service.runs import KEEP_EVERY
from tests.servers import RedisServer
from tests.usecases.world import (
    HEADER,
    POOL,
    World,
    block,
    exported,
    imported,
    meanwhile,
    never,
    new_profiles,
    outage,
    outcome,
    outcomes_of,
    reads_of,
    reports,
    stream,
)

Both = tuple[World, World]


@pytest.fixture
def alone(world: World) -> World:
    """A process over the same database, without a Redis."""
    return world.beside()


async def test_one_report_at_both_at_once_counts_once(replicas: Both):
    for key in "abcdefgh":
        told = await asyncio.gather(*(each.report(outcome("t1"), key=key) for each in replicas))
        assert len({one.seq for one in told}) == 1
    assert (await replicas[0].assert_is_a_replay()).seq == 8


@pytest.mark.parametrize("task", ["t20", "t30"])
async def test_of_reports_that_are_sent_together_one_may_have_come_elsewhere_first(
    replicas: Both, monkeypatch: pytest.MonkeyPatch, task: str
):
    here, there = replicas
    await reports(here, 8)  # so that it folds ahead
    await there.state()
    journal = here.use.store.journal
    append = journal.append_next

    async def overtaken(*arguments: Any) -> int:
        monkeypatch.undo()
        await there.report(outcome("t20", 1), key="first")
        return await append(*arguments)

    monkeypatch.setattr(journal, "append_next", overtaken)
    requests = (here.report(outcome(task, 1), key="first"), here.report(outcome("t3"), key="second"))
    first, second = await asyncio.gather(*requests, return_exceptions=True)
    assert isinstance(first, errors.KeyReusedError) == (task == "t30")
    assert isinstance(second, Receipt)
    entries = await journal.between(await here.row(), 8, 100)
    assert [entry.body.evidence.tasks.tolist() for entry in entries if isinstance(entry.body, Report)] == [[20], [3]]
    assert second.seq == 10
    await here.assert_is_a_replay()


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_what_was_reported_here_is_selected_from_there(replicas: Both, belief: str):
    await replicas[0].put_run("default", belief=belief)
    for step in range(6):
        here, there = replicas[step % 2], replicas[1 - step % 2]
        receipt = await here.report(outcome(f"t{step}", step), outcome("t9"))
        selection = await there.select(3)
        assert (selection.seq, selection.step) == (receipt.seq, receipt.step) == (2 * step + 1, 2 * step + 1)
        assert not selection.degraded
        receipt = await here.report(*outcomes_of(selection), selection_id=selection.id)
        assert (receipt.step, receipt.late, receipt.expired) == (2 * step + 2, 0, 0)
    assert encode_state(await replicas[0].state()) == encode_state(await replicas[1].state())
    await replicas[0].assert_is_a_replay()


async def test_a_replica_goes_on_from_a_rewind_without_folding_the_journal_again(
    replicas: Both, monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    for solved in (1, 0):
        await here.report(outcome("t1", solved))
    await there.select(1)
    await here.rewind(1)
    reads = reads_of(there, monkeypatch)
    assert (await there.select(1)).seq == 3
    assert reads == []
    assert encode_state(await there.state()) == encode_state(await here.state())


async def test_a_run_deleted_or_replaced_here_is_the_new_one_there(replicas: Both):
    here, there = replicas
    await there.report(outcome("t1"))
    await here.runs.delete(POOL, "default", None)
    assert (await there.select(3)).seq == 0
    await here.put_run("default", target=0.9)
    assert (await there.state()).settings.target == 0.9
    assert (await there.report(outcome("t1"))).seq == 1
    await here.put_run("side")
    await there.select(1, "side")
    await here.runs.delete(POOL, "side", None)
    with pytest.raises(errors.UnknownRunError):
        await there.report(outcome("t1"), run="side")


async def test_a_step_asks_redis_three_times_whichever_replica_makes_it(replicas: Both, redis_server: RedisServer):
    async def step(replica: World) -> None:
        selection = await replica.select(3)
        ids = (await replica.opened()).dataset.ids
        await replica.report(*(outcome(ids[task]) for task in selection.tasks), selection_id=selection.id)

    def scripts() -> int:
        with redis_server.client() as client:
            stats = client.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))

    for replica in replicas:
        await step(replica)
    before = scripts()
    for turn in range(10):
        await step(replicas[turn % 2])
    assert scripts() - before == 30  # to look, to lease, and to tell what was reported
    await replicas[1].assert_is_a_replay()


async def test_a_selection_made_there_of_tasks_appended_since_is_given_again_here(replicas: Both):
    here, there = replicas
    await there.select(1)
    await here.use.datasets.append(POOL, stream(block(40, 20)), never)
    first = await here.select(45, key="again")
    assert first.tasks.max() >= 40
    once = IdempotencyKey("again", repr(SelectRequest(POOL, 45)))
    selection, dataset, again = await there.runs.select(SelectRequest(POOL, 45), once)
    assert again
    assert dataset.ids.take(selection.tasks) == [f"t{task}" for task in first.tasks.tolist()]

    async def the_other_comes_first() -> None:
        await here.use.datasets.append(POOL, stream(block(60, 20)), never)
        await here.select(65, key="at once")

    meanwhile(there.use.live, "lease", the_other_comes_first)
    once = IdempotencyKey("at once", repr(SelectRequest(POOL, 65)))
    selection, dataset, again = await there.runs.select(SelectRequest(POOL, 1), once)
    assert (again, len(selection.tasks), len(dataset.ids)) == (True, 65, 80)


async def test_a_run_that_sql_says_is_gone_and_there_at_once_is_refused(world: World):
    async def gone(_run: OpenRun) -> None:
        raise errors.UnknownRunError("gone")

    with pytest.raises(errors.UnknownRunError):
        await world.runs.using(POOL, "default", gone)


# --- datasets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_tasks_appended_here_are_known_there(replicas: Both, belief: str):
    here, there = replicas
    await here.put_run("default", belief=belief)
    await there.select(1)
    grown = new_profiles()
    grown.tags[:] = [("new",), ("new",)]
    await here.use.datasets.append(POOL, stream(grown), never)
    assert sorted((await there.select(2, tags=("new",))).tasks.tolist()) == [40, 41]
    await here.use.datasets.append(POOL, stream(block(50, 2)), never)
    await here.report(outcome("t51"), outcome("t2"))
    assert sorted((await there.select(44)).tasks.tolist()) == list(range(44))
    await here.use.datasets.append(POOL, stream(block(60, 1)), never)
    assert (await there.report(outcome("t60"))).reported == 1
    await here.assert_is_a_replay()
    with pytest.raises(errors.InvalidOutcomesError):
        await there.report(outcome("t99"))


async def test_tasks_retired_and_restored_here_are_so_there(replicas: Both):
    here, there = replicas
    await there.select(1)
    await here.use.datasets.retire(POOL, [f"t{number}" for number in range(35)], None)
    assert set((await there.select(5)).tasks.tolist()) <= set(range(35, 40))
    with pytest.raises(errors.PoolTooSmallError):
        await there.select(6)
    await here.use.datasets.retire(POOL, ["t4", "t30"], None, restore=True)
    assert set((await there.select(7)).tasks.tolist()) == {4, 30, *range(35, 40)}


@pytest.mark.parametrize("followed", [False, True])
async def test_a_dataset_deleted_and_made_anew_here_is_the_new_one_there(replicas: Both, *, followed: bool):
    here, there = replicas
    await there.report(outcome("t1"))
    await here.use.datasets.delete(POOL, None)
    if followed:  # it knows that the run is gone, and has the dataset still open
        await there.opened()
        await there.runs.follow_once()
    else:
        with pytest.raises(errors.UnknownDatasetError):
            await there.select(1)
    await here.use.datasets.create(POOL, HEADER[0], "other", stream(block(0, 9)), never)
    assert len((await there.select(9)).tasks) == 9
    assert (await there.report(outcome("t1"))).seq == 1


async def test_a_selection_is_given_again_under_its_key_where_too_few_tasks_are_left_for_another(replicas: Both):
    here, _ = replicas
    first = await here.select(10, key="once")
    await here.use.datasets.retire(POOL, [f"t{place}" for place in range(35)], None)
    assert (await here.select(10, key="once")).id == first.id
    with pytest.raises(errors.KeyReusedError):
        await here.select(11, key="once")
    with pytest.raises(errors.PoolTooSmallError):
        await here.select(10, key="another")


async def test_a_run_that_an_import_makes_has_lost_nothing(replicas: Both):
    here, there = replicas
    await here.put_run("side")
    await here.report(outcome("t1"), run="side")
    await imported(here, await exported(here, "side"), run="copied")
    selection = await there.select(1, "copied")
    assert (selection.seq, selection.degraded) == (1, False)


# --- without Redis ---------------------------------------------------------------------------------------------------


async def test_where_redis_is_wiped_before_every_call_reports_count_and_selections_are_made_alone(
    replicas: Both, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    for call in ("look", "lease", "moved"):
        real = getattr(here.use.live, call)

        async def wiped_before(*arguments: Any, real: Any = real, **named: Any) -> Any:
            with redis_server.client() as client:
                client.flushall()
            return await real(*arguments, **named)

        monkeypatch.setattr(here.use.live, call, wiped_before)
    monkeypatch.setattr("bots_service.runs.PATIENCE_S", 0.1)
    reported = await asyncio.gather(*(here.report(outcome(f"t{task}")) for task in range(8)))
    assert sorted(receipt.seq for receipt in reported) == list(range(1, 9))
    made = await asyncio.gather(*(here.select(4) for _ in range(3)))
    assert [(selection.seq, selection.degraded) for selection in made] == [(8, True)] * 3
    assert len({task for selection in made for task in selection.tasks.tolist()}) == 12
    monkeypatch.undo()
    assert (await there.select(1)).seq == 8
    await here.assert_is_a_replay()


async def test_a_replica_shows_where_a_run_stands_that_it_only_selects_from(replicas: Both):
    here, there = replicas
    await there.report(outcome("t1"))
    for task in ("t2", "t3"):
        await here.report(outcome(task))
    await there.select(4)
    await there.runs.follow_once()
    assert (there.shown("step"), there.shown("leased_tasks")) == (3, 4)
    await here.rewind(1)
    await there.select(2)
    await there.runs.follow_once()
    assert (there.shown("step"), there.shown("leased_tasks")) == (1, 2)


async def test_a_replica_shows_where_a_run_stands_that_only_others_use_by_now(
    replicas: Both, monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    selection = await there.select(4)
    for _ in range(2):  # nothing was used in between
        await there.runs.follow_once()
    await here.report(*outcomes_of(selection), selection_id=selection.id)
    await there.runs.follow_once()
    assert there.shown("leased_tasks") == 4
    monkeypatch.setattr("bots_service.runs.FOLLOW_ALL_EVERY_S", 0.0)
    await there.runs.follow_once()
    assert (there.shown("step"), there.shown("leased_tasks")) == (1, 0)
    await here.runs.delete(POOL, "default", None)
    await there.runs.follow_once()
    assert there.shown("leased_tasks") is None


async def test_a_report_that_others_can_not_see_says_so_and_is_followed(replicas: Both):
    here, there = replicas
    await here.report(outcome("t1"))
    await there.select(1)

    async def unheard(*_: object, **__: object) -> None:
        """Tell nobody."""

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(here.use.live, "moved", unheard)
        assert (await here.runs.report(ReportRequest(POOL, [outcome("t2")]), None)).degraded
    await there.runs.follow_once()
    assert (await there.select(1)).seq == 2


async def test_what_a_process_without_redis_does_is_followed(replicas: Both, alone: World):
    here, there = replicas
    await there.select(1)
    await alone.report(outcome("t1"))
    await there.runs.follow_once()
    assert (await there.select(1)).seq == (await here.select(1)).seq == 1
    selection = await alone.select(2)
    assert (await here.report(*outcomes_of(selection), selection_id=selection.id)).step == 2
    await alone.use.datasets.retire(POOL, [f"t{number}" for number in range(39)], None)
    await there.select(1)
    await there.runs.follow_once()
    assert (await there.select(1)).tasks.tolist() == [39]
    await alone.runs.delete(POOL, "default", None)
    await alone.put_run("default", target=0.9)
    await there.opened()
    await there.runs.follow_once()
    assert (await there.state()).settings.target == 0.9
    await there.runs.follow_once()
    await there.runs.follow_once()
    async with alone.runs.follow_replicas():
        assert (await alone.select(1)).degraded  # it follows nobody, and asks SQL each time


async def test_processes_without_redis_ask_sql_and_say_that_they_are_alone(world: World):
    both = world.beside(), world.beside()
    for step in range(4):
        here, there = both[step % 2], both[1 - step % 2]
        await here.report(outcome(f"t{step}"))
        for selection in (await there.select(2), await here.select(2)):
            assert (selection.seq, selection.degraded) == (step + 1, True)
        assert (await here.describe()).degraded


async def test_replicas_are_followed_in_the_background_whatever_goes_wrong(
    replicas: Both, alone: World, monkeypatch: pytest.MonkeyPatch
):
    _, there = replicas
    await there.put_run("side")
    journal, follow = there.use.store.journal, there.runs._follow
    heads, wrong = journal.heads, [errors.StorageUnavailableError("away"), RuntimeError("a bug"), None, None]

    async def faulty(run_ids: list[int]) -> dict[int, Head]:
        error = wrong.pop(0) if wrong else None
        if error is not None:
            raise error
        return await heads(run_ids)

    async def damaged(dataset: Any, row: Any, head: Any) -> None:
        if row.name == "side":
            raise errors.DamagedStateError("damaged")
        await follow(dataset, row, head)

    monkeypatch.setattr(journal, "heads", faulty)
    monkeypatch.setattr(there.runs, "_follow", damaged)
    monkeypatch.setattr("bots_service.runs.FOLLOW_EVERY_S", 0.001)
    await alone.report(outcome("t1"))
    with capture_logs() as logs:
        async with there.runs.follow_replicas():
            while wrong:
                for run in ("side", "default"):
                    await there.opened(run)
                await asyncio.sleep(0.001)
    assert (await there.select(1)).seq == 1
    assert {"replicas_not_followed", "run_not_followed"} <= {line["event"] for line in logs}


# --- without SQL, and where it was restored --------------------------------------------------------------------------


async def test_an_older_belief_goes_on_while_sql_is_away(replicas: Both, redis_server: RedisServer):
    here, there = replicas
    await here.report(outcome("t1"))
    await here.select(1)
    await there.opened()
    with outage(here.database, "read", "write"):
        assert not (await here.select(1)).degraded  # Redis tells that it is the newest
        with redis_server.client() as client:
            client.flushall()
        selection = await here.select(2)
        assert (selection.seq, selection.degraded, len(selection.tasks)) == (1, True, 2)
        assert (await here.describe()).degraded
        for refused in (
            here.select(1, exclude=("t40",)),  # whether that task was appended, nobody can say now
            there.select(1),
            there.describe(),
            here.runs.follow_once(),
        ):
            with pytest.raises(errors.StorageUnavailableError):
                await refused
    assert not (await here.describe()).degraded


async def test_where_the_database_was_restored_to_an_earlier_time_replicas_go_on_from_there(replicas: Both):
    here, there = replicas
    for task in range(4):
        await here.report(outcome(f"t{task}"), key=f"key-{task}")
    selection = await there.select(1)
    for table in ("journal", "snapshots"):
        here.sql(f"DELETE FROM {table} WHERE seq > 2")  # noqa: S608 - names of tables
    await there.opened()
    await there.runs.follow_once()
    assert (await here.report(outcome("t2"), key="key-2")).seq == 3
    with pytest.raises(errors.StaleEpochError, match="restored"):
        await here.report(outcome("t9"), selection_id=selection.id)
    for replica in replicas:
        assert (await replica.select(1)).seq == 3
        await replica.assert_is_a_replay()


@pytest.mark.parametrize("damage", ["none", "bytes", "time"])
async def test_a_replica_that_starts_takes_the_state_that_is_kept_if_it_is_of_this_journal(
    replicas: Both, redis_server: RedisServer, damage: str
):
    here, there = replicas
    for task in range(KEEP_EVERY + 3):
        await here.report(outcome(f"t{task % 40}"))
    await here.settled()
    here.sql("DELETE FROM snapshots")
    if damage == "bytes":
        with redis_server.client() as client:
            client.hset(f"bots:{(await here.row()).uid}:run", "state", b"12345678 damaged")
    if damage == "time":  # a database that was restored has another entry of that seq
        here.sql("UPDATE journal SET created_at = created_at + 1")
    read, between = list[int](), there.use.store.journal.between

    async def watched(run: Any, after: int, *rest: Any) -> Any:
        read.append(after)
        return await between(run, after, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(there.use.store.journal, "between", watched)
        assert encode_state(await there.state()) == encode_state(await here.state())
    assert read == [KEEP_EVERY if damage == "none" else 0]
    await there.assert_is_a_replay()
