"""States come from the journal: of now, of the past, after a rewind, in a fork; each caller gets its own receipt."""

import asyncio
import random
from typing import Any

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from bots_service import errors
from bots_service import replay as module
from bots_service.core.belief import KINDS
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState
from bots_service.records import IdempotencyKey, RunRow
from bots_service.retention import NEWEST_SNAPSHOTS
from bots_service.runs import ATTEMPTS, ForkFrom
from tests.core.pools import bots_belief
from tests.sizes import size
from tests.usecases.world import (
    POOL,
    World,
    evidence_bytes,
    meanwhile,
    never,
    new_profiles,
    outage,
    outcome,
    reads_of,
    reports,
    stream,
)


async def some_reports(world: World, count: int, run: str = "default") -> list[Receipt]:
    return [await world.report(outcome(f"t{turn % 40}", turn % 17), run=run) for turn in range(count)]


def flip(world: World, seqs: list[int]) -> None:
    """Damage stored states: one byte in the middle of each."""
    for seq in seqs:
        [(blob,)] = world.sql("SELECT blob FROM snapshots WHERE seq = ?", seq)
        middle = len(blob) // 2
        damaged = blob[:middle] + bytes([blob[middle] ^ 0x10]) + blob[middle + 1 :]
        world.sql("UPDATE snapshots SET blob = ? WHERE seq = ?", damaged, seq)


@pytest.mark.parametrize("damaged", [[], [15], [15, 10], [5, 10, 15]], ids=str)
async def test_a_cold_start_falls_back_to_an_older_state_where_newer_ones_are_damaged(
    world: World, damaged: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    await some_reports(world, 17)
    assert world.sql("SELECT seq FROM snapshots ORDER BY seq") == [(5,), (10,), (15,)]
    flip(world, damaged)
    again = world.beside()
    reads = reads_of(again, monkeypatch)
    await again.state()
    assert reads == [(max({0, 5, 10, 15} - set(damaged)), 17)]
    assert capsys.readouterr().out.count("snapshot_damaged") == len(damaged)
    await again.assert_is_a_replay()


@pytest.mark.parametrize("page", [1, 3, 1000])
async def test_states_of_the_past_come_from_the_journal_alone_whatever_is_read_at_once(
    world: World, page: int, monkeypatch: pytest.MonkeyPatch
):
    await some_reports(world, 9)
    await world.rewind(4)
    await some_reports(world, 5)
    await world.rewind(6)
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "SMALL_STATE_NUMBERS", 0)  # every page in a thread
    world.sql("DELETE FROM snapshots")
    cold, (states, _) = world.beside(), await world.replay()
    assert encode_state(await cold.state()) == encode_state(states[-1])
    for seq in range(17):
        state = await cold.use.replay.state_at(await cold.opened(), seq)
        assert encode_state(state) == encode_state(states[seq])


@pytest.mark.no_cover
async def test_a_state_of_the_past_folds_no_more_than_was_promised(world: World, monkeypatch: pytest.MonkeyPatch):
    await some_reports(world, 150)
    (states, _), cold = await world.replay(), world.beside()
    reads, opened = reads_of(cold, monkeypatch), await cold.opened()
    for seq in range(0, 151, 7):
        reads.clear()
        assert encode_state(await cold.use.replay.state_at(opened, seq)) == encode_state(states[seq])
        folded = sum(up_to - after for after, up_to in reads) // 2  # looked at once for rewinds, folded once
        assert folded <= (150 - seq) + 5 * (NEWEST_SNAPSHOTS + 1)


async def test_a_journal_that_lost_an_entry_is_refused(world: World):
    await some_reports(world, 4)
    world.sql("DELETE FROM journal WHERE seq = 2")
    with pytest.raises(errors.DamagedStateError):
        await world.beside().state()


async def test_a_run_that_is_deleted_while_it_is_folded_is_gone(world: World):
    await world.put_run("gone")
    await some_reports(world, 3, "gone")
    cold = world.beside()
    meanwhile(cold.use.store.snapshots, "newest", lambda: world.runs.delete(POOL, "gone", None))
    with pytest.raises(errors.UnknownRunError):
        await cold.state("gone")


async def test_a_report_counts_although_the_state_after_it_can_not_be_stored(world: World):
    with outage(world.use.store.snapshots, "save"):
        await some_reports(world, world.settings.snapshot_every + 1)
    assert (await world.assert_is_a_replay()).seq == world.settings.snapshot_every + 1


# --- many at once ----------------------------------------------------------------------------------------------------


async def test_100_reports_at_once_are_folded_once_each(world: World):
    made = [world.report(outcome(f"t{turn % 40}", turn % 17), key=str(turn)) for turn in range(100)]
    receipts = await asyncio.gather(*made)
    _, replayed = await world.replay()
    assert sorted(receipt.seq for receipt in receipts) == list(range(1, 101))
    assert all(receipt == replayed[receipt.seq - 1] for receipt in receipts)
    assert (await world.assert_is_a_replay()).totals.rollouts == 100 * 16


async def test_a_change_that_is_refused_leaves_those_alone_that_are_committed_with_it(world: World):
    await world.state()
    changes = [
        world.report(outcome("t1"), key="once"),
        world.runs.change_settings(POOL, "default", {"prior": [9, 9]}, None),
        world.report(outcome("nobody")),
        world.report(outcome("t1"), key="once"),
        world.report(outcome("t2"), key="once"),
        world.report(outcome("t3")),
    ]
    done = await asyncio.gather(*changes, return_exceptions=True)
    told = [one.seq if isinstance(one, Receipt) else type(one) for one in done]
    assert told == [1, errors.InvalidSettingsError, errors.InvalidOutcomesError, 1, errors.KeyReusedError, 2]
    assert (await world.assert_is_a_replay()).seq == 2


async def test_a_head_that_was_read_before_another_entry_came_hides_nothing(world: World):
    other = world.beside()
    await other.state()
    meanwhile(other.use.store.journal, "head", lambda: other.report(outcome("t1")), after=True)
    assert (await other.state()).seq == 1


async def test_a_connection_that_breaks_in_a_transaction_fails_all_of_it(world: World, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object) -> None:
        raise OperationalError("SELECT", {}, Exception("gone"))

    await world.state()
    with monkeypatch.context() as patched:
        patched.setattr("bots_service.runs._folded", broken)
        done = await asyncio.gather(*(world.report(outcome("t1"), key=key) for key in "ab"), return_exceptions=True)
    assert [type(one) for one in done] == [errors.StorageUnavailableError] * 2
    assert (await world.report(outcome("t1"), key="a")).seq == 1


async def test_a_database_that_goes_between_two_reports_fails_the_second_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    await some_reports(world, 3)  # after the fourth, the service does not look at the run
    write = world.database.write

    def gone(job: Any, *, alone: bool = False) -> Any:  # what has no key is no single statement
        if not alone:
            raise errors.StorageUnavailableError("gone")
        return write(job, alone=alone)

    with monkeypatch.context() as patched:
        patched.setattr(world.database, "write", gone)
        both = asyncio.gather(world.report(outcome("t2"), key="b"), world.report(outcome("t3")), return_exceptions=True)
        first, second = await asyncio.wait_for(both, 10)
    assert isinstance(first, Receipt)
    assert first.seq == 4
    assert isinstance(second, errors.StorageUnavailableError)
    assert (await world.report(outcome("t3"))).seq == 5
    await world.assert_is_a_replay()


async def test_two_processes_that_both_take_a_database_for_their_own_are_told_so(world: World):
    await world.state()
    await world.beside().rewind(0)
    with pytest.raises(errors.BusyError, match="changed by others"):
        await world.report(outcome("t1"))


async def test_processes_that_see_nothing_of_each_other_fold_what_the_other_appended(world: World):
    """Few entries are folded inside a transaction, more of them before it."""
    here, there = world.beside(), world.beside()
    await some_reports(here, 2)
    await some_reports(there, 3)
    await here.report(outcome("t1"))
    await some_reports(there, 130)
    await here.report(outcome("t1"))
    old = await here.select(2)
    await there.rewind(5)
    with pytest.raises(errors.StaleEpochError):
        await here.report(outcome("t1"), selection_id=old.id)
    assert (await here.report(outcome("t1"))).step == 6
    for world_ in (here, there):
        assert (await world_.assert_is_a_replay()).seq == 139


# --- rewinds ---------------------------------------------------------------------------------------------------------


STEPS = size(36, 60)


async def one_step(world: World, chance: random.Random, run: str = "default", *, selected: list[str]) -> None:
    """Close one step by a few reports: partial ones, late ones, and changes of settings in between."""
    ids = (await world.opened(run)).dataset.ids
    for _ in range(chance.randint(0, 2)):
        tasks = chance.sample(range(len(ids)), 3)
        await world.report(*(outcome(ids[task], chance.randint(0, 16)) for task in tasks), run=run, close_step=False)
    if chance.random() < 0.3:
        is_bots = (await world.row(run)).settings.belief == "bots"
        learning = {"forgetting": chance.choice([0.0, 0.1, 0.5])} if is_bots else {}
        await world.runs.change_settings(POOL, run, {**learning, "target": chance.random()}, None)
    selection = await world.select(4, run)
    selected.append(selection.id)
    late = chance.choice(selected[-5:])
    await world.report(*(outcome(ids[task], 7) for task in selection.tasks), run=run, selection_id=late)


async def many_steps(world: World, belief: str, seed: int = 0) -> list[RunState]:
    """Return the states that stood when each of the steps had just closed, the first before any."""
    await world.put_run("default", belief=belief)
    chance = random.Random(seed)
    selected: list[str] = []
    states = [await world.state()]
    for _ in range(STEPS):
        await one_step(world, chance, selected=selected)
        states.append(await world.state())
    assert [state.step for state in states] == list(range(STEPS + 1))
    assert states[-1].totals.late > STEPS
    return states


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(size(2, 4)))  # each kind of belief
async def test_nested_and_repeated_rewinds_follow_the_present_history(world: World, seed: int):
    await world.put_run("default", belief=sorted(KINDS)[seed % len(KINDS)])
    chance = random.Random(seed)
    selected: list[str] = []
    present = [await world.state()]  # by step, in the present history
    for _ in range(size(30, 50)):
        if len(present) > 1 and chance.random() < 0.35:
            step = chance.choice([0, len(present) - 1, chance.randrange(len(present))])
            for _ in range(chance.randint(1, 2)):
                await world.rewind(step)
                assert evidence_bytes(await world.state()) == evidence_bytes(present[step])
            present, selected = present[: step + 1], []
        await one_step(world, chance, selected=selected)
        present.append(await world.state())
    state = await world.assert_is_a_replay()
    for step in (-1, len(present), 10**9):
        with pytest.raises(errors.UnknownStepError, match=f"no step {step}"):
            await world.rewind(step)
    assert encode_state(await world.state()) == encode_state(state)
    again = await world.reopened()
    await again.assert_is_a_replay()
    for step in range(len(present) - 1, -1, -1):
        await again.rewind(step)
        assert evidence_bytes(await again.state()) == evidence_bytes(present[step])
    await again.close()


@pytest.mark.no_cover
async def test_a_chain_of_rewinds_folds_quickly_without_any_stored_state(world: World):
    for step in range(30):  # a trainer that crashes at each step: folding what was abandoned would take 2^30 folds
        await world.report(outcome(f"t{step}", step % 17))
        await world.rewind(step + 1)
    state = await world.state()
    world.sql("DELETE FROM snapshots")
    again = await world.reopened(snapshot_every=1000)
    assert encode_state(await again.state()) == encode_state(state)
    again.sql("DELETE FROM snapshots")
    opened, (states, _) = await again.opened(), await again.replay()
    for seq in (60, 59, 31, 2, 1, 0):
        assert encode_state(await again.use.replay.state_at(opened, seq)) == encode_state(states[seq])
    await again.close()


async def test_a_rewind_under_one_key_happens_once(world: World):
    await reports(world, 3)
    once, other = IdempotencyKey("key", "rewind 1"), world.beside()
    meanwhile(other.use.store.history, "closing", lambda: world.runs.rewind(POOL, "default", 1, once))
    for process in (other, world, other):
        run, again = await process.runs.rewind(POOL, "default", 1, once)
        assert (run.epoch, again) == (1, True)
    await world.rewind(0)  # there is no step 1 any more
    assert (await world.runs.rewind(POOL, "default", 1, once))[1]
    assert (await world.state()).epoch == 2


async def test_rewinds_at_once_happen_one_after_the_other(world: World):
    await reports(world, 3)
    done = await asyncio.gather(*(world.rewind(step) for step in (2, 1, 1, 2)), return_exceptions=True)
    refused = [isinstance(one, errors.UnknownStepError) for one in done]
    assert refused[1:3] == [False, False]
    assert (await world.assert_is_a_replay()).epoch == refused.count(False)


async def test_a_rewind_that_others_overtake_again_and_again_is_refused_as_busy(world: World):
    await reports(world, 3)
    other = world.beside()
    closing = other.use.store.history.closing

    async def overtaken(run: RunRow, step: int) -> int | None:
        await world.rewind(2)
        return await closing(run, step)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(other.use.store.history, "closing", overtaken)
        with pytest.raises(errors.BusyError):
            await other.rewind(1)
    assert (await world.rewind(1)).epoch == ATTEMPTS + 1


async def test_a_rewind_to_a_step_that_another_process_abandons_meanwhile_is_refused(world: World):
    await reports(world, 3)
    other = world.beside()
    meanwhile(other.use.store.history, "closing", lambda: world.rewind(1), after=True)
    with pytest.raises(errors.UnknownStepError):
        await other.rewind(2)
    assert ((await other.state()).step, (await other.state()).epoch) == (1, 1)
    await other.assert_is_a_replay()


# --- forks -----------------------------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_a_fork_equals_its_parent_at_every_step_and_then_diverges(world: World, belief: str):
    states = await many_steps(world, belief, seed=1)
    parent_bytes = encode_state(await world.state())
    for step in [*range(0, STEPS + 1, 6), None]:
        wanted = states[-1 if step is None else step]
        run, is_new = await world.runs.put(POOL, f"fork-{step}", {}, ForkFrom("default", step), None)
        assert is_new
        assert (run.seq, run.epoch, run.step) == (wanted.seq + 1, wanted.epoch + 1, wanted.step)
        assert evidence_bytes(await world.state(run.run)) == evidence_bytes(wanted)
        assert run.forked_from is not None
        assert (run.forked_from.run, run.forked_from.step, run.forked_from.seq) == ("default", wanted.step, run.seq)
    await world.report(outcome("t1"), run="fork-30")
    assert encode_state(await world.state()) == parent_bytes
    assert (await world.state("fork-30")).step == 31
    assert evidence_bytes(await world.state("fork-36")) == evidence_bytes(states[36])


async def test_a_fork_lives_on_when_its_parent_is_deleted(world: World):
    await world.put_run("parent", seed=5, lease_seconds=30.0)
    await reports(world, 8, run="parent")
    child, _ = await world.runs.put(POOL, "child", {"target": 0.7}, ForkFrom("parent", 4), None)
    assert (child.settings.seed, child.settings.lease_seconds, child.settings.target) == (5, 30.0, 0.7)
    begun = encode_state(await world.state("child"))
    await world.runs.delete(POOL, "parent", None)
    again = await world.reopened()
    assert encode_state(await again.state("child")) == begun
    await reports(again, 4, run="child")
    await again.assert_is_a_replay("child")
    await again.rewind(4, "child")
    assert evidence_bytes(await again.state("child")) == evidence_bytes(decode_state(begun))
    with pytest.raises(errors.UnknownStepError, match="it began with step 4 and is at step 4"):
        await again.rewind(3, "child")
    assert [told.step for told in await again.use.insight.steps(POOL, "child", 0, 10)] == [1, 2, 3, 4]
    await again.close()


async def test_a_fork_is_refused_where_its_parent_is_deleted_or_rewound_meanwhile(world: World):
    await reports(world, 4)
    for undo in (lambda: world.rewind(2), lambda: world.runs.delete(POOL, "default", None)):
        meanwhile(world.use.store.runs, "put", undo)
        with pytest.raises(errors.BusyError, match="'default' was deleted or rewound"):
            await world.runs.put(POOL, "child", {}, ForkFrom("default"), None)
        with pytest.raises(errors.UnknownRunError):
            await world.describe("child")


async def test_forks_of_forks_and_of_empty_runs_start_where_they_should(world: World):
    empty, _ = await world.runs.put(POOL, "a", {}, ForkFrom("default", 0), None)
    assert (empty.step, empty.seq, empty.epoch) == (0, 1, 1)
    await world.report(outcome("t2"), close_step=False)
    begun, _ = await world.runs.put(POOL, "without-open-step", {}, ForkFrom("default"), None)
    assert (begun.pending, (await world.state()).open_step.tasks) == (0, 1)
    await world.report(outcome("t1"), run="a")
    await world.runs.put(POOL, "b", {}, ForkFrom("a", 1), None)
    await world.report(outcome("t2"), run="b")
    await world.runs.put(POOL, "c", {}, ForkFrom("b", 1), None)
    assert evidence_bytes(await world.state("c")) == evidence_bytes((await world.replay("a"))[0][-1])
    with pytest.raises(errors.UnknownStepError):
        await world.runs.put(POOL, "d", {}, ForkFrom("b", 0), None)
    with pytest.raises(errors.RunHasHistoryError):
        await world.runs.put(POOL, "c", {}, ForkFrom("b", 1), None)
    for wrong in ({"belief": "bots"}, {"prior": [2, 2]}):
        with pytest.raises(errors.InvalidSettingsError):
            await world.runs.put(POOL, "e", wrong, ForkFrom("b"), None)


async def test_a_forks_profiles_grow_with_the_pool(world: World):
    await world.put_run("default", belief="bots")
    await world.report(outcome("t1"), outcome("t2"))
    await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    await world.use.datasets.append(POOL, stream(new_profiles(3)), never)
    await world.report(outcome("t40"), outcome("t3"))
    await world.report(outcome("t40"), outcome("t3"), run="fork")
    assert evidence_bytes(await world.assert_is_a_replay("fork")) == evidence_bytes(await world.assert_is_a_replay())
    assert np.isfinite(bots_belief(await world.state()).implied).all()
