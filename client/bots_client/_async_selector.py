"""`AsyncSelector`: a `Selector` for trainers that run on asyncio."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, SupportsFloat, TypeVar

from bots_client._errors import RequestError
from bots_client._inputs import wrong_type
from bots_client._models import Receipt, Selection
from bots_client._selector import Selector

T = TypeVar("T")


class AsyncSelector:
    """An asynchronous `Selector` with the same guarantees: calls keep their deadlines, and only mistakes raise.

        async with AsyncSelector(Selector(ResilientClient(), "guru", ids=list(rows))) as selector:
            for _ in range(steps):
                selection = await selector.next(32)
                for id, rewards in zip(selection.ids, await asyncio.gather(*map(roll_out, selection.ids))):
                    selector.observe(id, rewards)
                await selector.step()

    The selector's blocking calls run on one worker thread, in the order of the calls, so that the event loop never
    waits. A call may therefore also wait for the deadlines of earlier calls.

    Every call can be cancelled. A call that has not started never runs. A call that has started is completed: a `step`
    sends its report, and the tasks of a `next` are the first ones that the following `next` returns. Nothing is
    reported twice, lost or left in flight.

    Args:
        selector: the synchronous selector; use it only through this object.
    """

    def __init__(self, selector: Selector) -> None:
        self.selector = _checked(selector)
        self._worker: tuple[int, ThreadPoolExecutor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"selector": self.selector, "_worker": None}

    async def __aenter__(self) -> "AsyncSelector":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Send the waiting reports, within a report's deadline, then close the connections and the thread."""
        await self._call(self.selector.client.close)
        _, executor = self._worker or (0, None)
        self._worker = None
        if executor is not None:
            executor.shutdown(wait=False)

    async def register(self) -> None:
        """Tell the service which tasks the trainer has; see `Selector.register`.

        Raises:
            ValueError: the dataset has none of these tasks.
        """
        await self._call(self.selector.register)

    async def next(
        self,
        count: int | None = None,
        *,
        want_effective: int | None = None,
        key: str | None = None,
    ) -> Selection:
        """Return the tasks to train on next; see `Selector.next`.

        Args:
            count: number of tasks; leave it out with want_effective.
            want_effective: number of effective groups.
            key: Idempotency-Key; after a cancelled call the same key returns the same tasks.
        """

        def ask() -> Selection:
            return self.selector.next(count, want_effective=want_effective, key=key)

        return await self._call(ask, self.selector.give_back if key is None else None)

    def observe(
        self,
        task: str,
        rewards: Iterable[SupportsFloat | None] | SupportsFloat | None,
        *,
        successes: float | None = None,
        effective: bool | None = None,
        tokens: float | None = None,
        seconds: float | None = None,
        group_size: int | None = None,
        selection: Selection | str | None = None,
    ) -> None:
        """Record the rewards of a task's rollouts; see `Selector.observe`."""
        self.selector.observe(
            task,
            rewards,
            successes=successes,
            effective=effective,
            tokens=tokens,
            seconds=seconds,
            group_size=group_size,
            selection=selection,
        )

    async def abort(
        self,
        task: str,
        *,
        tokens: float | None = None,
        seconds: float | None = None,
        selection: Selection | str | None = None,
    ) -> None:
        """Report at once that a task's rollouts did not finish; see `Selector.abort`."""
        await self._call(lambda: self.selector.abort(task, tokens=tokens, seconds=seconds, selection=selection))

    async def step(self) -> Receipt | None:
        """Report the recorded outcomes, and close the training step on rank 0; see `Selector.step`.

        Returns:
            None if nothing was recorded, or the report waits for the service.
        """
        return await self._call(self.selector.step)

    async def close_step(self) -> Receipt | None:
        """Close a training step whose outcomes others reported; see `Selector.close_step`."""
        return await self._call(self.selector.close_step)

    async def state_dict(self, *, step: int | None = None, checkpoint: str | None = None) -> dict[str, Any]:
        """Return the selector's state as JSON values, for the trainer's checkpoint; see `Selector.state_dict`."""
        return await self._call(lambda: self.selector.state_dict(step=step, checkpoint=checkpoint))

    async def load_state_dict(
        self, state: Mapping[str, Any], *, step: int | None = None, checkpoint: str | None = None
    ) -> None:
        """Restore a checkpoint; see `Selector.load_state_dict`.

        Raises:
            ValueError: the state belongs to another dataset or run, or has another format.
        """
        await self._call(lambda: self.selector.load_state_dict(state, step=step, checkpoint=checkpoint))

    def handed_out(self, tasks: Iterable[str]) -> set[str]:
        """Name the tasks that the trainer restores itself; see `Selector.handed_out`."""
        return self.selector.handed_out(tasks)

    def metrics(self) -> dict[str, float]:
        """Return metrics of the last step for W&B or TensorBoard; see `Selector.metrics`."""
        return self.selector.metrics()

    async def _call(self, act: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
        """Run a blocking call on the worker thread and return its result.

        Args:
            act: the blocking call.
            undo: called with the result if the awaiting task was cancelled.
        """
        try:
            job = self._executor().submit(act)
        except RuntimeError:  # too many threads, or the interpreter is shutting down: run it here
            self._worker = None
            return act()
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            job.add_done_callback(lambda done: self._settle(done, undo))
            raise

    def _settle(self, done: "Future[T]", undo: Callable[[T], None] | None) -> None:
        """Undo a call that nobody waits for any more; keep its mistake for the next call."""
        error = None if done.cancelled() else done.exception()
        if isinstance(error, RequestError):
            self.selector._local.mistakes.note(error)
        elif undo is not None and error is None and not done.cancelled():
            undo(done.result())

    def _executor(self) -> ThreadPoolExecutor:
        if self._worker is None or self._worker[0] != os.getpid():  # after a fork the thread exists only in the parent
            self._worker = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="bots-selector")
        return self._worker[1]


def _checked(selector: Any) -> Selector:
    if not isinstance(selector, Selector):
        write = "AsyncSelector(Selector(ResilientClient(), dataset, ids=ids))"
        raise wrong_type("selector", "a Selector", selector, write=write)
    return selector
