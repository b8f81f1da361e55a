"""`ResilientClient`: select and report from inside a training job, which never waits long and never stops for them."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from bots_client._arguments import refuse_single_str
from bots_client._call import Call
from bots_client._calls import step_calls
from bots_client._client import Client
from bots_client._errors import BotsClientError, InvalidRequestError
from bots_client._inputs import Outcome
from bots_client._models import Lease, Receipt, Selection
from bots_client._resilience.health import Health
from bots_client._resilience.local_state import ClientOptions, ProcessState
from bots_client._resilience.spool import spool_folder
from bots_client._retry import Deadline

T = TypeVar("T")
ClientT = TypeVar("ClientT", bound="ResilientClient")


class ResilientClient:
    """A connection for training jobs. Whatever happens to the service, calls return in time, and training goes on.

        bots = ResilientClient()
        selection = bots.select("guru", 32, ids=list(rows))
        bots.report("guru", [Outcome.rewards(id, train(rows[id])) for id in selection.ids], selection=selection)

    While the service is away, tasks are chosen uniformly from the trainer's own ids, and reports are kept on disk,
    from where they go to the service, in order and each counted once, as soon as it is back. It may be shared between
    threads, carried over a fork and pickled; what is kept survives kill -9 and serves the next job on this machine.

    Args:
        url: of the service; None: BOTS_URL, else http://127.0.0.1:8000.
        api_key: None: BOTS_API_KEY, else no key. Pickling carries it along.
        on_error: "raise" raises every BotsClientError into training, chooses nothing here and keeps nothing on disk.
        select_deadline_s: longest time that a selection takes.
        report_deadline_s: longest time that a report takes.
        spool: folder for reports that wait; None: BOTS_SPOOL, else bots/ in XDG_STATE_HOME (~/.local/state).
        spool_bytes: of the reports that wait for one run; beyond it the oldest are lost.
        on_change: called with the health when the service goes away and when it is back, on any thread; must be quick.
        headers: sent with every request.
        seed: of the choices made here; None: a random one for each process, so that ranks and restarts choose different
            tasks. With a number the choices can be repeated: they follow from it, from RANK and from
            TORCHELASTIC_RESTART_COUNT of the environment. Restarts that this does not count repeat the choices.

    Raises:
        ValueError: the url, the key or the folder cannot be used.
    """

    def __init__(  # noqa: PLR0913 - each with a default
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        on_error: Literal["continue", "raise"] = "continue",
        select_deadline_s: float = 2.0,
        report_deadline_s: float = 5.0,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 256 * 2**20,
        on_change: Callable[[Health], object] | None = None,
        headers: Mapping[str, str] | None = None,
        seed: int | None = None,
    ) -> None:
        if on_error not in ("continue", "raise"):
            raise ValueError(f'on_error is {on_error!r}; pass "continue" or "raise"')
        self._raises = on_error == "raise"
        self._select_deadline_s = select_deadline_s
        self._report_deadline_s = report_deadline_s
        self._folder = spool_folder(spool)
        self._options = ClientOptions(
            url=url,
            api_key=api_key,
            headers=headers,
            on_change=on_change,
            spool_bytes=spool_bytes,
            seed=seed,
            look_deadline_s=report_deadline_s,
        )
        self._process = ProcessState(self._options, self._folder)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.direct.url!r}, spool={str(self._folder)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_process"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._process = ProcessState(self._options, self._folder)

    def __enter__(self: ClientT) -> ClientT:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def direct(self) -> Client:
        """The plain client: all calls of the service; they raise."""
        return self._state.connection.client

    @property
    def health(self) -> Health:
        """How things stand, in this process."""
        return self._state.tally.health

    @property
    def spool(self) -> Path:
        """The folder of the reports that wait."""
        return self._folder

    def flush(self, deadline_s: float = 10.0, *, runs: Iterable[tuple[str, str]] = ()) -> int:
        """Send the reports that wait; returns how many still do.

        Args:
            deadline_s: how long that may take.
            runs: dataset and run, of others than this process has used.
        """
        state = self._state
        for dataset, run in runs:
            state.run(dataset, run)
        return state.flush(Deadline(deadline_s, time.monotonic))

    def close(self) -> None:
        """Send what waits, for as long as a report may take, and close the connections."""
        self._state.close(Deadline(self._report_deadline_s, time.monotonic))

    def select(  # noqa: PLR0913 - two that matter, the others by keyword
        self,
        dataset: str,
        count: int,
        *,
        ids: Sequence[str],
        run: str = "default",
        tags: Iterable[str] | None = None,
        quotas: Mapping[str, float] | None = None,
        exclude: Sequence[str] = (),
        first: Sequence[str] = (),
        uniform_share: float | None = None,
        idempotency_key: str | None = None,
    ) -> Selection:
        """Choose the tasks to train on next, by the service's belief or, while it is away, uniformly here.

        Args:
            dataset: the pool.
            count: how many.
            ids: of all tasks that the trainer has, in the same order each time; a ValueError if there are none. Others
                that the service chooses are replaced by some of these.
            run: whose belief decides.
            tags: only tasks that bear one of them; not known here.
            quotas: how many of the tasks bear each tag (an int), or which share of them does (a float in (0, 1]); not
                known here.
            exclude: ids that are not wanted.
            first: ids that are wanted before any others, in flight or not.
            uniform_share: share of the tasks drawn with no regard to the belief, in [0, 1].
            idempotency_key: the same key gives the same tasks again, while the service is there.
        """
        refuse_single_str(ids=ids, exclude=exclude, first=first)
        state = self._state
        local_run = state.run(dataset, run)
        state.tally.add(selects=1)
        selection = None
        with state.tally.timed("select_seconds"):
            try:
                call = step_calls.select(
                    dataset,
                    count,
                    run=run,
                    tags=tags,
                    quotas=quotas,
                    exclude=local_run.excluded(exclude) or None,
                    first=first or None,
                    uniform_share=uniform_share,
                    idempotency_key=idempotency_key,
                )
                if self._raises:
                    return state.connection.ask(call, self._select_deadline_s)
                selection = local_run.select(call, ids, Deadline(self._select_deadline_s, time.monotonic))
            except BotsClientError as error:
                if self._raises:
                    raise
                state.connection.complain(error)
            return local_run.choose(count, ids, exclude, first) if selection is None else selection

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
        """Record what the rollouts showed. Once it returns, it is in the service's journal or on disk here.

        Args:
            dataset: the pool.
            outcomes: one or more per task; counts of one task within a step add up.
            run: whose evidence it is.
            selection: what the tasks were selected by, or its id, so that late evidence finds its step.
            close_step: whether the training step ends with it; None: yes, unless the run has tasks_per_step.
            idempotency_key: the same key counts once, however often it is sent; None: a fresh one.

        Returns:
            None: it waits on disk, or the service will never take it; `health.last_error` says why.
        """
        state = self._state
        local_run = state.run(dataset, run)
        state.tally.add(reports=1)
        with state.tally.timed("report_seconds"):
            try:
                call = step_calls.report(
                    dataset,
                    outcomes,
                    run=run,
                    selection=selection.selection_id or None if isinstance(selection, Selection) else selection or None,
                    close_step=close_step,
                    idempotency_key=idempotency_key,
                )
            except InvalidRequestError as error:
                self._refuse(error)
                return None
            if self._raises:
                return state.connection.ask(call, self._report_deadline_s)
            deadline = Deadline(self._report_deadline_s, time.monotonic)
            return local_run.report(call, closes=bool(close_step), deadline=deadline)

    def register(self, dataset: str, ids: Sequence[str], *, run: str = "default") -> list[str]:
        """Make a dataset hold a trainer's tasks; return its others, to be excluded from selections for that trainer.

        Dataset and run are made where they are missing. Call it once, when the trainer has read and filtered its data:
        it goes through the whole dataset, some 3 s for 100,000 tasks. While the service is away it does nothing.

        Args:
            dataset: the pool.
            ids: of all tasks that the trainer has.
            run: of it.

        Raises:
            ValueError: the dataset has none of these tasks, or more than 100,000 others.
        """
        try:
            return self._state.run(dataset, run).register(ids)
        except BotsClientError as error:
            self.complain(error)
            return []

    def save_checkpoint(self, dataset: str, run: str = "default") -> dict[str, Any]:
        """Return where a run stands, as JSON values, to be kept in the trainer's checkpoint.

        Takes as long as a report at most; reports that wait are sent first.
        """
        return self._state.run(dataset, run).save(Deadline(self._report_deadline_s, time.monotonic))

    def load_checkpoint(self, saved: Mapping[str, Any], dataset: str, run: str = "default") -> None:
        """Take a run back to where it stood when the trainer's checkpoint was made; if the service is away, later.

        Selections made since count for nothing afterwards. Call it in one process of a job.

        Args:
            saved: what `save_checkpoint` returned.
            dataset: the pool.
            run: of it.
        """
        self._state.run(dataset, run).load(saved, Deadline(self._report_deadline_s, time.monotonic))

    def in_flight(self, dataset: str, run: str = "default") -> list[Lease]:
        """Return what a run has in flight, selected last first; nothing if the service cannot tell.

        A lease names at most 1000 of its tasks.
        """
        return self._state.run(dataset, run).in_flight(self._report_deadline_s)

    def uniform_effective_task_ratio(self, dataset: str, run: str = "default", *, spent_s: float = 0.0) -> float | None:
        """Return the effective task ratio that uniform choice could expect, by what the service expected last.

        Training goes on without it, so it is asked for once and never raises, also with on_error="raise".

        Args:
            dataset: the pool.
            run: by whose belief.
            spent_s: how much of a report's time is used up already; it takes no more than the rest.

        Returns:
            None: the service has not looked at the run yet, is away, or cannot tell in that time.
        """
        state = self._state
        with state.tally.timed("report_seconds"):
            return state.run(dataset, run).uniform_effective_task_ratio(self._report_deadline_s - spent_s)

    def try_call(self, call: Call[T], dataset: str, run: str) -> T | None:
        """Return what the service answers of a run, in a report's time; None if it is away, or cannot tell."""
        try:
            return self._state.run(dataset, run).told(call, self._report_deadline_s)
        except BotsClientError as error:
            self.complain(error)
            return None

    def complain(self, error: Exception) -> None:
        """Raise an error with on_error="raise", else log it once."""
        if self._raises:
            raise error
        self._state.connection.complain(error)

    def _refuse(self, error: InvalidRequestError) -> None:
        self._state.tally.add(refused=1)
        self.complain(error)

    @property
    def _state(self) -> ProcessState:
        if self._process.process != os.getpid():  # forked: locks and sockets are the parent's
            self._process = ProcessState(self._options, self._folder)
        return self._process
