"""Giving up in time, whatever a call is stuck in."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from bots_client._errors import DeadlineExceededError

T = TypeVar("T")


def call_within(ask: Callable[[], T], seconds: float, *, asked: str) -> T:
    """Return what `ask` returns, or raise what it raises.

    It runs on a thread of its own, as not everything that blocks can be told to stop: looking up a host name knows no
    timeout, nor does an answer that arrives drop by drop. A thread given up ends with what it is stuck in.

    Args:
        ask: what to do.
        seconds: how long to wait for it.
        asked: method and path, for the message.

    Raises:
        DeadlineExceededError: it takes longer.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((ask(), None))
        except BaseException as error:
            answers.put((None, error))

    try:
        threading.Thread(target=run, name="bots-client", daemon=True).start()
    except RuntimeError:  # too many threads, or the interpreter is ending: then the call's own deadline has to do
        return ask()
    try:
        answer, error = answers.get(timeout=max(seconds, 0.0))
    except queue.Empty:
        raise DeadlineExceededError(f"no full answer to {asked} within {seconds:.3g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # there is one where there is no error
