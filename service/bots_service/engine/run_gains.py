"""The gains of a dataset's runs over uniform sampling: measured by a run that samples so, or else estimated."""

from dataclasses import dataclass, replace

from bots_service.core.summary.course import RECENT, StepSums
from bots_service.core.summary.gain import Gain, StepRange, estimated_gain, measured_gain, nearest
from bots_service.engine.run_courses import KnownCourse, SumsKey
from bots_service.ports.courses import Courses, WantedSums

UNIFORM = "uniform"


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run and its baseline, the run that samples uniformly. steps: those that both have closed."""

    run: KnownCourse
    baseline: KnownCourse
    steps: StepRange

    @property
    def wanted(self) -> tuple[tuple[KnownCourse, StepRange], ...]:
        """The steps to sum up: of the run, of its baseline, and the last of the baseline's."""
        return (self.run, self.steps), (self.baseline, self.steps), (self.baseline, self.steps.recent(RECENT))


@dataclass(frozen=True, slots=True)
class CompareWithUniform:
    """Gives the runs of a dataset their gains."""

    courses: Courses

    async def __call__(self, runs: list[KnownCourse]) -> list[KnownCourse]:
        """Return all runs of a dataset with their gains.

        The baseline of a run is the run that samples uniformly and was created nearest in time; of several, the first
        by name.
        """
        baselines = sorted(
            (run for run in runs if run.newest.strategy == UNIFORM and run.newest.course.sums.reported),
            key=lambda run: run.row.name,
        )
        times = [run.row.created_at for run in baselines]
        compared, others = list[ComparedRun](), list[KnownCourse]()
        for run in runs:
            baseline = nearest(run.row.created_at, times, baselines)
            if run.newest.strategy == UNIFORM or baseline is None:
                is_uniform = run.newest.strategy == UNIFORM
                others.append(replace(run, gain=None if is_uniform else estimated_gain(run.newest.course), compared={}))
            else:
                compared.append(ComparedRun(run, baseline, run.steps.common(baseline.steps)))
        return [*others, *await self._measured(compared)]

    async def _measured(self, compared: list[ComparedRun]) -> list[KnownCourse]:
        """Return the runs with their gains; reads the sums over steps that no course has."""
        missing = {
            key_of(run, steps): (run, steps)
            for one in compared
            for run, steps in one.wanted
            if in_course(run, steps) is None and key_of(run, steps) not in one.run.compared
        }
        read = await self.courses.sums(
            [WantedSums(run.head.run_id, run.present, steps) for run, steps in missing.values()]
        )
        found = dict(zip(missing, read, strict=True))
        return [with_gain(one, one.run.compared | found) for one in compared]


def with_gain(one: ComparedRun, known: dict[SumsKey, StepSums]) -> KnownCourse:
    """Return the run with its gain. known: the sums over steps that no course has."""
    used = {key_of(*wanted): known[key_of(*wanted)] for wanted in one.wanted if in_course(*wanted) is None}
    own, uniform, recent = (in_course(*wanted) or used[key_of(*wanted)] for wanted in one.wanted)
    gain: Gain = measured_gain(one.baseline.row.name, len(one.steps), own=own, uniform=uniform, recent=recent)
    return replace(one.run, gain=gain, compared=used)


def in_course(run: KnownCourse, steps: StepRange) -> StepSums | None:
    """Return the sums over some of the steps that a run closed, None if its course has only those over others."""
    if not len(steps):
        return StepSums()
    if steps == run.steps:
        return run.newest.course.sums
    return run.newest.course.recent if steps == run.steps.recent(RECENT) else None


def key_of(run: KnownCourse, steps: StepRange) -> SumsKey:
    """Return what the sums over some steps of a run are known by."""
    return run.head.run_id, run.head.uid, run.head.epoch, steps
