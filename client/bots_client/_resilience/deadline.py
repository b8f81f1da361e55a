"""Deadlines for calls that may block anywhere."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from bots_client._errors import DeadlineExceededError

T = TypeVar("T")


def call_within(ask: Callable[[], T], seconds: float, *, asked: str) -> T:
    """Return what `ask` returns, or raise what it raises.

    `ask` runs on its own thread, because some calls can't be interrupted: a lookup of a host name has no timeout, and
    neither has an answer that arrives byte by byte. An abandoned thread ends when its call returns.

    Args:
        ask: the blocking call.
        seconds: how long to wait for it.
        asked: method and path, for the message.

    Raises:
        DeadlineExceededError: the call takes longer.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((ask(), None))
        except BaseException as error:
            answers.put((None, error))

    try:
        threading.Thread(target=run, name="bots-client", daemon=True).start()
    except RuntimeError:  # too many threads, or the interpreter is shutting down: rely on the call's own deadline
        return ask()
    try:
        answer, error = answers.get(timeout=max(seconds, 0.0))
    except queue.Empty:
        raise DeadlineExceededError(f"no full answer to {asked} within {round(seconds, 2):g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # there is one where there is no error
