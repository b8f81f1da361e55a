"""Rewinding brings back, bit for bit, the state that stood there; a fork goes its own way from there."""

import asyncio
import random

import numpy as np
import pytest

from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.state import RunState
from bots_service.errors import BusyError, InvalidSettingsError, RunHasHistoryError, StaleEpochError, UnknownStepError
from bots_service.records import IdempotencyKey, RunPut, RunRow
from bots_service.runs import ATTEMPTS, ForkFrom
from tests.core.pools import bots_belief
from tests.sizes import size
from tests.usecases.world import POOL, World, block, evidence_bytes, meanwhile, never, outcome, stream

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
@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_rewinding_to_each_step_of_a_run_brings_back_the_state_that_stood_there(world: World, belief: str):
    states = await many_steps(world, belief)
    for epoch, step in enumerate(range(STEPS, -1, -1), start=1):
        run = await world.rewind(step)
        assert (run.step, run.epoch) == (step, epoch)
        assert evidence_bytes(await world.state()) == evidence_bytes(states[step])
    await world.assert_is_a_replay()


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(size(2, 4)))  # each kind of belief
async def test_nested_and_repeated_rewinds_follow_the_present_history(world: World, seed: int):
    await world.put_run("default", belief=sorted(KINDS)[seed % len(KINDS)])
    chance = random.Random(seed)
    selected: list[str] = []
    present = [await world.state()]  # by step, in the present history
    for _ in range(50):
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
        with pytest.raises(UnknownStepError, match=f"no step {step}"):
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


async def test_a_report_from_before_a_rewind_is_refused_and_changes_nothing(world: World):
    old = await world.select(4)
    await world.report(outcome("t1"))
    await world.rewind(1)
    before = encode_state(await world.state())
    with pytest.raises(StaleEpochError):
        await world.report(outcome("t1"), selection_id=old.id)
    assert encode_state(await world.state()) == before
    new = await world.select(4)
    assert (new.epoch, new.step) == (1, 1)
    assert (await world.report(outcome("t1"), selection_id=new.id)).step == 2


async def test_a_rewind_under_one_key_happens_once(world: World):
    for _ in range(3):
        await world.report(outcome("t1"))
    once = IdempotencyKey("key", "rewind 1")
    answers = [await world.runs.rewind(POOL, "default", 1, once) for _ in range(3)]
    assert [(run.epoch, again) for run, again in answers] == [(1, False), (1, True), (1, True)]
    await world.rewind(0)  # there is no step 1 any more
    assert (await world.runs.rewind(POOL, "default", 1, once))[1]
    assert (await world.state()).epoch == 2


async def test_of_two_processes_that_rewind_under_one_key_at_once_one_does(world: World):
    for _ in range(2):
        await world.report(outcome("t1"))
    once, other = IdempotencyKey("key", "rewind 1"), world.beside()
    meanwhile(other.use.store.history, "closing", lambda: world.runs.rewind(POOL, "default", 1, once))
    run, again = await other.runs.rewind(POOL, "default", 1, once)
    assert (run.epoch, again) == (1, True)


async def test_rewinds_at_once_happen_one_after_the_other(world: World):
    for _ in range(3):
        await world.report(outcome("t1"))
    done = await asyncio.gather(*(world.rewind(step) for step in (2, 1, 1, 2)), return_exceptions=True)
    refused = [isinstance(one, UnknownStepError) for one in done]
    assert refused[1:3] == [False, False]
    assert (await world.assert_is_a_replay()).epoch == refused.count(False)


async def test_a_rewind_that_others_overtake_again_and_again_is_refused_as_busy(world: World):
    for _ in range(3):
        await world.report(outcome("t1"))
    other = world.beside()
    closing = other.use.store.history.closing

    async def overtaken(run: RunRow, step: int) -> int | None:
        await world.rewind(2)
        return await closing(run, step)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(other.use.store.history, "closing", overtaken)
        with pytest.raises(BusyError):
            await other.rewind(1)
    assert (await world.rewind(1)).epoch == ATTEMPTS + 1


async def test_a_rewind_to_a_step_that_another_process_abandons_meanwhile_is_refused(world: World):
    for task in range(3):
        await world.report(outcome(f"t{task}"))
    other = world.beside()
    meanwhile(other.use.store.history, "closing", lambda: world.rewind(1), after=True)
    with pytest.raises(UnknownStepError):
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
        run, put = await world.runs.put(POOL, f"fork-{step}", {}, ForkFrom("default", step), None)
        assert put is RunPut.CREATED
        assert (run.seq, run.epoch, run.step) == (1, 0, wanted.step)
        assert evidence_bytes(await world.state(run.row.name)) == evidence_bytes(wanted)
        assert run.row.parent is not None
        assert (run.row.parent.run, run.row.parent.step, run.row.parent.seq) == ("default", wanted.step, wanted.seq)
    await world.report(outcome("t1"), run="fork-30")
    assert encode_state(await world.state()) == parent_bytes
    assert (await world.state("fork-30")).step == 31
    assert evidence_bytes(await world.state("fork-36")) == evidence_bytes(states[36])


async def test_a_fork_lives_on_when_its_parent_is_deleted(world: World):
    await world.put_run("parent", seed=5, lease_seconds=30.0)
    for step in range(8):
        await world.report(outcome(f"t{step}", step), run="parent")
    child, _ = await world.runs.put(POOL, "child", {"target": 0.7}, ForkFrom("parent", 4), None)
    assert (child.settings.seed, child.settings.lease_seconds, child.settings.target) == (5, 30.0, 0.7)
    begun = encode_state(await world.state("child"))
    await world.runs.delete(POOL, "parent", None)
    again = await world.reopened()
    assert encode_state(await again.state("child")) == begun
    for step in range(4):
        await again.report(outcome(f"t{step}"), run="child")
    await again.assert_is_a_replay("child")
    await again.rewind(4, "child")
    assert evidence_bytes(await again.state("child")) == evidence_bytes(decode_state(begun))
    with pytest.raises(UnknownStepError):
        await again.rewind(3, "child")
    await again.close()


async def test_a_fork_leaves_the_open_steps_evidence_behind(world: World):
    await world.report(outcome("t1"))
    await world.report(outcome("t2"), close_step=False)
    run, _ = await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    assert (run.pending, run.step) == (0, 1)
    assert (await world.state()).open_step.tasks == 1


async def test_forks_of_forks_and_of_empty_runs_start_where_they_should(world: World):
    empty, _ = await world.runs.put(POOL, "a", {}, ForkFrom("default", 0), None)
    assert (empty.step, empty.seq) == (0, 1)
    await world.report(outcome("t1"), run="a")
    await world.runs.put(POOL, "b", {}, ForkFrom("a", 1), None)
    await world.report(outcome("t2"), run="b")
    await world.runs.put(POOL, "c", {}, ForkFrom("b", 1), None)
    assert evidence_bytes(await world.state("c")) == evidence_bytes((await world.replay("a"))[0][-1])
    with pytest.raises(UnknownStepError):
        await world.runs.put(POOL, "d", {}, ForkFrom("b", 0), None)
    with pytest.raises(RunHasHistoryError):
        await world.runs.put(POOL, "c", {}, ForkFrom("b", 1), None)
    for wrong in ({"belief": "bots"}, {"prior": [2, 2]}):
        with pytest.raises(InvalidSettingsError):
            await world.runs.put(POOL, "e", wrong, ForkFrom("b"), None)


async def test_a_forks_profiles_grow_with_the_pool(world: World):
    await world.put_run("default", belief="bots")
    await world.report(outcome("t1"), outcome("t2"))
    await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    grown = block(40, 3)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5], [0.03, 0.6]]
    await world.use.datasets.append(POOL, stream(grown), never)
    await world.report(outcome("t40"), outcome("t3"))
    await world.report(outcome("t40"), outcome("t3"), run="fork")
    assert evidence_bytes(await world.assert_is_a_replay("fork")) == evidence_bytes(await world.assert_is_a_replay())
    assert np.isfinite(bots_belief(await world.state()).implied).all()
