"""A future that another thread than its event loop's settles."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Promise:
    """Settles a future; what comes second changes nothing."""

    future: asyncio.Future[Any]

    def succeed(self, result: Any) -> None:
        """Let the future return the result."""
        self._tell(self.future.set_result, result)

    def fail(self, error: Exception) -> None:
        """Let the future raise the error."""
        self._tell(self.future.set_exception, error)

    def _tell(self, settle: Callable[[Any], None], value: Any) -> None:
        def tell() -> None:
            if not self.future.done():  # its caller may have stopped waiting
                settle(value)

        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self.future.get_loop().call_soon_threadsafe(tell)
