"""Compares beliefs on a run's own journal, in a child process: one comparison at a time, the newest results kept."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field

import structlog

from bots_service.core.codec import encode_state
from bots_service.core.comparison.candidates import candidates_for
from bots_service.core.comparison.messages import pack_entry, pack_pool, unpack_progress
from bots_service.core.comparison.refold import Scores, restarted
from bots_service.core.comparison.verdict import Comparison, compared
from bots_service.core.entries import Entry
from bots_service.core.pool import Pool
from bots_service.core.state import RunState, fresh_state
from bots_service.engine.background import ended
from bots_service.engine.comparing_child import LENGTH, framed
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.engine.replay import Replay
from bots_service.errors import OverloadedError
from bots_service.ports.journal import Journal

log = structlog.get_logger(__name__)

KEPT = 32  # results, about 10 KB each
ENTRIES_AT_ONCE = 100  # read and sent: packing so many takes about 3 ms of the event loop
AGAIN_S = 5.0  # after which it is worth asking for another comparison
# One core for a child: numpy's matrix products would otherwise use all.
CHILD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """A comparison, and what it is of.

    seq: the last entry of the journal that is in it.
    begins_after: the step after which it begins; 0 for the run's first.
    restarted: whether the run knew something there, which no belief of the comparison does, its own neither.
    comparison: the result.
    """

    seq: int
    begins_after: int
    restarted: bool
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class ComparisonProgress:
    """How far a comparison is. entries: to fold, 0 while that is not known; result: None before the end."""

    seq: int
    folded: int
    entries: int
    result: ComparisonResult | None = None


@dataclass(eq=False)
class _Job:
    """A comparison under way."""

    uid: str
    steps: int
    seq: int
    folded: int = 0
    entries: int = 0
    task: asyncio.Task[ComparisonResult] = field(init=False)


@dataclass(frozen=True, slots=True)
class _Course:
    """The entries of a run's present history that a comparison folds.

    start: the state before them.
    parts: of the journal, in order, each as the seq before its first entry and that of its last; every part but the
        first begins with a rewind, back to the end of the part before.
    """

    start: RunState
    parts: list[tuple[int, int]]

    @property
    def entries(self) -> int:
        return sum(last - before for before, last in self.parts)


class Comparing:
    """Computes comparisons for one process. At the end of `in_background`, one under way is stopped."""

    def __init__(self, journal: Journal, replay: Replay, open_runs: OpenRuns) -> None:
        self._journal = journal
        self._replay = replay
        self._open_runs = open_runs
        self._kept: dict[tuple[str, int, int], ComparisonResult] = {}
        self._job: _Job | None = None

    def known(self, run: OpenRun, seq: int, steps: int) -> ComparisonProgress | None:
        """Return the comparison up to entry `seq` over the last `steps` steps, if it is kept."""
        result = self._kept.get((run.row.uid, seq, steps))
        return None if result is None else ComparisonProgress(seq, 1, 1, result)

    @property
    def is_busy(self) -> bool:
        """Whether a comparison is under way."""
        return self._job is not None

    def is_at(self, run: OpenRun, steps: int) -> bool:
        """Return whether a comparison of this run over so many steps is under way."""
        return self._job is not None and (self._job.uid, self._job.steps) == (run.row.uid, steps)

    def begin(self, run: OpenRun, state: RunState, steps: int) -> None:
        """Begin a comparison; it continues when its caller leaves.

        Args:
            run: the run.
            state: its newest one, with the receipts before it stored.
            steps: the last so many, at most.

        Raises:
            ValueError: another one is under way.
        """
        if self._job is not None:
            raise ValueError("a process computes one comparison at a time")
        self._job = job = _Job(run.row.uid, steps, state.seq)
        # Not the request's context: it outlives the request.
        job.task = asyncio.create_task(self._computed(job, run, state), context=Context())
        job.task.add_done_callback(self._done)

    async def wait(self, wait_s: float) -> ComparisonProgress:
        """Return how far the comparison under way is: at its end, or after `wait_s` seconds.

        Raises:
            OverloadedError: the process that computed it ended.
            StorageUnavailableError: the journal could not be read.
        """
        job = self._job
        assert job is not None  # noqa: S101 - for mypy: `is_busy` came before
        await asyncio.wait({job.task}, timeout=wait_s)
        if not job.task.done():
            return ComparisonProgress(job.seq, job.folded, job.entries)
        result = job.task.result()
        return ComparisonProgress(result.seq, job.entries, job.entries, result)

    async def wait_for_turn(self, wait_s: float) -> None:
        """Wait for the end of the comparison under way, however it ends, for `wait_s` seconds at most."""
        if self._job is not None:
            await asyncio.wait({self._job.task}, timeout=wait_s)

    def _done(self, task: asyncio.Task[ComparisonResult]) -> None:
        job, self._job = self._job, None
        if task.cancelled() or job is None:
            return
        if (error := task.exception()) is not None:
            log.warning("comparison_failed", reason=repr(error))
            return
        newest = (job.uid, job.seq, job.steps), task.result()
        self._kept = dict([*self._kept.items(), newest][-KEPT:])

    @asynccontextmanager
    async def in_background(self) -> AsyncIterator[None]:
        """Stop the comparison that is under way at the end."""
        try:
            yield
        finally:
            if self._job is not None:
                await ended([self._job.task])

    async def _computed(self, job: _Job, run: OpenRun, state: RunState) -> ComparisonResult:
        run = await self._open_runs.matching(run, state)
        pool = run.dataset.pool
        course = await self._course(run, await self._begin(run, state, job.steps), state.seq)
        job.entries = course.entries
        async with _child() as child:
            sending = asyncio.create_task(self._send(child, run, pool, course))
            receiving = asyncio.create_task(_received(child, job))
            try:
                _, scores = await asyncio.gather(sending, receiving)
            finally:
                await ended([sending, receiving])
        comparison = await asyncio.to_thread(compared, candidates_for(course.start.settings, pool), scores)
        return ComparisonResult(state.seq, course.start.step, course.start.seq > 0, comparison)

    async def _begin(self, run: OpenRun, state: RunState, steps: int) -> int:
        """Return the seq after which the comparison begins: 0, or that of a stored state or a closed step."""
        begin = max(await self._journal.begins(run.row), 0 if run.row.parent is None else 1)
        if state.step - run.row.origin_step > steps:
            begin = max(begin, await self._journal.closing(run.row, state.step - steps) or 0)
        return begin

    async def _course(self, run: OpenRun, begin: int, seq: int) -> _Course:
        """Return the course from entry `begin` to entry `seq`, without entries that a rewind undid."""
        # No rewind leads to before `begin`: the step that closed there is in the present history.
        parts = await self._replay.course(run, begin, seq)
        pool = run.dataset.pool
        if begin == 0:
            return _Course(fresh_state(run.row.settings, pool), parts)
        return _Course(restarted(await self._replay.state_at(run, begin), pool), parts)

    async def _send(self, child: Process, run: OpenRun, pool: Pool, course: _Course) -> None:
        """Send all that the child needs; a child that ended is no error here."""
        assert child.stdin is not None  # noqa: S101 - for mypy: it is a pipe
        with suppress(BrokenPipeError, ConnectionResetError):
            child.stdin.write(framed(pack_pool(pool)) + framed(encode_state(course.start)))
            async for entries in self._pages(run, course):
                child.stdin.write(b"".join(framed(pack_entry(entry)) for entry in entries))
                await child.stdin.drain()
            child.stdin.write(framed(b""))
            await child.stdin.drain()

    async def _pages(self, run: OpenRun, course: _Course) -> AsyncIterator[list[Entry]]:
        for before, last in course.parts:
            for seq in range(before, last, ENTRIES_AT_ONCE):
                up_to = min(seq + ENTRIES_AT_ONCE, last)
                entries = await self._journal.after(run.row, seq, up_to, ENTRIES_AT_ONCE)
                if [entry.seq for entry in entries] != list(range(seq + 1, up_to + 1)):
                    raise await self._replay.missing_entry(run, seq + 1, f"has a gap after entry {seq}")
                yield entries


@asynccontextmanager
async def _child() -> AsyncIterator[Process]:
    """Start the process that computes, and see to its end."""
    module = "bots_service.engine.comparing_child"
    environment = {**os.environ, **CHILD}
    # In a session of its own: Ctrl-C is for the service, which ends its child.
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
    )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def _received(child: Process, job: _Job) -> Scores:
    """Return the scores, and note meanwhile how far the child is.

    Raises:
        OverloadedError: the child ended before.
    """
    assert child.stdout is not None  # noqa: S101 - for mypy: it is a pipe
    try:
        while True:
            (size,) = LENGTH.unpack(await child.stdout.readexactly(LENGTH.size))
            progress = unpack_progress(await child.stdout.readexactly(size))
            job.folded = progress.folded
            if progress.scores is not None:
                return progress.scores
    except asyncio.IncompleteReadError as error:
        code = await child.wait()
        said = f"the process that compared the beliefs ended with status {code}; ask again, or for fewer steps"
        raise OverloadedError(said, retry_after_s=AGAIN_S) from error
