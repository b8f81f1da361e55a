"""One training step: select tasks, report what came of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar
from urllib.parse import quote

from bots_client._arguments import checked_number, checked_str, checked_strings, wrong_type
from bots_client._call import Call, given, path, written
from bots_client._decode import into
from bots_client._inputs import Outcome, quotas_of, wires_of_outcomes
from bots_client._models import Receipt, Selection

T = TypeVar("T")


def select(  # noqa: PLR0913 - two that matter, the others by keyword
    dataset: str,
    count: int,
    *,
    run: str = "default",
    tags: Iterable[str] | None = None,
    quotas: Mapping[str, float] | None = None,
    exclude: Iterable[str] | None = None,
    first: Iterable[str] | None = None,
    uniform_share: float | None = None,
    idempotency_key: str | None = None,
    deadline_s: float | None = None,
) -> Call[Selection]:
    """Choose the tasks to train on next; they are kept from other selections of the run until reported.

    Args:
        dataset: the pool.
        count: how many.
        run: whose belief decides.
        tags: only tasks that bear one of them.
        quotas: how many of the tasks bear each tag (an int), or which share of them does (a float in (0, 1]).
        exclude: ids that are not wanted.
        first: ids that are wanted before any others, in flight or not, as those that were in flight at a crash.
        uniform_share: share of the tasks drawn with no regard to the belief, in [0, 1].
        idempotency_key: the same key gives the same tasks again; None: a fresh one.
        deadline_s: for the whole call with its retries; None: the client's.

    Raises:
        InvalidRequestError: among others, the pool has fewer such tasks.
    """
    content = given(
        dataset=checked_str(dataset, "dataset", write="select(dataset, count)"),
        run=checked_str(run, "run"),
        count=checked_number(count, "count"),
        tags=None if tags is None else checked_strings(tags, "tags"),
        quotas=None if quotas is None else quotas_of(quotas),
        exclude=None if exclude is None else checked_strings(exclude, "exclude"),
        first=None if first is None else checked_strings(first, "first"),
        uniform_share=uniform_share,
    )
    call = written("POST", path("select"), into(Selection), content, key=idempotency_key, deadline_s=deadline_s)
    return _naming_the_run(call, dataset, run)


def report(
    dataset: str,
    outcomes: Iterable[Outcome],
    *,
    run: str = "default",
    selection: Selection | str | None = None,
    close_step: bool | None = None,
    idempotency_key: str | None = None,
    deadline_s: float | None = None,
) -> Call[Receipt]:
    """Record what the rollouts showed; once it returns, it is on disk and counted once.

    Args:
        dataset: the pool.
        outcomes: one or more per task; counts of one task within a step add up.
        run: whose evidence it is.
        selection: what the tasks were selected by, or its id, so that late evidence finds its step.
        close_step: whether the training step ends with it; None: yes, unless the run has tasks_per_step.
        idempotency_key: the same key counts once, however often it is sent; None: a fresh one.
        deadline_s: for the whole call with its retries; None: the client's.

    Raises:
        InvalidRequestError: an outcome cannot be true; nothing was recorded.
        StaleEpochError: the run was rewound since the selection; nothing was recorded.
    """
    if not isinstance(selection, Selection | str | None):
        raise wrong_type("selection", "a Selection or its id", selection)
    content = given(
        dataset=checked_str(dataset, "dataset", write="report(dataset, outcomes)"),
        run=checked_str(run, "run"),
        selection_id=selection.selection_id if isinstance(selection, Selection) else selection,
        close_step=close_step,
        outcomes=wires_of_outcomes(outcomes),
    )
    call = written("POST", path("report"), into(Receipt), content, key=idempotency_key, deadline_s=deadline_s)
    return _naming_the_run(call, dataset, run)


def _naming_the_run(call: Call[T], dataset: str, run: str) -> Call[T]:
    """Return the call with a header by which a balancer may keep the run at one replica, which has its state at hand.

    It is a hint that the service ignores: what is no name is refused for what stands in the body, not here.
    """
    name = "/".join(quote(str(part), safe="", errors="replace") for part in (dataset, run))
    return replace(call, headers={**call.headers, "Bots-Run": name})
