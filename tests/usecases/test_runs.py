"""Runs: settings, descriptions, pages of tasks and of history, and stored states."""

import random
from collections.abc import Awaitable, Callable
from itertools import pairwise

import numpy as np
import pytest

from bots_service import errors
from bots_service.core.codec import decode_state, encode_state
from bots_service.records import IdempotencyKey, RunRow
from bots_service.replay import superfluous
from bots_service.retention import NEWEST_SNAPSHOTS
from bots_service.runs import LONGEST_REASON, ForkFrom, Run, reason_of
from tests.usecases.world import POOL, World, away, flaws_of, meanwhile, outcome, reports

# --- PUT and PATCH ---------------------------------------------------------------------------------------------------


async def test_putting_a_run_makes_it_and_later_replaces_the_settings_of_an_empty_one(world: World):
    first, is_new = await world.runs.put(POOL, "run", {"seed": 1}, None, None)
    assert (is_new, first.settings.seed, first.run) == (True, 1, "run")
    replaced = await world.row("run")
    second, is_new = await world.runs.put(POOL, "run", {"target": 0.7}, None, None)
    assert (is_new, second.settings.seed, second.settings.target) == (False, 0, 0.7)
    assert (there := await world.row("run")).uid != replaced.uid
    same, is_new = await world.runs.put(POOL, "run", {"target": 0.7}, None, None)
    assert (is_new, same, await world.row("run")) == (False, second, there)
    await world.report(outcome("t1"), run="run")
    same, is_new = await world.runs.put(POOL, "run", {"target": 0.7}, None, None)
    assert (is_new, same.step) == (False, 1)
    for values, fork in (({}, None), ({"target": 0.7}, ForkFrom("default"))):
        with pytest.raises(errors.RunHasHistoryError):
            await world.runs.put(POOL, "run", values, fork, None)
    with pytest.raises(errors.InvalidSettingsError):
        await world.runs.put(POOL, "wrong", {"target": 2}, None, None)


async def test_a_stored_state_of_replaced_settings_is_not_taken_for_the_new_ones(world: World):
    await world.put_run("run", seed=1)
    await world.use.replay.save(await world.row("run"), await world.state("run"))
    replaced = await world.put_run("run", seed=2)
    assert replaced.settings.seed == 2
    assert (await world.beside().state("run")).settings.seed == 2
    assert await world.use.store.snapshots.seqs(await world.row("run")) == []


async def test_what_a_put_came_to_is_kept_even_if_its_sender_was_not_told(world: World):
    await world.report(outcome("t1"))
    puts = [("a", {"seed": 3}, None), ("b", {"seed": 3}, ForkFrom("default", 1)), ("a", {"seed": 4}, None)]
    is_new = (True, True, False, False)
    for number, (name, values, fork) in enumerate([*puts, puts[-1]]):
        once = IdempotencyKey(str(number), "f", "PUT")
        if number == 1:
            meanwhile(world.use.store.runs, "put", away, after=True)
            with pytest.raises(errors.StorageUnavailableError):
                await world.runs.put(POOL, name, values, fork, once)
        else:
            await world.runs.put(POOL, name, values, fork, once)
        kept = await world.use.store.answers.find("PUT", str(number), tuple[Run, bool])
        assert kept is not None
        assert kept.result == (await world.describe(name), is_new[number])
    with pytest.raises(errors.KeyReusedError):
        await world.runs.put(POOL, "a", {"seed": 4}, None, IdempotencyKey("0", "g", "PUT"))


async def test_settings_change_from_the_next_step_on_and_are_journalled(world: World):
    await world.report(outcome("t1"))
    once = IdempotencyKey("key", "f")
    first, again = await world.runs.change_settings(POOL, "default", {"target": 0.25}, once)
    second, repeated = await world.runs.change_settings(POOL, "default", {"target": 0.25}, once)
    assert (again, repeated) == (False, True)
    assert (first.seq, second.seq, second.settings.target) == (2, 2, 0.25)
    with pytest.raises(errors.KeyReusedError):
        await world.runs.change_settings(POOL, "default", {"target": 0.75}, IdempotencyKey("key", "g"))
    for wrong in ({"belief": "bots"}, {"prior": [2, 2]}, {"target": float("nan")}, {"none": 1}):
        with pytest.raises(errors.InvalidSettingsError):
            await world.runs.change_settings(POOL, "default", wrong, None)
    mix = {"even": 1.0, "odd": 2.0}
    changed, _ = await world.runs.change_settings(POOL, "default", {"mix": mix}, None)
    assert (changed.settings.mix, changed.settings.target) == (mix, 0.25)
    wrong_mix = world.runs.change_settings(POOL, "default", {"mix": {"even": 1.0, "none": 2.0}}, None)
    assert await flaws_of(wrong_mix) == [("mix", "none")]
    await world.report(outcome("t1"))
    assert (await world.assert_is_a_replay()).settings.target == 0.25


ONCE = IdempotencyKey("key", "fingerprint", "POST /it")
CHANGES: dict[str, Callable[[World], Awaitable[tuple[Run, bool]]]] = {
    "settings": lambda world: world.runs.change_settings(POOL, "default", {"target": 0.25}, ONCE),
    "rewind": lambda world: world.runs.rewind(POOL, "default", 1, ONCE),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_change_whose_reply_was_lost_is_told_by_its_retry_as_the_run_stands(world: World, change):
    await reports(world, 2)
    meanwhile(world.database, "write", away, after=True)
    with pytest.raises(errors.StorageUnavailableError):
        await change(world)
    retried = await change(world)
    assert retried == (await world.describe(), True)
    assert retried[0].seq == 3
    await world.report(outcome("t1"))
    run, again = await change(world.beside())
    assert (run.seq, again) == (4, True)
    assert (await world.assert_is_a_replay()).seq == 4


# --- describing ------------------------------------------------------------------------------------------------------


async def test_a_deleted_run_is_gone_and_default_is_there_again_empty(world: World):
    meanwhile(world.use.store.runs, "get", lambda: world.put_run("default", seed=9), after=True)
    assert (await world.row()).settings.seed == 9  # a run that is replaced while it is looked up is looked up again
    await world.put_run("run")
    for run in ("run", "default"):
        await world.report(outcome("t1"), run=run)
        await world.select(3, run)
        await world.runs.delete(POOL, run, None)
    with pytest.raises(errors.UnknownRunError):
        await world.report(outcome("t1"), run="run")
    described = await world.describe()
    assert (described.seq, described.leased) == (0, 0)


async def test_rows_of_many_runs_are_kept_within_bounds(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.runs.KEPT_ROWS", 2)
    asked, get = list[str](), world.use.store.runs.get

    async def counted(dataset_id: int, name: str) -> RunRow:
        asked.append(name)
        return await get(dataset_id, name)

    monkeypatch.setattr(world.use.store.runs, "get", counted)
    for name in ("a", "b", "c"):
        await world.put_run(name)
    assert [(await world.row(name)).name for name in ("a", "b", "c")] == ["a", "b", "c"]
    asked.clear()
    for name in ("c", "b", "a"):
        assert (await world.row(name)).name == name
    assert asked == ["a"]  # which was asked for longest ago


# --- stored states ---------------------------------------------------------------------------------------------------


async def test_stored_states_are_those_of_a_replay_and_the_newest_stay(world: World):
    for step in range(123):
        await world.report(outcome(f"t{step % 40}"))
    seqs = await world.use.store.snapshots.seqs(await world.row())
    assert seqs[-NEWEST_SNAPSHOTS:] == [120 - 5 * back for back in reversed(range(NEWEST_SNAPSHOTS))]
    states, _ = await world.replay()
    for seq, blob in world.sql("SELECT seq, blob FROM snapshots"):
        assert encode_state(decode_state(blob)) == encode_state(states[seq])


@pytest.mark.parametrize("every", [1, 10, 500])
def test_thinned_snapshots_are_few_and_a_rewind_folds_about_as_many_entries_as_lie_behind_it(every: int):
    chance = random.Random(every)
    seqs: list[int] = []
    head = 0
    for _ in range(600):
        head += every if chance.random() < 0.9 else chance.randint(1, every)  # rewinds store states in between
        seqs.append(head)
        gone = set(superfluous(seqs))
        seqs = [seq for seq in seqs if seq not in gone]
        kept = [0, *seqs]
        assert len(kept) <= NEWEST_SNAPSHOTS + 2 * np.log2(head / every + 1) + 3
        for before, after in pairwise(kept):
            folded, behind = after - 1 - before, head - (after - 1)
            assert folded <= behind + (NEWEST_SNAPSHOTS + 1) * every


async def test_a_report_of_a_run_that_another_replica_replaced_is_counted_with_the_new_one(world: World):
    other = world.beside()
    await other.opened()  # it remembers the run as it is
    await world.put_run("default", seed=3)
    await other.runs.count_refused_report(POOL, "default", errors.InvalidInputError("it can't be true"))
    refused = (await world.use.overview.one(POOL, "default")).refused
    assert refused is not None
    assert (refused.count, refused.reason) == (1, "it can't be true")
    with pytest.raises(errors.UnknownRunError):
        await other.runs.count_refused_report(POOL, "nobody", errors.InvalidInputError("it can't be true"))


def test_the_reason_is_the_first_flaw_with_its_field_and_never_long():
    flaws = (errors.Flaw(("body", "outcomes", 3, "trials"), "first"), errors.Flaw(("body",), "second"))
    assert reason_of(errors.InvalidInputError("invalid outcomes", flaws)) == "outcomes.3.trials: first"
    assert reason_of(errors.InvalidInputError("alone")) == "alone"
    of_a_task = errors.Flaw(("body", "outcomes", 3), "task 't1': 5 successes of 4 trials")
    assert reason_of(errors.InvalidInputError("invalid outcomes", (of_a_task,))) == of_a_task.what
    assert reason_of(errors.InvalidInputError("whole", (errors.Flaw(("body",), "no object"),))) == "no object"
    for error in (
        errors.InvalidInputError("x" * 999),
        errors.InvalidInputError("y", (errors.Flaw(("body", "z"), "x" * 999),)),
    ):
        assert len(reason_of(error)) == LONGEST_REASON
