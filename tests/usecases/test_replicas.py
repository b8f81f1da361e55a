"""Two replicas over one database and one Redis: whatever one does, the other goes on from it."""

import asyncio
from typing import Any

import pytest

from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import encode_state
from bots_service.core.draw.selection import SelectRequest
from bots_service.core.entries import Report
from bots_service.core.evidence import Evidence
from bots_service.datasets import OpenRun
from bots_service.engine.replicas import FollowReplicas
from bots_service.errors import (
    DamagedStateError,
    StorageUnavailableError,
    UnknownRunError,
)
from bots_service.outcomes import Outcome
from bots_service.records import Head, IdempotencyKey, NewEntry, PublishedState, RunRow
from bots_service.stores import memory_stores
from tests.servers import RedisServer
from tests.usecases.world import POOL, World, block, never, outcome, stream


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_what_was_reported_here_is_selected_from_there(replicas: tuple[World, World], belief: str):
    await replicas[0].put_run("default", belief=belief)
    for step in range(6):
        here, there = replicas[step % 2], replicas[1 - step % 2]
        receipt = await here.report(outcome(f"t{step}", step), outcome("t9"))
        selection = await there.select(3)
        assert (selection.seq, selection.step) == (receipt.seq, receipt.step) == (step + 1, step + 1)
        assert not selection.degraded
    assert encode_state(await replicas[0].state()) == encode_state(await replicas[1].state())
    await replicas[0].assert_is_a_replay()


async def test_rewards_are_read_by_the_range_that_was_set_elsewhere(replicas: tuple[World, World]):
    here, there = replicas
    await here.report(outcome("t1"))  # so it knows a state, with the old range
    await there.runs.change_settings(POOL, "default", {"reward_range": (-1.0, 3.0)}, None)
    receipt = await here.report(Outcome("t2", rewards=[1.0, 3.0]))
    assert (receipt.seq, receipt.tally.successes) == (3, 1.5)


async def test_a_selection_of_a_later_step_is_reported_where_only_an_older_one_is_known(
    replicas: tuple[World, World],
):
    here, there = replicas
    await here.report(outcome("t1"))
    await there.report(outcome("t2"))
    selection = await there.select(1)
    ids = (await there.opened()).dataset.ids
    receipt = await here.report(outcome(ids[selection.tasks[0]]), selection_id=selection.id)
    assert (receipt.seq, receipt.step, receipt.late, receipt.expired) == (3, 3, 0, 0)


async def test_selections_at_once_on_both_share_no_task_while_others_are_free(replicas: tuple[World, World]):
    selections = await asyncio.gather(*(replicas[place % 2].select(4) for place in range(10)))
    assert len({task for selection in selections for task in selection.tasks.tolist()}) == 40
    assert {selection.reused for selection in selections} == {0}
    assert len({selection.id for selection in selections}) == 10
    assert (await replicas[0].select(2)).reused == 2


async def test_the_same_key_gives_the_same_selection_on_both(replicas: tuple[World, World]):
    first = await replicas[0].select(4, key="once")
    assert (await replicas[1].select(4, key="once")).tasks.tolist() == first.tasks.tolist()
    assert (await replicas[1].describe()).leased == 4


async def test_settings_changed_on_both_at_once_are_both_changed(replicas: tuple[World, World]):
    changes: list[dict[str, Any]] = [{"lease_seconds": 60.0}, {"target": 0.7}, {"reward_range": (-1.0, 1.0)}]
    calls = [replicas[n % 2].runs.change_settings(POOL, "default", values, None) for n, values in enumerate(changes)]
    await asyncio.gather(*calls)
    for replica in replicas:
        settings = (await replica.state()).settings
        assert (settings.lease_seconds, settings.target, settings.reward_range) == (60.0, 0.7, (-1.0, 1.0))


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_tasks_reported_there_before_this_one_heard_of_them_are_folded_here(
    replicas: tuple[World, World], belief: str
):
    here, there = replicas
    await here.put_run("default", belief=belief)
    before = await here.opened()
    await here.state()
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    await there.use.datasets.append(POOL, stream(grown), never)
    entry = (await there.use.store.journal.append(before.row, _draft(there, await there.opened(), 41))).entry
    known = await here.parts.catch_up.through(before, entry.seq)
    assert known.state.seq == 1
    await there.assert_is_a_replay()


def _draft(replica: World, run, task: int) -> NewEntry:
    import numpy as np

    evidence = Evidence(np.array([task], np.int32), np.array([1.0]), np.array([3.0]), np.array([True]))
    return NewEntry(Report(evidence, None, None), run.dataset.pool.profiles)


async def test_a_run_deleted_or_replaced_here_is_the_new_one_there(replicas: tuple[World, World]):
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
    with pytest.raises(UnknownRunError):
        await there.report(outcome("t1"), run="side")


async def test_what_a_replica_committed_before_it_died_is_followed(replicas: tuple[World, World], world: World):
    here, there = replicas
    await there.select(1)
    await there.runs.follow_once()
    run = await here.opened()
    await here.use.store.journal.append(run.row, _draft(here, run, 3))
    await there.select(1)
    await there.runs.follow_once()
    assert (await there.select(1)).seq == 1
    assert (await here.select(1)).seq == 1
    await there.assert_is_a_replay()
    await here.report(outcome("t1"))
    await there.opened()
    await there.runs.follow_once()  # finds it published
    async with world.use.follow_replicas.in_background():
        assert (await world.select(1)).seq == 2  # one without a shared store follows nobody: it asks SQL each time


async def test_a_replica_follows_what_was_changed_without_telling_it(replicas: tuple[World, World], world: World):
    _, there = replicas
    await there.select(1)
    await world.use.datasets.retire(POOL, [f"t{number}" for number in range(39)], None)  # this one has no Redis
    await there.runs.follow_once()
    assert (await there.select(1)).tasks.tolist() == [39]
    await world.put_run("default", target=0.9)
    await there.select(1)
    await there.runs.follow_once()
    assert (await there.state()).settings.target == 0.9
    await there.runs.follow_once()
    await there.runs.follow_once()


async def test_a_wipe_at_any_moment_loses_nothing(replicas: tuple[World, World], redis_server: RedisServer):
    with redis_server.client() as client:
        for step in range(12):
            here, there = replicas[step % 2], replicas[1 - step % 2]
            assert (await here.report(outcome(f"t{step}"))).seq == step + 1
            if step % 3 == 0:
                client.flushall()
            assert (await there.select(1)).seq == step + 1
            if step % 3 == 1:
                client.flushall()
    await replicas[0].assert_is_a_replay()


async def test_with_neither_sql_nor_a_shared_state_an_older_belief_goes_on(
    replicas: tuple[World, World], redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    await here.report(outcome("t1"))
    await there.opened()

    async def away(*_: object) -> None:
        raise StorageUnavailableError("the database did not answer")

    for replica in replicas:
        monkeypatch.setattr(replica.use.store.journal, "head", away)
        monkeypatch.setattr(replica.use.store.journal, "heads", away)
        monkeypatch.setattr(replica.parts.catch_up.replay.snapshots, "newest", away)
    assert not (await here.select(1)).degraded
    with redis_server.client() as client:
        client.flushall()
    selection = await here.select(2)
    assert (selection.seq, selection.degraded, len(selection.tasks)) == (1, True, 2)
    assert (await here.describe()).degraded
    with pytest.raises(StorageUnavailableError):  # whether that task was appended, nobody can say now
        await here.select(1, exclude=("t40",))
    with pytest.raises(StorageUnavailableError):
        await there.select(1)
    with pytest.raises(StorageUnavailableError):
        await here.runs.follow_once()


async def test_a_selection_made_there_of_tasks_appended_since_is_given_again_here(replicas: tuple[World, World]):
    here, there = replicas
    await here.report(outcome("t1"))
    await there.state()
    await here.use.datasets.append(POOL, stream(block(40, 20)), never)
    await here.select(1)  # publishes again what the change put in doubt, before the other looked
    first = await here.select(45, key="again")
    assert first.tasks.max() >= 40
    selection, dataset, again = await there.runs.select(SelectRequest(POOL, 45), IdempotencyKey("again", _asked(45)))
    assert again
    assert dataset.ids.take(selection.tasks) == [f"t{task}" for task in first.tasks.tolist()]


def _asked(count: int) -> str:
    """The fingerprint that `World.select` gives."""
    return repr(SelectRequest(POOL, count))


async def test_evidence_of_a_replica_that_could_not_publish_is_taken_here(replicas: tuple[World, World], world: World):
    here, _ = replicas
    await here.select(1)
    await world.report(outcome("t1"))  # this one has no Redis
    selection = await world.select(2)
    assert (await here.report(outcome("t2"), selection_id=selection.id)).step == 2
    await here.assert_is_a_replay()


async def test_without_a_shared_store_every_replica_asks_sql_and_says_that_it_is_alone(world: World):
    settings = world.settings.model_copy(update={"database_url": "postgresql://not-asked/"})
    both = [World.over(world.folder, settings, world.database, hot=memory_stores(settings)) for _ in range(2)]
    for step in range(4):
        here, there = both[step % 2], both[1 - step % 2]
        await here.report(outcome(f"t{step}"))
        for selection in (await there.select(2), await here.select(2)):
            assert (selection.seq, selection.degraded) == (step + 1, True)
        assert (await here.describe()).degraded


async def test_a_run_that_sql_says_is_gone_and_there_at_once_is_refused(world: World):
    async def gone(_run: OpenRun) -> None:
        raise UnknownRunError("gone")

    with pytest.raises(UnknownRunError):
        await world.runs.using(POOL, "default", gone)


async def test_a_report_counts_although_the_state_after_it_can_not_be_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    async def away(*_: object, **__: object) -> None:
        raise StorageUnavailableError("the database did not answer")

    monkeypatch.setattr(world.use.store.snapshots, "save", away)
    for number in range(world.settings.snapshot_every + 1):
        assert (await world.report(outcome(f"t{number}"))).seq == number + 1
    await world.assert_is_a_replay()


async def test_replicas_are_followed_in_the_background_whatever_goes_wrong(
    replicas: tuple[World, World], monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    journal = there.use.store.journal
    heads, wrong = journal.heads, [StorageUnavailableError("away"), RuntimeError("a bug"), None, None]

    async def faulty(run_ids: list[int]) -> dict[int, Head]:
        error = wrong.pop(0) if wrong else None
        if error is not None:
            raise error
        return await heads(run_ids)

    monkeypatch.setattr(journal, "heads", faulty)
    select, runs = there.use.select_tasks, there.use.at_work
    follow = FollowReplicas(journal, select.catch_up, select.open_runs, runs, is_needed=True, every_s=0.001)
    run = await here.opened()
    await here.use.store.journal.append(run.row, _draft(here, run, 3))
    async with follow.in_background():
        while wrong:
            await there.opened()
            await asyncio.sleep(0.001)
    assert (await there.select(1)).seq == 1


async def test_a_run_that_can_not_be_followed_keeps_no_other_from_being_followed(
    replicas: tuple[World, World], monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    await here.put_run("side")
    for name in ("default", "side"):
        await there.select(1, name)
        run = await here.opened(name)
        await here.use.store.journal.append(run.row, _draft(here, run, 3))
    newest = there.parts.states.newest

    async def damaged(run: RunRow) -> PublishedState:
        if run.name == "default":
            raise DamagedStateError("damaged")
        return await newest(run)

    monkeypatch.setattr(there.parts.states, "newest", damaged)
    await there.runs.follow_once()
    assert (await there.state("side")).seq == 1
