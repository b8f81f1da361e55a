"""GET history of a task: what each report of a run said of it."""

from datetime import datetime
from typing import Annotated

from fastapi import Path
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.cursors import AfterNumber, read_cursor, write_cursor
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import Cursor, DatasetName, Limit, RunName, services_of
from bots_service.api.problems import EVERY, RUN
from bots_service.api.responses import EXAMPLE_TIME, filled, json_response, moment
from bots_service.api.security import allowed, guarded_router
from bots_service.errors import UnknownTaskError
from bots_service.keys import Scope
from bots_service.records import LoggedVisit

router = guarded_router(tags=["runs"])

OneTask = Annotated[str, Path(min_length=1, max_length=256, description="The task's id; encode a slash in it as %2F.")]


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


EXAMPLE = TaskVisit(
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
    responses=answers_with(TaskHistoryPage([EXAMPLE], 0, None), *EVERY, *RUN, UnknownTaskError),
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
