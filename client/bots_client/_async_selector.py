"""`AsyncSelector`: a `Selector` for trainers that run on asyncio."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from bots_client._errors import RequestError
from bots_client._inputs import checked
from bots_client._models import Selection
from bots_client._selector import Selector

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    call: Callable[Concatenate[Selector, P], T],
) -> Callable[Concatenate["AsyncSelector", P], Coroutine[Any, Any, T]]:
    """Return a method of `Selector` as one that is awaited."""

    @wraps(call)
    async def method(self: "AsyncSelector", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._call(partial(call, self.selector, *args, **kwargs))

    return method


def _at_once(call: Callable[Concatenate[Selector, P], T]) -> Callable[Concatenate["AsyncSelector", P], T]:
    """Return a method of `Selector` that never waits, as it is."""

    @wraps(call)
    def method(self: "AsyncSelector", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return call(self.selector, *args, **kwargs)

    return method


class AsyncSelector:
    """An asynchronous `Selector` with the same guarantees: calls keep their deadlines, and only mistakes raise.

        async with AsyncSelector(Selector(ResilientClient(), "guru", ids=list(rows))) as selector:
            for _ in range(steps):
                selection = await selector.next(32)
                for id, rewards in zip(selection.ids, await asyncio.gather(*map(roll_out, selection.ids))):
                    selector.observe(id, rewards)
                await selector.step()

    Its methods are those of `Selector`: `observe`, `handed_out` and `metrics` return at once, all others are awaited.
    The selector's blocking calls run on one worker thread, in the order of the calls, so that the event loop never
    waits. A call may therefore also wait for the deadlines of earlier calls.

    Every call can be cancelled. A call that has not started never runs. A call that has started is completed: a `step`
    sends its report, and the tasks of a `next` are the first ones that the following `next` returns. Nothing is
    reported twice, lost or left in flight.

    Args:
        selector: the synchronous selector; use it only through this object.
    """

    def __init__(self, selector: Selector) -> None:
        self.selector = checked(selector, Selector, "selector")
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

    async def next(
        self,
        count: int | None = None,
        *,
        want_effective: int | None = None,
        key: str | None = None,
    ) -> Selection:
        """Return the tasks to train on next; after a cancelled call the same key returns the same tasks.

        See `Selector.next`.
        """
        ask = partial(self.selector.next, count, want_effective=want_effective, key=key)
        return await self._call(ask, self.selector.give_back if key is None else None)

    register = _awaited(Selector.register)
    abort = _awaited(Selector.abort)
    step = _awaited(Selector.step)
    close_step = _awaited(Selector.close_step)
    state_dict = _awaited(Selector.state_dict)
    load_state_dict = _awaited(Selector.load_state_dict)
    observe = _at_once(Selector.observe)
    handed_out = _at_once(Selector.handed_out)
    metrics = _at_once(Selector.metrics)

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
