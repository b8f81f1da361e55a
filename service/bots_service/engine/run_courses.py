"""What this process knows of the runs' courses: each is read once, and then only what its journal got since.

A run's head and epoch in SQL say whether its course is still the one that is known here, whichever replica moved it.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from time import monotonic

import structlog

from bots_service.core.run_settings import StrategyName
from bots_service.core.summary.course import RunCourse, StepSums
from bots_service.core.summary.gain import Gain, StepRange
from bots_service.core.summary.verdict import RunFindings, RunProgress, RunVerdict, verdict_on
from bots_service.engine.live_runs import LiveRuns
from bots_service.errors import BotsError
from bots_service.ports.courses import NO_NOTES, CoursePart, Courses, RunHead, RunNotes, SeqRange, WantedCourse
from bots_service.ports.records import RunRow

log = structlog.get_logger(__name__)

ENTRIES_AT_ONCE = 20_000  # of all runs together: some 50 ms, and a few MB
RUNS_AT_ONCE = 512
SETTLES_S = 15.0  # after a step: its receipt and its outlook are stored by then, whichever replica makes them


@dataclass(frozen=True, slots=True)
class CourseUpTo:
    """A run's course and strategy after entry `seq`."""

    seq: int
    course: RunCourse
    strategy: StrategyName

    def continued(self, up_to: int, part: CoursePart) -> "CourseUpTo":
        """Return the course after later entries."""
        course = self.course.continued(part.steps, part.estimates)
        return CourseUpTo(up_to, course, part.changed.get("strategy", self.strategy))


NO_FINDINGS = RunFindings()  # of a run whose journal is empty
SumsKey = tuple[int, str, int, StepRange]  # a run's id, uid and epoch, and some of the steps that it closed


@dataclass(frozen=True, slots=True)
class KnownCourse:
    """What is known of a run.

    head: where it stood when this was read.
    row: the run; its head and epoch may be older.
    present: the entries of its present history.
    newest: all that is stored of its course.
    whole: its course up to the first entry that has no receipt yet; with all receipts the same as `newest`.
    since: when the run was first seen at this head, in seconds that only grow.
    notes: what is stored of the run besides its journal.
    gain: over uniform sampling; None for a run that samples uniformly.
    compared: sums that its gain needs and no course has; they stay as they are, for closed steps never change.
    """

    head: RunHead
    row: RunRow
    present: tuple[SeqRange, ...]
    newest: CourseUpTo
    whole: CourseUpTo
    since: float
    notes: RunNotes = NO_NOTES
    gain: Gain | None = None
    compared: dict[SumsKey, StepSums] = field(default_factory=dict)
    _verdict: list[RunVerdict | None] = field(init=False, default_factory=list, compare=False, repr=False)

    @property
    def step(self) -> int:
        """How many steps it has closed, those before a fork included."""
        return self.row.origin_step + self.newest.course.steps

    @property
    def steps(self) -> StepRange:
        """The steps that it has closed itself."""
        return StepRange(self.row.origin_step + 1, self.step)

    @property
    def findings(self) -> RunFindings | None:
        """What its journal says against it, by its last judgement; None where there is none since the last rewind."""
        if self.head.head == 0:
            return NO_FINDINGS
        judgement = self.notes.judgement
        return None if judgement is None or judgement.epoch != self.head.epoch else judgement.findings

    @property
    def is_judged(self) -> bool:
        """Whether its last judgement is still right. An empty journal needs none."""
        judgement = self.notes.judgement
        return self.head.head == 0 or (judgement is not None and judgement.is_of(self.head))

    @property
    def is_whole(self) -> bool:
        """Whether all receipts up to its head are stored."""
        return self.whole.seq == self.head.head

    def verdict(self, stalled_s: float | None) -> RunVerdict | None:
        """Return what to think of it, None if it was not judged yet. Worked out once, unless it is stalled.

        Args:
            stalled_s: seconds since its last step, if its status is stalled; otherwise None.
        """
        if stalled_s is not None:
            return verdict_on(self._progress(stalled_s), self.findings)
        if not self._verdict:
            self._verdict.append(verdict_on(self._progress(None), self.findings))
        return self._verdict[0]

    def _progress(self, stalled_s: float | None) -> RunProgress:
        course, refused = self.newest.course, self.notes.refused
        is_refused_still = refused is not None and refused.seq == self.head.head  # nothing was accepted since
        return RunProgress(
            steps=course.steps,
            stalled_s=stalled_s,
            usual_gap_s=course.usual_gap_s,
            recent=course.recent,
            uniform=None if self.gain is None else self.gain.uniform_effective_task_ratio,
            refused=refused if is_refused_still else None,
        )

    def wanted(self, entries: int) -> tuple[int, WantedCourse]:
        """Return what to read next, at most so many entries, and up to which entry that is."""
        after = self.newest.seq
        up_to = min(self.head.head, after + entries)
        # An outlook may have been made before the first entry.
        first, *others = self.present
        looks = (SeqRange(-1 if first.after == 0 else first.after, first.last), *others)
        settled = self.newest.course.settled
        return up_to, WantedCourse(self.head.run_id, common(self.present, after, up_to), common(looks, settled, up_to))

    def grown(self, up_to: int, wanted: WantedCourse, part: CoursePart) -> "KnownCourse":
        """Return what is known after another part was read."""
        newest = self.newest.continued(up_to, part)
        has_all = part.receipts == sum(entries.last - entries.after for entries in wanted.entries)
        is_whole = has_all and self.whole.seq == self.newest.seq
        return replace(self, newest=newest, whole=newest if is_whole else self.whole)


def common(entries: Iterable[SeqRange], after: int, up_to: int) -> tuple[SeqRange, ...]:
    """Return those of the entries that come after one entry, up to another."""
    cut = (SeqRange(max(one.after, after), min(one.last, up_to)) for one in entries)
    return tuple(one for one in cut if one.after < one.last)


class RunCourses:
    """A cache of courses, by run. It grows by some 6 KB a run that was asked for; deleted runs leave it."""

    def __init__(
        self,
        courses: Courses,
        live: LiveRuns,
        repair: Callable[[str, str], Awaitable[object]],
        compare: Callable[[list[KnownCourse]], Awaitable[list[KnownCourse]]],
        *,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Know nothing yet.

        Args:
            courses: the store.
            live: the runs at work here, whose receipts are waited for.
            repair: stores the receipts of a run, by the names of its dataset and its own, that a crash left out.
            compare: gives the runs of a dataset their gains.
            clock: seconds that only grow.
            now: seconds since 1970, UTC.
        """
        self._courses, self._live, self._repair, self._compare = courses, live, repair, compare
        self._clock, self._now = clock, now
        self._known: dict[int, KnownCourse] = {}
        self._changed: set[str] = set()  # datasets whose runs are to be compared again
        self._reading = asyncio.Lock()  # one reads for all that wait

    async def of(self, dataset: str) -> list[KnownCourse]:
        """Return the runs of a dataset; none if it does not exist."""
        async with self._reading:
            heads = await self._courses.heads(dataset)
            known = {run_id for run_id, known in self._known.items() if known.head.dataset == dataset}
            self._forget(known.difference(head.run_id for head in heads))
            return await self._up_to_date(heads)

    async def all(self, reaches: Callable[[str], bool]) -> list[KnownCourse]:
        """Return the runs of the datasets that the caller reaches."""
        async with self._reading:
            heads = await self._courses.heads()
            self._forget(self._known.keys() - {head.run_id for head in heads})
            reached = {name: reaches(name) for name in {head.dataset for head in heads}}
            self._changed &= reached.keys()
            return await self._up_to_date([head for head in heads if reached[head.dataset]])

    def _forget(self, gone: set[int]) -> None:
        for run_id in gone:
            self._changed.add(self._known.pop(run_id).head.dataset)

    async def _up_to_date(self, heads: list[RunHead]) -> list[KnownCourse]:
        """Return what is known of runs at these heads, which are all of their datasets."""
        outdated = [head for head in heads if self._is_outdated(head)]
        self._changed.update(head.dataset for head in outdated)
        await self._live.settled(head.run_id for head in outdated)
        await self._read(outdated)
        await self._read_notes(outdated)
        await self._repair_one(outdated)
        here = [head for head in heads if head.run_id in self._known]  # others were deleted meanwhile
        changed = defaultdict(list)
        for head in here:
            if head.dataset in self._changed:
                changed[head.dataset].append(self._known[head.run_id])
        for dataset, runs in changed.items():
            self._known |= {known.head.run_id: known for known in await self._compare(runs)}
            self._changed.discard(dataset)
        return [self._known[head.run_id] for head in here]

    def _is_outdated(self, head: RunHead) -> bool:
        known = self._known.get(head.run_id)
        if known is None or known.head != head or known.whole.seq < head.head:
            return True
        closed_at = known.newest.course.last_step_at
        is_recent = self._clock() - known.since < SETTLES_S
        return is_recent and closed_at is not None and self._now() - closed_at < SETTLES_S

    async def _read(self, heads: list[RunHead]) -> None:
        waiting = deque(await self._begun(heads))
        while waiting:
            batch, entries = list[tuple[KnownCourse, int, WantedCourse]](), 0
            while waiting and len(batch) < RUNS_AT_ONCE and entries < ENTRIES_AT_ONCE:
                known = waiting.popleft()
                up_to, wanted = known.wanted(ENTRIES_AT_ONCE - entries)
                batch.append((known, up_to, wanted))
                entries += up_to - known.newest.seq
            parts = await self._courses.read([wanted for _, _, wanted in batch])
            for known in await asyncio.to_thread(_grown, batch, parts):
                if known.newest.seq < known.head.head:
                    waiting.appendleft(known)
                else:
                    self._known[known.head.run_id] = known

    async def _begun(self, heads: list[RunHead]) -> list[KnownCourse]:
        """Return the runs as they were known, at their new heads; without those that were deleted meanwhile."""
        known = {head.run_id: self._known.get(head.run_id) for head in heads}
        fresh = [head for head in heads if not _continues(known[head.run_id], head)]
        rows = await self._courses.rows([head.run_id for head in fresh]) if fresh else {}
        present = await self._courses.present(fresh) if fresh else {}
        now, begun = self._clock(), list[KnownCourse]()
        for head in heads:
            before = known[head.run_id]
            if before is not None and _continues(before, head):
                *parts, last = before.present
                since = before.since if before.head.head == head.head else now
                grown = (*parts, SeqRange(last.after, head.head))
                begun.append(replace(before, head=head, present=grown, newest=before.whole, since=since))
            elif head.run_id in rows and rows[head.run_id].uid == head.uid:
                row = rows[head.run_id]
                nothing = CourseUpTo(0, RunCourse(), row.settings.strategy)
                begun.append(KnownCourse(head, row, present[head.run_id], nothing, nothing, now))
        return begun

    async def _read_notes(self, heads: list[RunHead]) -> None:
        noted = [head.run_id for head in heads if head.refused_reports or head.judged_at is not None]
        wanted = [run_id for run_id in noted if run_id in self._known]  # others were deleted meanwhile
        for run_id, notes in (await self._courses.notes(wanted) if wanted else {}).items():
            self._known[run_id] = replace(self._known[run_id], notes=notes)

    async def _repair_one(self, heads: list[RunHead]) -> None:
        """Store the receipts of one of these runs that a crash left out: it opens the run, so not of all at once."""
        for head in heads:
            known = self._known.get(head.run_id)
            if known is None or known.is_whole or self._clock() - known.since < SETTLES_S:
                continue
            self._known[head.run_id] = replace(known, since=self._clock())
            try:
                await self._repair(head.dataset, known.row.name)
            except BotsError as error:
                log.warning("receipts_not_repaired", dataset=head.dataset, run=known.row.name, reason=str(error))
            return


def _continues(known: KnownCourse | None, head: RunHead) -> bool:
    """Return whether a run's entries since are all that there is to read."""
    return known is not None and (known.head.uid, known.head.epoch) == (head.uid, head.epoch)


def _grown(batch: list[tuple[KnownCourse, int, WantedCourse]], parts: dict[int, CoursePart]) -> list[KnownCourse]:
    return [known.grown(up_to, wanted, parts[known.head.run_id]) for known, up_to, wanted in batch]
