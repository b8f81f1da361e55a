"""Looks, again and again, at the runs that trainers use here. No scrape waits for a store."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from time import monotonic

import structlog

from bots_service.errors import BotsError, UnknownDatasetError, UnknownRunError
from bots_service.metrics.run_series import RunsAtWork
from bots_service.usecases.background import repeating
from bots_service.usecases.look_at_run import LookAtRun, Seen

log = structlog.get_logger(__name__)

EVERY_S = 1.0
IDLE_EVERY_S = 60.0  # for runs that are not at work here, but may be at another replica
MOST_OF_TIME = 1 / 20  # requests have the rest
MOST_PAUSE_S = 60.0  # after a round that waited for a store that hung


class ObserveRuns:
    """Looks at each run that has series of its own."""

    def __init__(
        self,
        look: LookAtRun,
        at_work: RunsAtWork,
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Observe nothing yet.

        Args:
            look: looks at one.
            at_work: which runs are observed.
            every_s: time between two looks.
            clock: seconds that only grow, the same as for `at_work`.
        """
        self._look = look
        self._at_work = at_work
        self._every_s = every_s
        self._clock = clock
        self._due = clock()
        self._seen: dict[tuple[str, str], Seen] = {}  # by dataset and run

    def working(self) -> AbstractAsyncContextManager[None]:
        """Observe in the background."""
        return repeating(self.when_due, every_s=self._every_s, or_log="runs_not_observed")

    async def when_due(self) -> None:
        """Look once, unless it is so soon that looking would take more than MOST_OF_TIME."""
        began = self._clock()
        if began < self._due:
            return
        try:
            await self.once()
        finally:
            self._due = began + min((self._clock() - began) / MOST_OF_TIME, MOST_PAUSE_S)

    async def once(self) -> None:
        """Look once at the runs that were at work since the last time; what can't be seen for now stays as it was."""
        last_used, now = self._at_work.last_used(), self._clock()
        self._seen = {names: seen for names, seen in self._seen.items() if names in last_used}
        for (dataset, run), used in last_used.items():
            seen = self._seen_of(dataset, run)
            if seen is None or (used < seen.looked and now - seen.looked < IDLE_EVERY_S):
                continue  # nothing happened here since the last look
            try:
                await self._look(dataset, run, seen, now=now)
                seen.looked = now
            except (UnknownDatasetError, UnknownRunError):
                self._at_work.forget(dataset, run)
            except BotsError as error:
                log.debug("run_not_observed", dataset=dataset, run=run, reason=str(error))
            except Exception:  # a defect that one run brings out must not hide all the others
                log.exception("run_not_observed", dataset=dataset, run=run)
                seen.looked = now

    def _seen_of(self, dataset: str, run: str) -> Seen | None:
        """Return what was seen of a run, which is nothing where its series are new; None if it has none any more."""
        series = self._at_work.series(dataset, run)
        seen = self._seen.get((dataset, run))
        if series is not None and (seen is None or seen.series is not series):
            seen = self._seen[dataset, run] = Seen(series)
        return None if series is None else seen
