"""States that a new run begins with: another run's belief, discounted; or its journal under other settings."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bots_service.core.belief.kinds import KINDS
from bots_service.core.belief.protocol import Belief
from bots_service.core.comparison.refold import still_counting
from bots_service.core.entries import Entry, Rewind
from bots_service.core.groups import NOTHING_UNFINISHED
from bots_service.core.open_step import NOTHING_OPEN
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState, advance, fresh_state, lesson_of


def warm_start(parent: RunState, settings: RunSettings, discount: float, pool: Pool) -> RunState:
    """Return the state of a run at step 0 that believes what another one did, but less surely.

    Args:
        parent: the other run's state.
        settings: of the new run; the belief is of the parent's kind.
        discount: the share of the evidence to drop, in [0, 1].
        pool: the tasks.
    """
    belief = parent.belief.extended(pool, pool.profiles).discounted(discount, pool, settings)
    return replace(fresh_state(settings, pool), belief=belief)


@dataclass(frozen=True, slots=True)
class Refold:
    """A run's journal folded under other settings, up to some entry.

    run: the run's own state there: it says which step a report belongs to, and when a step closes.
    belief: what the other settings make of the same steps.
    settings: those.
    pool: the tasks as the new run sees them; other predictions may tell them apart than in the run.
    """

    run: RunState
    belief: Belief
    settings: RunSettings
    pool: Pool

    @classmethod
    def of(cls, run: RunState, settings: RunSettings, pool: Pool) -> "Refold":
        """Return the beginning; `run` is the state before the first entry, `pool` what the new run sees."""
        return cls(run, KINDS[settings.belief].fresh(settings, pool), settings, pool)

    def with_entries(self, entries: Iterable[Entry], pool: Pool) -> "Refold":
        """Return the fold with more entries; those that a rewind undid are left out.

        Args:
            entries: the next ones.
            pool: the tasks as the run sees them. Where the new one sees others, it knows all its profiles at once.
        """
        own, same = self.pool, self.pool is pool
        state, belief = self.run, self.belief
        for entry in entries:
            body = entry.body
            if isinstance(body, Rewind):  # what it went back to is where the fold stands
                state, _ = advance(replace(state, seq=entry.seq - 1), entry, pool, base=state)
                continue
            lesson = lesson_of(state, entry, pool)
            state, _ = advance(state, entry, pool)
            belief = belief.extended(own, entry.profiles if same else own.profiles)
            if len(lesson.forgotten):
                belief = belief.forgotten(lesson.forgotten)
            if (step := lesson.step) is not None:
                rollouts = self.settings.rollouts_per_task or state.totals.rollouts_per_task or 0.0
                step = still_counting(replace(step, rollouts=rollouts), belief.longest_lag)
                belief = belief.fold(own, step, self.settings)
        return Refold(state, belief, self.settings, own)

    def begin(self) -> RunState:
        """Return the state of a new run that continues here under the other settings, with no step open."""
        run, settings = self.run, self.settings
        walks = run.walks if settings.seed == run.settings.seed else run.walks.restarted()
        return replace(
            run,
            epoch=0,
            seq=0,
            settings=settings,
            belief=self.belief,
            walks=walks,
            open_step=NOTHING_OPEN,
            unfinished=NOTHING_UNFINISHED,
        )
