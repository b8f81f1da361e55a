"""The selector on asyncio: the same guarantees, an event loop that never waits, and calls that can be cancelled."""

import asyncio
import contextlib
import inspect
import pickle
import threading

import pytest

from bots_client import AsyncSelector, NotFoundError, Selector
from tests.client.resilience.worlds import IDS, journalled

NOT_ASYNC = {"give_back", "is_shared", "local", "close"}  # `next`, ranks, the selector within, and `aclose` have them


class Gate:
    """Holds up selections on the worker thread, as ranks that wait for one another would."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, ask):
        self.reached.set()
        assert self.open.wait(60)
        return ask()


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
async def selector(connect, service, dataset):
    async with AsyncSelector(Selector(connect(service), dataset, ids=IDS)) as selector:
        yield selector


@pytest.fixture
async def gated(connect, service, dataset, gate):
    async with AsyncSelector(Selector(connect(service), dataset, ids=IDS, share=gate)) as selector:
        yield selector
        gate.open.set()


def described(selector):
    return selector.selector.client.direct.run(selector.selector.dataset)


async def reached(gate):
    await asyncio.to_thread(gate.reached.wait, 60)


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_rollouts_that_run_at_once_are_observed_and_close_steps(selector):
    async def roll_out(task):
        await asyncio.sleep(0.001)
        selector.observe(task, [1, 0])

    receipts = []
    for _ in range(3):
        await asyncio.gather(*map(roll_out, (await selector.next(4)).ids))
        receipts.append(await selector.step())

    assert [(receipt.step, receipt.effective) for receipt in receipts] == [(1, 4), (2, 4), (3, 4)]
    assert selector.metrics()["bots/effective_task_ratio"] == 1


async def test_the_event_loop_goes_on_while_a_selection_waits(gated, gate):
    async def open_gate():
        await reached(gate)
        gate.open.set()

    selection, _ = await asyncio.gather(gated.next(4), open_gate())  # it would wait for ever on the loop's own thread

    assert len(selection.ids) == 4


async def test_calls_run_in_the_order_in_which_they_were_made(selector):
    first = await selector.next(4)
    for task in first.ids:
        selector.observe(task, [1, 0])
    receipt, second, last = await asyncio.gather(selector.step(), selector.next(4), selector.step())
    assert (receipt.step, second.step, last) == (1, 1, None)


async def test_a_mistake_is_raised_even_if_the_call_that_met_it_was_cancelled(connect, service, gate):
    async with AsyncSelector(Selector(connect(service), "no-such-dataset", ids=IDS, share=gate)) as selector:
        lost = asyncio.create_task(selector.next(4))
        await reached(gate)
        await cancelled(lost)
        gate.open.set()
        with pytest.raises(NotFoundError):
            await selector.step()


async def test_what_a_cancelled_selection_chose_is_handed_out_first(gated, gate):
    lost = asyncio.create_task(gated.next(4))
    await reached(gate)
    await cancelled(lost)
    gate.open.set()
    selection = await gated.next(4)
    leased = set(selection.ids)
    for task in selection.ids:
        gated.observe(task, [1, 0])
    await gated.step()
    assert gated.selector.client.health.selects == 2
    assert described(gated).leased == 0  # the four of the cancelled one are these four
    assert len(leased) == 4


async def test_a_selection_that_is_cancelled_before_it_begins_never_happens(gated, gate):
    first = asyncio.create_task(gated.next(4))
    await reached(gate)
    second = asyncio.create_task(gated.next(8))
    await asyncio.sleep(0)
    await cancelled(second)
    gate.open.set()
    assert len((await first).ids) == 4
    assert gated.selector.client.health.selects == 1
    assert described(gated).leased == 4


async def test_a_cancelled_selection_under_a_key_is_asked_for_again_by_its_key(gated, gate):
    lost = asyncio.create_task(gated.next(4, key="step-1"))
    await reached(gate)
    await cancelled(lost)
    gate.open.set()
    again, fresh = await gated.next(4, key="step-1"), await gated.next(4)
    assert described(gated).leased == 8
    assert not set(again.ids) & set(fresh.ids)


@pytest.mark.parametrize("delay_s", [0, 0.001, 0.003, 0.01, 0.03])
async def test_evidence_counts_once_whenever_its_step_is_cancelled(selector, delay_s):
    for task in (await selector.next(4)).ids:
        selector.observe(task, [1, 0])
    step = asyncio.create_task(selector.step())
    await asyncio.sleep(delay_s)
    step.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await step
    await selector.step()
    assert described(selector).totals.reported == 4
    assert journalled(selector.selector.client, selector.selector.dataset) == ["report"]


async def test_a_pickled_one_selects_in_another_process(selector):
    copied = pickle.loads(pickle.dumps(selector))  # noqa: S301 - our own
    assert len((await copied.next(2)).ids) == 2
    await copied.aclose()


def test_it_offers_what_a_selector_does():
    def methods(kind):
        return {name for name in vars(kind) if not name.startswith("_")}

    assert methods(AsyncSelector) - {"aclose"} == methods(Selector) - NOT_ASYNC
    for name in methods(Selector) - NOT_ASYNC:
        one, other = (inspect.signature(getattr(kind, name)) for kind in (Selector, AsyncSelector))
        assert one == other, name
