"""Comparisons of a run's belief with others: of which entries, what is kept, and what happens when something ends."""

import asyncio
import io
import signal
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import psutil
import pytest

from bots_service.core.codec import encode_state
from bots_service.core.comparison.candidates import Candidate, candidates_for, view
from bots_service.core.comparison.messages import pack_entry, pack_pool, unpack_progress
from bots_service.core.comparison.paired import weighted_mean
from bots_service.core.entries import Entry, Report
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.state import advance, fresh_state
from bots_service.engine.comparing import ENTRIES_AT_ONCE, ComparisonProgress
from bots_service.engine.comparing_child import SAID_EVERY, blocks, compute, framed
from bots_service.errors import DamagedStateError, OverloadedError, StorageUnavailableError
from bots_service.ports.records import RunRow
from bots_service.usecases.begin_run import ForkFrom
from bots_service.usecases.report_outcomes import Outcome
from tests.usecases.ports import Port
from tests.usecases.world import POOL, TASKS, World, block, never, outcome, stream

LONG_S = 60.0  # more than any of these comparisons takes
EVERY = 5000


@pytest.fixture
async def world(world: World) -> AsyncIterator[World]:
    """A service that ends a comparison under way when the test ends."""
    async with world.use.compare_beliefs.in_background():
        yield world


async def compare(world: World, run: str = "default", **options: Any) -> ComparisonProgress:
    wanted = {"steps": EVERY, "seq": None, "wait_s": LONG_S, **options}
    return await world.use.compare_beliefs(POOL, run, **wanted)


def outcomes(step: int, tasks: int = TASKS) -> list[Outcome]:
    rng = np.random.default_rng(step)
    chosen = rng.choice(tasks, 6, replace=False).tolist()
    return [outcome(f"t{task}", float(rng.binomial(8, 0.2 + 0.6 * task / tasks)), 8.0) for task in chosen]


async def replayed_under(world: World, candidate: Candidate, undone: range = range(0)) -> list[Receipt]:
    """Return the receipts of a run that had the candidate's belief all along, read past the service."""
    pool: Pool = (await world.beside().opened()).dataset.pool
    seen, receipts = view(pool, candidate), []
    state = fresh_state(candidate.settings, seen.pool)
    for entry in await world.parts.journal.after(await world.row(), 0):
        if isinstance(entry.body, Report) and entry.seq not in undone:
            profiles = seen.profiles(entry.profiles)
            state, receipt = advance(state, Entry(state.seq + 1, 0, profiles, entry.body), seen.pool)
            receipts.append(receipt)
    return [receipt for receipt in receipts if receipt.closed and receipt.log_loss is not None]


def mean_log_loss(receipts: list[Receipt]) -> float:
    losses = np.array([receipt.log_loss for receipt in receipts])
    return weighted_mean(losses, np.array([receipt.tally.rollouts for receipt in receipts]))


UNDONE = range(7, 11)  # entries that `train` rewinds over


async def train(world: World) -> None:
    """Report to BOTS partly, late and after more tasks came; change settings; rewind."""
    await world.put_run("default", belief="bots")
    for step in range(3):
        await world.report(*outcomes(step))
    await world.use.change_settings(POOL, "default", {"forgetting": 0.3}, None)
    await world.report(*outcomes(3), close_step=False)
    await world.report(*outcomes(4), close_step=True)
    for step in range(5, 5 + len(UNDONE)):
        await world.report(*outcomes(step))
    await world.rewind(4)
    late = await world.select(2)
    await world.report(*outcomes(9))
    await world.use.append_tasks(POOL, stream(block(TASKS, 10)), never)
    ids = (await world.opened()).dataset.ids.take(late.tasks)
    await world.report(*map(outcome, ids), selection_id=late.id)
    for step in range(10, 13):
        await world.report(*outcomes(step, TASKS + 10))


async def test_each_candidate_s_errors_are_those_of_a_full_replay(world: World):
    await train(world)
    found = await compare(world)
    assert found.result is not None
    scores = found.result.comparison.scores
    own = [one.receipt for one in await world.use.read_history(POOL, "default", 0, 100)]
    assert scores[0].log_loss == pytest.approx(mean_log_loss(own), rel=1e-12)
    candidates = candidates_for((await world.row()).settings, (await world.opened()).dataset.pool)
    assert [each.candidate for each in scores] == list(candidates)
    for each in scores[1:]:
        expected = mean_log_loss(await replayed_under(world, each.candidate, UNDONE))
        assert each.log_loss == pytest.approx(expected, rel=1e-12)
    assert (found.result.begins_after, found.result.restarted) == (0, False)
    assert found.result.comparison.steps == len(own)
    assert found.folded == found.entries == found.seq - len(UNDONE)


async def test_a_fork_is_compared_from_where_it_began(world: World):
    await world.put_run("default", belief="bots")
    for step in range(4):
        await world.report(*outcomes(step))
    await world.use.put_run(POOL, "forked", {}, ForkFrom("default", 3), None)
    for step in range(4, 7):
        await world.report(*outcomes(step), run="forked")
        await world.report(*outcomes(step), run="default")
    found = await compare(world, "forked")
    assert found.result is not None
    comparison = found.result.comparison
    assert (found.result.begins_after, comparison.first_step, comparison.last_step) == (3, 4, 6)
    assert found.result.restarted
    last = await compare(world, steps=4)  # steps 4 to 7
    assert last.result is not None
    assert (last.result.begins_after, last.result.comparison.first_step) == (3, 4)
    # Before its first step every task is at the prior again: its log loss is ln 2.
    one = await compare(world, steps=1)
    assert one.result is not None
    assert one.result.comparison.scores[0].log_loss == pytest.approx(np.log(2))


async def test_a_comparison_is_kept_until_the_run_goes_on(world: World):
    await world.report(*outcomes(0))
    first = await compare(world)
    assert await compare(world) == replace(first, folded=1, entries=1)
    await world.report(*outcomes(1))
    assert (await compare(world, seq=first.seq)).result == first.result
    assert (await compare(world)).seq == first.seq + 1
    assert (await compare(world, seq=77)).seq == first.seq + 1  # no such comparison is known: the newest is as good


async def test_who_does_not_wait_gets_the_same_comparison_later(world: World):
    await world.report(*outcomes(0))
    begun = await compare(world, wait_s=0.0)
    assert (begun.seq, begun.folded, begun.result) == (1, 0, None)
    await world.report(*outcomes(1))
    found = await compare(world, seq=begun.seq)
    assert (found.seq, found.entries) == (1, 1)
    assert found.result is not None


async def test_all_who_ask_at_once_share_one_comparison(world: World):
    await world.report(*outcomes(0))
    first, *others = await asyncio.gather(*(compare(world) for _ in range(3)))
    assert first.result is not None
    assert all(other.result is first.result for other in others)


class Gate(Port):
    """A journal that gives a comparison no entries until the gate is open, so that it can't end before."""

    def __init__(self, real: Any, gate: asyncio.Event) -> None:
        super().__init__(real)
        self.gate = gate

    async def after(self, run: RunRow, seq: int, up_to: int | None, limit: int) -> list[Entry]:
        if limit == ENTRIES_AT_ONCE:
            await self.gate.wait()
        return await self.real.after(run, seq, up_to, limit)


async def test_another_comparison_waits_for_its_turn(world: World):
    gate = asyncio.Event()
    slow = world.beside(journal=lambda real: Gate(real, gate))
    await slow.report(*outcomes(0))
    await slow.put_run("other")
    await slow.report(*outcomes(0), run="other")
    await compare(slow, wait_s=0.0)
    assert await compare(slow, "other", wait_s=0.0) == ComparisonProgress(1, 0, 0)
    waiting = asyncio.create_task(compare(slow, "other"))
    gate.set()
    assert (await compare(slow)).result is not None
    await waiting
    assert (await compare(slow, "other")).result is not None


async def test_a_process_computes_one_comparison_at_a_time(world: World):
    slow = world.beside(journal=lambda real: Gate(real, asyncio.Event()))
    await slow.report(*outcomes(0))
    async with slow.use.compare_beliefs.in_background():
        await compare(slow, wait_s=0.0)
        with pytest.raises(ValueError, match="one comparison at a time"):
            slow.parts.comparing.begin(await slow.opened(), await slow.state(), 7)
    await slow.parts.comparing.wait_for_turn(LONG_S)  # nothing to wait for


async def child_of_this_process() -> psutil.Process:
    while True:
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                if any("comparing_child" in word for word in child.cmdline()):
                    return child
        await asyncio.sleep(0.01)


async def test_a_comparison_whose_process_is_killed_can_be_asked_for_again(world: World):
    gate = asyncio.Event()
    slow = world.beside(journal=lambda real: Gate(real, gate))
    await slow.report(*outcomes(0))
    asked = asyncio.create_task(compare(slow))
    (await child_of_this_process()).kill()
    with pytest.raises(OverloadedError, match=f"ended with status {-signal.SIGKILL}"):
        await asked
    gate.set()
    assert (await compare(slow)).result is not None


async def test_a_comparison_that_can_not_read_the_journal_says_so(world: World):
    await world.report(*outcomes(0))

    class Unreadable(Port):
        async def after(self, run: RunRow, seq: int, up_to: int | None, limit: int) -> list[Entry]:
            if limit == ENTRIES_AT_ONCE:
                raise StorageUnavailableError("the database did not answer")
            return await self.real.after(run, seq, up_to, limit)

    with pytest.raises(StorageUnavailableError):
        await compare(world.beside(journal=Unreadable))


async def test_a_gap_in_the_journal_is_said(world: World):
    for step in range(3):
        await world.report(*outcomes(step))
    other = world.beside()
    await other.state()
    world.sql("DELETE FROM journal WHERE seq = 2")
    with pytest.raises(DamagedStateError, match="has a gap after entry 0"):
        await compare(other)


async def test_a_pruned_journal_is_compared_from_the_stored_state_on(world: World):
    for step in range(23):
        await world.report(*outcomes(step))
    later = time.time() + 100 * 24 * 3600.0
    await replace(world.use.prune, keep_days=30.0, clock=lambda: later)()
    found = await compare(world)
    assert found.result is not None
    comparison = found.result.comparison
    assert (found.result.begins_after, comparison.first_step, comparison.last_step) == (15, 16, 23)


async def test_the_end_of_the_service_ends_a_comparison(world: World):
    slow = world.beside(journal=lambda real: Gate(real, asyncio.Event()))
    await slow.report(*outcomes(0))
    async with slow.use.compare_beliefs.in_background():
        asked = asyncio.create_task(compare(slow))
        child = await child_of_this_process()
    assert not child.is_running()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_a_long_comparison_tells_how_far_it_is(world: World):
    for step in range(2 * SAID_EVERY + 5):
        await world.report(*outcomes(step))
    begun = await compare(world, wait_s=0.0)
    seen = [begun.folded]
    while (found := await compare(world, seq=begun.seq, wait_s=0.001)).result is None:
        seen.append(found.folded)
    assert seen == sorted(seen)
    assert set(seen) <= {0, SAID_EVERY, 2 * SAID_EVERY, begun.seq}
    assert found.folded == found.entries == begun.seq


async def blocks_of(world: World, last: bytes) -> bytes:
    """Return what a child is sent: the pool, the first state, all entries, and one more block."""
    opened = await world.opened()
    start = fresh_state(opened.row.settings, opened.dataset.pool)
    entries = await world.parts.journal.after(opened.row, 0)
    blocks = [pack_pool(opened.dataset.pool), encode_state(start), *map(pack_entry, entries)]
    return b"".join(map(framed, blocks)) + last


async def test_the_child_says_how_far_it_is_and_then_the_scores(world: World):
    for step in range(SAID_EVERY + 1):
        await world.report(*outcomes(step))
    sink = io.BytesIO()
    compute(io.BytesIO(await blocks_of(world, framed(b""))), sink)
    first, last = (unpack_progress(block) for block in blocks(io.BytesIO(sink.getvalue() + framed(b""))))
    assert (first.folded, first.scores) == (SAID_EVERY, None)
    assert last.folded == SAID_EVERY + 1
    own = [one.receipt.log_loss for one in await world.use.read_history(POOL, "default", 0, 100)]
    assert last.scores is not None
    assert last.scores.log_loss[:, 0].tolist() == own


@pytest.mark.parametrize("last", [b"", framed(b"abc")[:-1]], ids=["between blocks", "within a block"])
async def test_a_child_ends_when_the_service_does(world: World, last: bytes):
    await world.report(*outcomes(0))
    with pytest.raises(EOFError):
        compute(io.BytesIO(await blocks_of(world, last)), io.BytesIO())


async def test_an_empty_run_has_nothing_to_compare(world: World):
    found = await compare(world)
    assert found.result is not None
    assert (found.seq, found.entries, found.result.comparison.steps) == (0, 0, 0)
