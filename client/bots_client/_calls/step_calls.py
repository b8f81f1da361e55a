"""One training step: select tasks, report outcomes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar
from urllib.parse import quote

from bots_client._arguments import checked_number, checked_str, checked_strings, require_size, wrong_type
from bots_client._call import ANSWER_BYTES, Call, given, path, written
from bots_client._decode import into
from bots_client._inputs import Outcome, checked_outcomes
from bots_client._models import Receipt, Selection

T = TypeVar("T")

TASK_BYTES = 1024  # of a selected task; most have about 120, and an id has at most 256 characters


def select(  # noqa: PLR0913 - two that matter, the others by keyword
    dataset: str,
    count: int | None = None,
    *,
    run: str = "default",
    subset: str | None = None,
    tags: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    first: Iterable[str] | None = None,
    want_effective: int | None = None,
    idempotency_key: str | None = None,
    deadline_s: float | None = None,
) -> Call[Selection]:
    """Select the tasks to train on next; the run leases them until they are reported or the lease expires.

    Args:
        dataset: name of the dataset.
        count: number of tasks; leave it out with want_effective.
        run: name of the run, whose belief ranks the tasks.
        subset: only tasks of this subset of the dataset; `make_subset` gives it its name.
        tags: only tasks with one of these tags.
        exclude: task IDs never to select.
        first: task IDs to select before any others, in flight or not, such as those in flight at a crash.
        want_effective: select as few tasks as are expected to give so many effective groups.
        idempotency_key: the same key returns the same tasks; None: a new key.
        deadline_s: for the whole call with its retries; None: the client's.

    Raises:
        InvalidRequestError: an argument is invalid, or fewer tasks are available.
        TypeError: an argument has the wrong type, or neither count nor want_effective is given, or both.
    """
    require_size(count, want_effective)
    content = given(
        dataset=checked_str(dataset, "dataset", write="select(dataset, count)"),
        run=checked_str(run, "run"),
        count=None if count is None else checked_number(count, "count"),
        subset=None if subset is None else checked_str(subset, "subset"),
        tags=None if tags is None else checked_strings(tags, "tags"),
        exclude=None if exclude is None else checked_strings(exclude, "exclude"),
        first=None if first is None else checked_strings(first, "first"),
        want_effective=None if want_effective is None else checked_number(want_effective, "want_effective"),
    )
    call = written("POST", path("select"), into(Selection), content, key=idempotency_key, deadline_s=deadline_s)
    return _of_the_run(call, dataset, run, max_bytes=ANSWER_BYTES + TASK_BYTES * int(count or 0))


def report(
    dataset: str,
    outcomes: Iterable[Outcome],
    *,
    run: str = "default",
    selection: Selection | str | None = None,
    age: int | None = None,
    close_step: bool | None = None,
    idempotency_key: str | None = None,
    deadline_s: float | None = None,
) -> Call[Receipt]:
    """Report rollout outcomes; once it returns, they are on disk and counted once.

    Args:
        dataset: name of the dataset.
        outcomes: one or more per task; counts of one task within a step are added.
        run: name of the run.
        selection: the selection of these tasks, or its ID, so that late evidence counts for its step.
        age: of outcomes that are not of a selection: as if selected so many steps ago; None: now.
        close_step: whether this report closes the training step; None: yes, unless the run has tasks_per_step.
        idempotency_key: reports with the same key count once; None: a new key.
        deadline_s: for the whole call with its retries; None: the client's.

    Raises:
        InvalidRequestError: an outcome is invalid; nothing was recorded.
        StaleEpochError: the run was rewound since the selection; nothing was recorded.
        TypeError: an argument has the wrong type, such as a tuple in place of an `Outcome`.
    """
    if not isinstance(selection, Selection | str | None):
        raise wrong_type("selection", "a Selection or its id", selection)
    content = given(
        dataset=checked_str(dataset, "dataset", write="report(dataset, outcomes)"),
        run=checked_str(run, "run"),
        selection_id=selection.selection_id if isinstance(selection, Selection) else selection,
        age=age,
        close_step=close_step,
        outcomes=[outcome.as_wire() for outcome in checked_outcomes(outcomes)],
    )
    call = written("POST", path("report"), into(Receipt), content, key=idempotency_key, deadline_s=deadline_s)
    return _of_the_run(call, dataset, run, max_bytes=ANSWER_BYTES)


def _of_the_run(call: Call[T], dataset: str, run: str, *, max_bytes: int) -> Call[T]:
    """Return the call with a bound for its answer, and a header by which a balancer may keep the run at one replica.

    The service ignores the header, so it may hold anything: a wrong name is refused for what the body says.
    """
    name = "/".join(quote(str(part), safe="", errors="replace") for part in (dataset, run))
    return replace(call, headers={**call.headers, "Bots-Run": name}, max_bytes=max_bytes)
