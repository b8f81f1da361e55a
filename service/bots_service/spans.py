"""Parts of the work on a request: how long each took, for a histogram, for the request's log line, and for its trace.

The code that serves a request opens a `Work`; each part of the work, in any layer, stands in `with Span(...)`. Outside
a request a span only times. No fact of a span is a key, a body, or a task's id.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from types import TracebackType
from typing import Protocol, Self, TypeVar

Result = TypeVar("Result")
Fact = str | int | float


class TraceSpan(Protocol):
    """A span that was begun."""

    def tell(self, facts: Mapping[str, Fact]) -> None:
        """Put facts on it."""
        ...

    def end(self, error: str | None) -> None:
        """End it, here where it was begun if it is a parent; with the kind of error that ended it, if one did."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def begin(self, name: str, facts: Mapping[str, Fact], *, is_parent: bool) -> TraceSpan:
        """Begin a span below the last parent that was begun here, in this task or thread, and has not ended.

        Args:
            name: what is done.
            facts: its attributes.
            is_parent: whether spans that are begun here until it ends are below it.
        """
        ...


class Observer(Protocol):
    """A histogram."""

    def observe(self, amount: float) -> None:
        """Count one value."""
        ...


class Work:
    """What was done for one request so far.

    tracer: makes its spans; None: it is not traced.
    seconds: of the parts, by name; parts of the same name add up, and a part counts in the one around it, too.
    facts: attributes of the whole request.
    """

    __slots__ = ("facts", "seconds", "tracer")

    def __init__(self, tracer: Tracer | None) -> None:
        self.tracer = tracer
        self.seconds: dict[str, float] = {}
        self.facts: dict[str, Fact] = {}

    def add(self, name: str, seconds: float) -> None:
        """Add to a part."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


_WORK: ContextVar[Work | None] = ContextVar("bots_work", default=None)


@contextmanager
def working(tracer: Tracer | None) -> Iterator[Work]:
    """Let all spans here be parts of one request until the end."""
    token = _WORK.set(work := Work(tracer))
    try:
        yield work
    finally:
        _WORK.reset(token)


def tell_request(facts: Mapping[str, Fact]) -> None:
    """Tell something of the request that is worked on here."""
    work = _WORK.get()
    if work is not None:
        work.facts.update(facts)


class Span:
    """A part of the work, from `with` to its end. Away from a request and with no histogram it does next to nothing."""

    __slots__ = ("_began", "_facts", "_histogram", "_name", "_traced", "_work")

    def __init__(self, name: str, histogram: Observer | None = None, **facts: Fact) -> None:
        """Prepare a part.

        Args:
            name: what is done.
            histogram: observes the duration in seconds.
            facts: attributes of the span.
        """
        self._name = name
        self._histogram = histogram
        self._facts = facts

    def __enter__(self) -> Self:
        self._work = work = _WORK.get()
        self._traced = (
            None if work is None or work.tracer is None else work.tracer.begin(self._name, self._facts, is_parent=True)
        )
        self._began = perf_counter()
        return self

    def tell(self, **facts: Fact) -> None:
        """Tell what is known only now."""
        if self._traced is not None:
            self._traced.tell(facts)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = perf_counter() - self._began
        if self._histogram is not None:
            self._histogram.observe(seconds)
        if self._work is not None:
            self._work.add(self._name, seconds)
        if self._traced is not None:
            self._traced.end(None if kind is None else kind.__name__)


def followed(name: str, future: asyncio.Future[Result]) -> asyncio.Future[Result]:
    """Return the future; until it is done it is a part of the request that asked for it."""
    work = _WORK.get()
    if work is None:
        return future
    traced = None if work.tracer is None else work.tracer.begin(name, {}, is_parent=False)
    began = perf_counter()

    def end(done: asyncio.Future[Result]) -> None:
        work.add(name, perf_counter() - began)
        if traced is not None:
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            traced.end(None if error is None else type(error).__name__)

    future.add_done_callback(end)
    return future
