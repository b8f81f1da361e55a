"""`ResilientClient`: select and report from a training job, which no outage blocks for long or stops."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from bots_client._client import Client, report_call, select_call
from bots_client._errors import InvalidRequestError
from bots_client._http import Deadline
from bots_client._inputs import Outcome, checked_list, wrong_type
from bots_client._models import Receipt, Selection
from bots_client._resilience.connection import Health
from bots_client._resilience.local_run import ClientOptions, LocalRun, ProcessState
from bots_client._resilience.registration import Registration
from bots_client._resilience.spool import spool_folder
from bots_client._resilience.uniform import TASKS_PER_GROUP

ClientT = TypeVar("ClientT", bound="ResilientClient")


class ResilientClient:
    """A client for training jobs. Whatever happens to the service, calls keep their deadlines and training continues.

    Mistakes of the calling program are raised as a RequestError that names the fix: an unknown dataset, run or task, a
    wrong key, a reward outside the run's range. If the service was away at first, the next call after its return raises
    them. A dataset that is deleted later, or a key that is revoked, is an outage, and logged once a minute.

        bots = ResilientClient()
        selection = bots.select("guru", 32, ids=list(rows))
        bots.report("guru", [Outcome.rewards(id, train(rows[id])) for id in selection.ids], selection=selection)

    While the service is away, tasks are sampled uniformly from the trainer's own ids, and reports are kept on disk. As
    soon as it is back, the reports are sent in order, and each counts once. The client can be shared between threads,
    forked and pickled. Reports on disk survive kill -9; the next job on this machine sends them too.

    Args:
        url: http(s) URL of the service; None: BOTS_URL, or http://127.0.0.1:8000.
        api_key: None: BOTS_API_KEY, or no key. A pickle contains it.
        on_mistake: "warn" logs mistakes once a minute and continues as in an outage; what the service refused stays on
            disk for inspection.
        select_deadline_s: longest duration of a selection.
        report_deadline_s: longest duration of a report.
        spool: folder for waiting reports; None: BOTS_SPOOL, or bots/ in XDG_STATE_HOME (~/.local/state).
        spool_bytes: maximum size of one run's waiting reports; beyond it the oldest are dropped.
        on_change: called with the health when the service goes away and when it is back, on any thread; must be fast.
        headers: sent with every request.
        seed: random seed of local samples; None: a random one per process, so that ranks and restarts sample different
            tasks. A number makes samples reproducible: they depend on it and on the environment's RANK and
            TORCHELASTIC_RESTART_COUNT. A restart that does not raise this count repeats the samples.

    Raises:
        ValueError: the url, the key or the folder is invalid.
    """

    def __init__(  # noqa: PLR0913 - each with a default
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        on_mistake: Literal["raise", "warn"] = "raise",
        select_deadline_s: float = 2.0,
        report_deadline_s: float = 5.0,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 256 * 2**20,
        on_change: Callable[[Health], object] | None = None,
        headers: Mapping[str, str] | None = None,
        seed: int | None = None,
    ) -> None:
        if on_mistake not in ("raise", "warn"):
            raise ValueError(f'on_mistake must be "raise" or "warn", got {on_mistake!r}')
        self._options = ClientOptions(
            url=url,
            api_key=api_key,
            headers=headers,
            raises_mistakes=on_mistake == "raise",
            select_deadline_s=select_deadline_s,
            report_deadline_s=report_deadline_s,
            spool=spool_folder(spool),
            spool_bytes=spool_bytes,
            on_change=on_change,
            seed=seed,
        )
        self._process = ProcessState(self._options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.direct.url!r}, spool={str(self.spool)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._options = state["_options"]
        self._process = ProcessState(self._options)

    def __enter__(self: ClientT) -> ClientT:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def direct(self) -> Client:
        """The plain client, with every call of the service; its calls raise."""
        return self._state.connection.client

    @property
    def health(self) -> Health:
        """The health as seen by this process."""
        return self._state.connection.counters.health

    @property
    def spool(self) -> Path:
        """The folder of waiting reports."""
        return self._options.spool

    def flush(self, deadline_s: float = 10.0, *, runs: Iterable[tuple[str, str]] = ()) -> int:
        """Send the waiting reports; return how many still wait.

        Args:
            deadline_s: longest duration.
            runs: (dataset, run) pairs to include that this process has not used.
        """
        state = self._state
        for dataset, run in runs:
            state.run(dataset, run)
        return state.flush(Deadline(deadline_s))

    def close(self) -> None:
        """Send the waiting reports, within a report's deadline, then close the connections."""
        self._state.close(Deadline(self._options.report_deadline_s))

    def select(  # noqa: PLR0913 - two that matter, the others by keyword
        self,
        dataset: str,
        count: int | None = None,
        *,
        ids: Sequence[str],
        run: str = "default",
        subset: str | None = None,
        tags: Iterable[str] | None = None,
        exclude: Sequence[str] = (),
        first: Sequence[str] = (),
        want_effective: int | None = None,
        idempotency_key: str | None = None,
    ) -> Selection:
        """Select the tasks to train on next; while the service is away, sample them uniformly.

        Args:
            dataset: name of the dataset.
            count: number of tasks; leave it out with want_effective.
            ids: of all tasks that the trainer has, in the same order each time. Selected tasks that are not among them
                are replaced. A ValueError if there are none.
            run: name of the run, whose belief ranks the tasks.
            subset: only tasks of this subset of the dataset; None: of the one that this process registered, or all.
            tags: only tasks with one of these tags; ignored while the service is away.
            exclude: task ids never to select.
            first: task ids to select before any others, in flight or not.
            want_effective: select as few tasks as are expected to give so many effective groups; while the service is
                away, twice as many.
            idempotency_key: the same key returns the same tasks, unless the service is away.

        Raises:
            RequestError: a mistake, such as an unknown dataset, or more tasks than the trainer has.
        """
        if isinstance(ids, str):
            raise wrong_type("ids", "a list of str", ids)
        local_run = self._local(dataset, run)
        local_run.mistakes.raise_found()
        call = select_call(
            dataset,
            count,
            run=run,
            subset=local_run.present_subset(subset),
            tags=tags,
            exclude=exclude or None,
            first=first or None,
            want_effective=want_effective,
            idempotency_key=idempotency_key,
        )
        counters = self._state.connection.counters
        counters.add(selects=1)
        with counters.timed("select_seconds"):
            selection = local_run.select(call, ids, Deadline(self._options.select_deadline_s), subset=subset)
        if selection is None:
            local_run.mistakes.raise_found()
        local_run.require_count(count or 0, ids, exclude)
        local_run.mistakes.raise_found()
        if selection is not None:
            return selection
        wanted = TASKS_PER_GROUP * (want_effective or 0) if count is None else count
        if count is None and not local_run.repeatable:
            wanted = min(wanted, len(ids))
        return local_run.choose(wanted, ids, exclude, first)

    def report(
        self,
        dataset: str,
        outcomes: Iterable[Outcome],
        *,
        run: str = "default",
        selection: Selection | str | None = None,
        close_step: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt | None:
        """Report rollout outcomes. Once this returns, they are in the service's journal or on this machine's disk.

        Args:
            dataset: name of the dataset.
            outcomes: one or more per task; counts of one task within a step are added.
            run: name of the run.
            selection: the selection of these tasks, or its id, so that late evidence counts for its step.
            close_step: whether this report closes the training step; None: yes, unless the run has tasks_per_step.
            idempotency_key: reports with the same key count once; None: a new key.

        Returns:
            None if the report waits on disk, or was refused for good; `health.last_error` says why.

        Raises:
            RequestError: a mistake, such as a reward outside the run's range. Outcomes without one are reported.
        """
        local_run = self._local(dataset, run)
        outcomes = checked_list(outcomes, Outcome, "outcomes")
        counters = self._state.connection.counters
        counters.add(reports=1)
        self._leave_out(sum(outcome.left_out for outcome in outcomes))
        receipt = None
        with counters.timed("report_seconds"):
            try:
                call = report_call(
                    dataset,
                    outcomes,
                    run=run,
                    selection=selection.selection_id or None if isinstance(selection, Selection) else selection or None,
                    close_step=close_step,
                    idempotency_key=idempotency_key,
                )
            except InvalidRequestError as error:
                counters.add(refused=1)
                local_run.mistakes.note(error)
            else:
                deadline = Deadline(self._options.report_deadline_s)
                receipt = local_run.delivery.deliver(call, closes=bool(close_step), deadline=deadline)
        local_run.mistakes.raise_found()
        return receipt

    def register(
        self,
        dataset: str,
        ids: Sequence[str],
        *,
        run: str = "default",
        reward_range: tuple[float, float] | None = None,
    ) -> str | None:
        """Make a trainer's tasks a subset of a dataset; selections that name no other are then made in it.

        Adds to the dataset what it does not have. Creates the dataset and the run if they don't exist. Call it once,
        after the trainer has read and filtered its data. If the service is away, it is done when the service is back.

        Args:
            dataset: name of the dataset.
            ids: of all tasks that the trainer has.
            run: name of the run.
            reward_range: lowest and highest possible reward, which the run gets; None: it keeps its own, which is
                (0, 1) for a new one.

        Returns:
            The name of the subset, for `select`; None if the service is away.

        Raises:
            ValueError: the dataset has none of these tasks.
            RequestError: a mistake, such as a key without the permission.
        """
        local_run = self._local(dataset, run)
        subset = local_run.register(Registration(ids, reward_range))
        local_run.mistakes.raise_found()
        return subset

    def save_checkpoint(self, dataset: str, run: str = "default") -> dict[str, Any]:
        """Send the waiting reports, then return the run's position as JSON values, for the trainer's checkpoint.

        Takes at most as long as a report.
        """
        return self._local(dataset, run).delivery.save(Deadline(self._options.report_deadline_s))

    def load_checkpoint(self, saved: Mapping[str, Any], dataset: str, run: str = "default") -> None:
        """Rewind a run to its position in the trainer's checkpoint; if the service is away, as soon as it is back.

        Reports for later selections are refused afterwards. Call it in one process of a job.

        Args:
            saved: the result of `save_checkpoint`.
            dataset: name of the dataset.
            run: name of the run.
        """
        self._local(dataset, run).delivery.load(saved, Deadline(self._options.report_deadline_s))

    def _leave_out(self, rollouts: int) -> None:
        """Count rollouts that are no evidence."""
        self._state.connection.counters.add(left_out_rollouts=rollouts)

    def _local(self, dataset: str, run: str) -> LocalRun:
        """Return what this process knows of a run."""
        return self._state.run(dataset, run)

    @property
    def _state(self) -> ProcessState:
        if self._process.process != os.getpid():  # forked: locks and sockets are the parent's
            self._process = ProcessState(self._options)
        return self._process
