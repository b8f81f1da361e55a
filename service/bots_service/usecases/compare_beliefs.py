"""Which belief fits a run: its own journal, folded again under others."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from bots_service.engine.catch_up import CatchUp
from bots_service.engine.comparing import Comparing, ComparisonProgress
from bots_service.engine.open_runs import OpenRun, OpenRuns


@dataclass(frozen=True, slots=True)
class CompareBeliefs:
    """Compare what beliefs would have predicted before each step of a run."""

    open_runs: OpenRuns
    catch_up: CatchUp
    comparing: Comparing

    async def __call__(
        self, dataset: str, run: str, *, steps: int, seq: int | None, wait_s: float
    ) -> ComparisonProgress:
        """Return the comparison, or how far it is. All callers that wait for it share one computation.

        A process computes one at a time, so one that is asked for during another begins when it is asked for again.

        Args:
            dataset: the run's.
            run: its name.
            steps: the last so many of the present history, at most.
            seq: what an earlier answer said, so that a run in training doesn't begin another comparison; where that
                one is not known any more, another begins.
            wait_s: how long to wait for the end.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            OverloadedError: the process that computed it ended.
        """

        async def compare(opened: OpenRun) -> ComparisonProgress:
            found = None if seq is None else self.comparing.known(opened, seq, steps)
            if found is None and not self.comparing.is_at(opened, steps):
                state = await self.catch_up.repair_receipts(opened)
                found = self.comparing.known(opened, state.seq, steps)
                if found is None and not self.comparing.is_at(opened, steps):
                    if self.comparing.is_busy:
                        await self.comparing.wait_for_turn(wait_s)
                        return ComparisonProgress(state.seq, 0, 0)
                    self.comparing.begin(opened, state, steps)
            return found or await self.comparing.wait(wait_s)

        return await self.open_runs.using(dataset, run, compare)

    def in_background(self) -> AbstractAsyncContextManager[None]:
        """Stop the comparison that is under way at the end."""
        return self.comparing.in_background()
