"""An event loop whose time passes at once: no clock, no sockets, no threads. A seed gives the same run each time."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

THREAD_S = 0.001  # work that would go to a thread takes this long


class DeadlockError(Exception):
    """Everybody waits, and nothing will ever happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Jumps to the next moment at which something happens."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.owned_by: Callable[[contextvars.Context], dict[asyncio.Task[Any], None] | None] = lambda _: None
        self._selector = self
        self.set_task_factory(self._owned_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None) -> list[Any]:
        """Stand in for the selector: nothing comes from outside, so only time passes."""
        if timeout is None:
            raise DeadlockError("everybody waits")
        self.now += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Do the work a little later, in this thread."""
        future = self.create_future()

        def work() -> None:
            if not future.cancelled():
                try:
                    future.set_result(func(*args))
                except Exception as error:  # noqa: BLE001,RUF100 - it is the waiting one's to handle
                    future.set_exception(error)

        self.call_later(THREAD_S, work)
        return future

    def _owned_task(
        self, _: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        """Make a task that its owner knows of: when a process dies, all of its tasks do."""
        context = context or contextvars.copy_context()
        task = asyncio.Task(work, loop=self, context=context)
        owner = self.owned_by(context)
        if owner is not None:
            owner[task] = None  # a dict keeps their order, a set would not
            task.add_done_callback(lambda done: owner.pop(done, None))
        return task
