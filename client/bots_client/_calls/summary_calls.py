"""Summaries of runs: of all of them, and of one with a verdict."""

from bots_client._call import Call, given, path
from bots_client._decode import into
from bots_client._summary_models import Overview, RunSummary, TagComparison


def overview(
    *,
    search: str | None = None,
    dataset: str | None = None,
    status: str | None = None,
    attention: bool | None = None,
    sort: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Overview]:
    """Return a page of summaries of all runs that the key reaches, and their sums.

    Args:
        search: only runs whose "dataset/run" contains this text, ignoring case.
        dataset: only runs of this dataset.
        status: only runs with this status: new, running, stalled or idle.
        attention: True: only runs that need attention.
        sort: attention, name, created, last_step, step, effective_task_ratio, vs_uniform or rollouts; "-step"
            descends; None: "-last_step". By "-attention", runs that need attention come first, then the others by
            their last step. By vs_uniform, healthy runs come first, whichever way.
        limit: maximum number of runs, 1 to 1,000; None: 50.
        cursor: `next_cursor` of the page before.
    """
    asked = given(
        search=search, dataset=dataset, status=status, attention=attention, sort=sort, limit=limit, cursor=cursor
    )
    return Call("GET", path("overview"), into(Overview), tuple((name, str(value)) for name, value in asked.items()))


def summary(dataset: str, run: str = "default") -> Call[RunSummary]:
    """Return how a run goes: its status, its gain over uniform sampling, and a verdict with advice.

    Args:
        dataset: name of the dataset.
        run: name of the run.
    """
    return Call("GET", path("datasets", dataset, "runs", run, "summary"), into(RunSummary))


def tags(dataset: str, run: str = "default", *, steps: int | None = None) -> Call[TagComparison]:
    """Return the sums over the last steps by tag, next to the success rates of as many steps before.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        steps: number of last steps to sum up, 1 to 200; None: 50.
    """
    where = path("datasets", dataset, "runs", run, "tags")
    return Call("GET", where, into(TagComparison), params=() if steps is None else (("steps", str(steps)),))
