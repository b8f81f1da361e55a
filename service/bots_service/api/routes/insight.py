"""What a run has in flight, what it selected of each tag, and what its reports said of a task."""

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.cursors import AfterNumber, read_cursor, write_cursor
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import Cursor, DatasetName, Limit, RunName, services_of
from bots_service.api.problems import EVERY, RUN
from bots_service.api.responses import EXAMPLE_TIME, filled, json_response, moment
from bots_service.api.security import allowed, guarded_router
from bots_service.core.summary.tags import TagRow
from bots_service.errors import UnknownTaskError
from bots_service.insight import IDS_PER_LEASE, Lease, TagTable
from bots_service.keys import Scope
from bots_service.records import LoggedVisit

router = guarded_router(tags=["runs"])

LeaseIds = Annotated[int, Query(ge=0, le=1000, description="How many ids of each lease at most.")]
Steps = Annotated[int, Query(ge=1, le=200, description="Number of last steps to sum up.")]
OneTask = Annotated[str, Path(min_length=1, max_length=256, description="The task's id; encode a slash in it as %2F.")]


class LeasesResponse(Struct, frozen=True):
    """Tasks in flight, those first whose leases end soonest.

    leased: how many tasks are in flight, also where not all leases are listed.
    leases: the leases.
    """

    leased: int
    leases: list[Lease]


EXAMPLE_LEASES = LeasesResponse(64, [Lease(EXAMPLE_TIME, 64, ["gsm8k-17", "gsm8k-4"])])


@router.get(
    "/datasets/{dataset}/runs/{run}/leases",
    summary="List a run's tasks in flight",
    responses=answers_with(EXAMPLE_LEASES, *EVERY, *RUN),
)
@allowed(Scope.READ)
async def read_leases(
    request: Request, dataset: DatasetName, run: RunName, limit: Limit = 100, ids: LeaseIds = IDS_PER_LEASE
) -> Response:
    """Return the tasks in flight, ordered by when their leases end."""
    leased, groups = await services_of(request).insight.leases(dataset, run, limit, ids)
    return json_response(LeasesResponse(leased, groups))


EXAMPLE_TAG = TagRow("arithmetic", 5120, 0.6851, 512, 0.6667, 350, 0.6836, 4096.0, 0.47, None)
EXAMPLE_TAGS = TagTable(1, 12, [EXAMPLE_TAG])


@router.get(
    "/datasets/{dataset}/runs/{run}/tags",
    summary="Compare a run's tags",
    responses=answers_with(EXAMPLE_TAGS, *EVERY, *RUN),
)
@allowed(Scope.READ)
async def read_tags(request: Request, dataset: DatasetName, run: RunName, steps: Steps = 50) -> Response:
    """Return the sums over the last steps by tag, next to the success rates of as many steps before."""
    return json_response(await services_of(request).insight.tags(dataset, run, steps))


class TaskVisit(Struct, frozen=True):
    """What a report said of a task.

    seq: the report's journal entry.
    step: the number of steps that had closed after it; null if that is not stored yet.
    successes: how many of the task's rollouts succeeded; a fractional reward counts in part.
    trials: how many rollouts of the task were reported.
    mean_reward: successes / trials: the mean reward, with the run's reward range mapped to [0, 1].
    effective: whether the rollouts have a gradient: their rewards differ. False for a part of a group.
    group_size: how many rollouts the group has, of which the report brought some; null for a whole group.
    late: whether the report came after its step had closed, so that it counts for less or for nothing; null like step.
    hidden: whether a rewind undid it.
    """

    seq: int
    step: int | None
    successes: float
    trials: float
    mean_reward: float
    effective: bool
    group_size: float | None
    late: bool | None
    hidden: bool
    time: datetime

    @classmethod
    def from_logged(cls, visit: LoggedVisit) -> "TaskVisit":
        """Return the answer for a visit."""
        return filled(
            cls,
            visit,
            mean_reward=visit.successes / visit.trials,
            effective=visit.is_effective,
            late=visit.is_late,
            hidden=visit.is_hidden,
            time=moment(visit.created_at),
        )


class TaskHistoryPage(Struct, frozen=True):
    """A page of a task's history, the newest report first.

    history: the reports; there may be none on a page that is not the last.
    pruned: journal entries up to this one were pruned, so older reports are not known; 0 if all entries are kept.
    """

    history: list[TaskVisit]
    pruned: int
    next_cursor: str | None


EXAMPLE_VISIT = TaskVisit(
    seq=12,
    step=12,
    successes=3.0,
    trials=8.0,
    mean_reward=0.375,
    effective=True,
    group_size=None,
    late=False,
    hidden=False,
    time=EXAMPLE_TIME,
)


@router.get(
    "/datasets/{dataset}/runs/{run}/tasks/{task:path}/history",  # an id may hold slashes
    summary="List a task's reports",
    responses=answers_with(TaskHistoryPage([EXAMPLE_VISIT], 0, None), *EVERY, *RUN, UnknownTaskError),
)
@allowed(Scope.READ)
async def read_task_history(
    request: Request, dataset: DatasetName, run: RunName, task: OneTask, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Return what the run's reports said of a task, newest first, including reports undone by a rewind.

    Each request reads at most 500 journal entries, so a page may have few reports, or none, and a cursor.
    """
    before = None if cursor is None else read_cursor(cursor, AfterNumber)
    page = await services_of(request).insight.task_history(dataset, run, task, before, limit)
    following = None if page.next is None else write_cursor(page.next)
    return json_response(TaskHistoryPage([TaskVisit.from_logged(each) for each in page.visits], page.pruned, following))
