"""`ResilientClient`: select and report from a training job, which no outage blocks for long or stops."""

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from bots_client._client import Client, unsent
from bots_client._errors import InvalidRequestError
from bots_client._http import Deadline
from bots_client._inputs import Outcome, checked, checked_list, wrong_type
from bots_client._models import Receipt, Selection
from bots_client._resilience.connection import Connection, Health
from bots_client._resilience.local_run import TASKS_PER_GROUP, LocalRun
from bots_client._resilience.spool import spool_folder, spool_of

ClientT = TypeVar("ClientT", bound="ResilientClient")

OF_A_PROCESS = {"_lock", "_runs", "_random_seed", "_own_connection", "_process"}  # attributes that no pickle holds


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
        self.spool = spool_folder(spool)
        self._connect = partial(Client, url, api_key=api_key, headers=headers)
        self._raises_mistakes = on_mistake == "raise"
        self._select_deadline_s = select_deadline_s
        self._report_deadline_s = report_deadline_s
        self._spool_bytes = spool_bytes
        self._on_change = on_change
        self._seed = seed
        self._begin()

    def _begin(self) -> None:
        """Begin in this process: locks and sockets are not for others."""
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, str], LocalRun] = {}
        self._random_seed = secrets.token_hex() if self._seed is None else f"{self._seed}/{_place()}"
        self._own_connection = Connection(self._connect(), self._catch_up, self._on_change)
        self._process = os.getpid()

    @property
    def _connection(self) -> Connection:
        if self._process != os.getpid():  # forked
            self._begin()
        return self._own_connection

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.direct.url!r}, spool={str(self.spool)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in OF_A_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def __enter__(self: ClientT) -> ClientT:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def direct(self) -> Client:
        """The plain client, with every call of the service; its calls raise."""
        return self._connection.client

    @property
    def health(self) -> Health:
        """The health as seen by this process."""
        return self._connection.counters.health

    def flush(self, deadline_s: float = 10.0, *, runs: Iterable[tuple[str, str]] = ()) -> int:
        """Send the waiting reports; return how many still wait.

        runs: (dataset, run) pairs to include that this process has not used.
        """
        for dataset, run in runs:
            self._local(dataset, run)
        return self._flush(Deadline(deadline_s))

    def close(self) -> None:
        """Send the waiting reports, within a report's deadline, then close the connections."""
        deadline = Deadline(self._report_deadline_s)
        self._flush(deadline)
        self._connection.close(deadline.left_s())

    def _flush(self, deadline: Deadline) -> int:
        self._connection.probe_now()
        runs, waiting = self._known_runs(), 0
        for done, run in enumerate(runs):  # divide the time: one run must not use up all of it
            waiting += run.delivery.flush(Deadline(deadline.left_s() / (len(runs) - done)))
        return waiting

    def _catch_up(self) -> bool:
        """Return whether the service is back; first do what waited for it, so that training needn't."""
        runs = self._known_runs()
        if not self._connection.reaches(*runs[-1].name, self._report_deadline_s):
            return False
        if not all(run.catch_up() for run in runs):
            return False
        self._connection.found()
        return True

    def _known_runs(self) -> list[LocalRun]:
        with self._lock:
            return list(self._runs.values())

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

        The arguments are those of `Client.select`, with these differences.

        Args:
            ids: of all tasks that the trainer has, in the same order each time. Selected tasks that are not among them
                are replaced. A ValueError if there are none.
            subset: only tasks of this subset of the dataset; None: of the one that this process registered, or all.
            tags: only tasks with one of these tags; ignored while the service is away.
            want_effective: while the service is away, twice as many tasks as wanted groups are selected.
            idempotency_key: the same key returns the same tasks, unless the service is away.

        Raises:
            RequestError: a mistake, such as an unknown dataset, or more tasks than the trainer has.
        """
        if isinstance(ids, str):
            raise wrong_type("ids", "a list of str", ids)
        local_run = self._local(dataset, run)
        local_run.mistakes.raise_found()
        call = unsent(Client.select)(
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
        counters = self._connection.counters
        counters.add(selects=1)
        with counters.timed("select_seconds"):
            selection = local_run.select(call, ids, Deadline(self._select_deadline_s), subset=subset)
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

        The arguments are those of `Client.report`. Returns None if the report waits on disk, or was refused for good;
        `health.last_error` says why.

        Raises:
            RequestError: a mistake, such as a reward outside the run's range. Outcomes without one are reported.
        """
        local_run = self._local(dataset, run)
        outcomes = checked_list(outcomes, Outcome, "outcomes")
        counters = self._connection.counters
        counters.add(reports=1)
        self._leave_out(sum(outcome.left_out for outcome in outcomes))
        receipt = None
        with counters.timed("report_seconds"):
            try:
                call = unsent(Client.report)(
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
                deadline = Deadline(self._report_deadline_s)
                receipt = local_run.delivery.deliver(call, closes=bool(close_step), deadline=deadline)
        local_run.mistakes.raise_found()
        return receipt

    def _leave_out(self, rollouts: int) -> None:
        self._connection.counters.add(left_out_rollouts=rollouts)

    def _local(self, dataset: str, run: str) -> LocalRun:
        connection, name = self._connection, (checked(dataset, str, "dataset"), checked(run, str, "run"))
        with self._lock:
            if name not in self._runs:
                spool = spool_of(
                    self.spool,
                    url=connection.client.url,
                    dataset=dataset,
                    run=run,
                    limit_bytes=self._spool_bytes,
                    on_loss=connection.lose,
                )
                self._runs[name] = LocalRun(
                    connection,
                    spool,
                    name,
                    raises_mistakes=self._raises_mistakes,
                    report_deadline_s=self._report_deadline_s,
                    seed=self._random_seed,
                )
            return self._runs[name]


def _place() -> str:
    """Return this process's rank and number of restarts, from torchrun's environment variables."""
    return "/".join(os.environ.get(name, "0") for name in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
