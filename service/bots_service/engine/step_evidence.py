"""Reads what the last steps of a run showed, task by task, from its journal."""

from dataclasses import dataclass

from bots_service.core.entries import Report
from bots_service.core.state import RunState
from bots_service.core.summary.tags import StepEvidence, closed_steps_of
from bots_service.engine.open_runs import OpenRun
from bots_service.engine.run_courses import common
from bots_service.ports.courses import Courses, RunHead, SeqRange
from bots_service.ports.journal import Journal

MOST_ENTRIES = 4000  # of a journal: about a second at first, and then most of them are in memory
MOST_EARLIER = 1000  # entries in which the first parts of a group are looked for
PAGE = 1000


@dataclass(frozen=True, slots=True)
class ReadStepEvidence:
    """Reads the evidence of closed steps."""

    journal: Journal
    courses: Courses

    async def __call__(self, run: OpenRun, state: RunState, steps: int) -> list[StepEvidence]:
        """Return the last steps of the present history, in order: at most so many, and none that was pruned.

        Fewer if they have more than MOST_ENTRIES entries. The receipts up to the state must be stored.
        """
        origin, before = run.row.origin_step, state.step - steps
        after = max(origin, before - 1)
        closed = await self.journal.history(run.row, after, state.step - after)
        receipts = [one.receipt for one in closed if one.receipt.seq <= state.seq]
        seqs = {one.seq: (one.step, one.tally.reported) for one in receipts}
        last = max(seqs, default=0)
        begins = max(await self.journal.begins(run.row), last - MOST_ENTRIES)
        # Begin behind a step that closed, or with the run: what an open step got before would be missing.
        begin = 0 if before <= origin and begins <= 0 else min((seq for seq in seqs if seq >= begins), default=last)
        wanted = {seq: (step, groups) for seq, (step, groups) in seqs.items() if seq > begin and step > before}
        if not wanted:
            return []
        head = RunHead(run.row.id, run.row.uid, run.dataset.row.name, state.seq, state.epoch)
        present = (await self.courses.present([head]))[run.row.id]
        reports = await self._reports(run, present, begin, max(wanted))
        earlier = list[tuple[int, Report]]()
        if any(len(report.parts) for _, report in reports):
            first = max(begin - MOST_EARLIER, await self.journal.begins(run.row), 0)
            earlier = await self._reports(run, present, first, begin)
        return closed_steps_of(
            reports,
            wanted,
            state.belief.longest_lag,
            lease_s=state.settings.lease_seconds,
            earlier=[report for _, report in earlier],
        )

    async def _reports(
        self, run: OpenRun, present: tuple[SeqRange, ...], after: int, last: int
    ) -> list[tuple[int, Report]]:
        """Return the reports of the present history after one entry and up to another, with their seqs."""
        return [
            (entry.seq, entry.body)
            for part in common(present, after, last)
            for first in range(part.after, part.last, PAGE)
            for entry in await self.journal.after(run.row, first, min(first + PAGE, part.last), PAGE)
            if isinstance(entry.body, Report)
        ]
