"""`Selector`: what a trainer says at each step, with no word of HTTP."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, SupportsFloat

from bots_client._arguments import checked_list, checked_str, checked_strings, wrong_type
from bots_client._calls import run_calls
from bots_client._errors import InvalidRequestError
from bots_client._in_flight import InFlight
from bots_client._inputs import Outcome, joined
from bots_client._models import HistoryStep, Receipt, Run, Selection
from bots_client._resilient_client import ResilientClient

Share = Callable[[Callable[[], Selection]], Selection]
EXPECTED_EVERY = 10  # closed steps: what uniform choice could expect moves slowly
FORMAT = 2  # of `Selector.state_dict`


def alone(ask: Callable[[], Selection]) -> Selection:
    """Ask, as a job of one process does."""
    return ask()


class Selector:
    """One training job's view of one run: what to train on next, and what came of it.

        selector = Selector(ResilientClient(), "guru", ids=list(rows))
        for _ in range(steps):
            for id in selector.next(32).ids:
                selector.observe(id, train(rows[id]))
            selector.step()

    It may be shared between threads and pickled (what was observed and not yet reported is not carried along).

    Args:
        client: None: `ResilientClient()`.
        dataset: the pool.
        run: whose belief decides; jobs that train different models use different runs.
        ids: of all tasks that the trainer has, after its own filters.
        tags: only tasks that bear one of them.
        quotas: how many of the tasks bear each tag (an int), or which share of them does (a float in (0, 1]).
        uniform_share: share of the tasks drawn with no regard to the belief, in [0, 1].
        rank: of this process in its job; None: RANK of the environment, else 0. Only rank 0 closes steps and rewinds.
        share: gives every rank what rank 0 got; the default serves a job of one process.

    Raises:
        ValueError: ids is empty, holds one twice, or holds something else than texts.
    """

    def __init__(  # noqa: PLR0913 - three that matter, the others by keyword
        self,
        client: ResilientClient | None,
        dataset: str,
        run: str = "default",
        *,
        ids: Iterable[str],
        tags: Iterable[str] | None = None,
        quotas: Mapping[str, float] | None = None,
        uniform_share: float | None = None,
        rank: int | None = None,
        share: Share = alone,
    ) -> None:
        _check_client(client)
        checked_str(dataset, "dataset")
        checked_str(run, "run")
        self.client = ResilientClient() if client is None else client
        self.dataset = dataset
        self.run = run
        self.ids = checked_ids(ids)
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self._how: dict[str, Any] = {
            "tags": None if tags is None else checked_strings(tags, "tags"),
            "quotas": quotas,
            "uniform_share": uniform_share,
            "exclude": (),
        }
        self._share = share
        self._process = InFlight()
        self._closed: Receipt | HistoryStep | None = None
        self._selection: Selection | None = None
        self._uniform: float | None = None
        self._expected_at: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_process"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._process = InFlight()

    def register(self) -> None:
        """Make the dataset hold these tasks, and keep its others from being selected here; call it once, at the start.

        Dataset and run are made where they are missing. What was added, made or left out is logged, with counts. While
        the service is away, or where the key may not do this, that is logged, and the trainer goes on.

        Raises:
            ValueError: the dataset has none of these tasks, or more than 100,000 others.
        """
        self._how["exclude"] = self.client.register(self.dataset, self.ids, run=self.run)

    @property
    def is_shared(self) -> bool:
        """Whether it gives every rank what rank 0 got."""
        return self._share is not alone

    def next(self, count: int, *, key: str | None = None) -> Selection:
        """Return the tasks to train on next.

        Args:
            count: how many.
            key: Idempotency-Key; ranks that ask under one key get one answer, as long as the service is there.
        """

        def ask() -> Selection:
            # Under one key all ranks must ask for the same, and only one of them knows what was in flight.
            first = self._in_flight.take_first(count) if key is None else ()
            return self.client.select(
                self.dataset, count, ids=self.ids, run=self.run, first=first, idempotency_key=key, **self._how
            )

        selection = self._share(ask)
        self._selection = selection
        self._in_flight.begin(selection)
        return selection

    def give_back(self, selection: Selection) -> None:
        """Hand out the tasks of a selection again, first, because nobody trains on them; call it before `observe`."""
        self._in_flight.give_back(selection)

    def observe(
        self,
        task: str,
        rewards: Iterable[SupportsFloat],
        *,
        successes: float | None = None,
        effective: bool | None = None,
        selection: Selection | str | None = None,
    ) -> None:
        """Note the rewards of some rollouts of a task, until `step`; again for the same task adds to them.

        Args:
            task: its id.
            rewards: one for each rollout: what the trainer optimises. In the run's reward range, unless successes are
                given; then any finite number.
            successes: how many of these rollouts met the task's own criterion, which the belief learns; None: the
                rewards say so. Give it where rewards are shaped, such as correctness 1 + format 0.2.
            effective: whether the group has a gradient; None: it has if its rewards differ.
            selection: by which the task was selected, or its id; None: the oldest in flight that has it.
        """
        try:
            outcome = _outcome(task, checked_list(rewards, "rewards", "a list of numbers"), successes, effective)
        except InvalidRequestError as error:
            self.client.complain(error)
            outcome = Outcome.aborted(task)
        self._note(outcome, selection)

    def abort(self, task: str, *, selection: Selection | str | None = None) -> None:
        """Note that a task's rollouts never finished: nothing is learned, and it may be selected again."""
        self._note(Outcome.aborted(task), selection)

    def step(self) -> Receipt | None:
        """Report what was observed; on rank 0 that closes the training step, unless all was aborted.

        Returns:
            None if nothing was observed, or the report waits for the service.
        """
        begun = time.monotonic()
        observed = self._in_flight.take()
        teaches = any(not outcome.is_aborted for _, outcomes in observed for outcome in outcomes)
        receipt = None
        for selection, outcomes in observed:
            closes = teaches and self.rank == 0 and selection == observed[-1][0]
            receipt = self.client.report(
                self.dataset, joined(outcomes), run=self.run, selection=selection, close_step=closes
            )
        if observed:
            self._closed = receipt
        if receipt is not None and receipt.closed:
            self._expect(begun)
        return receipt

    def close_step(self) -> Receipt | None:
        """Close the training step on what others reported, such as reward workers, so that `metrics` tell of it.

        Where the run closes its steps after `tasks_per_step`, that is left to it.

        Returns:
            None if nothing was reported since the last one, or the service is away.
        """
        begun = time.monotonic()
        run = self.client.try_call(run_calls.run(self.dataset, self.run), self.dataset, self.run)
        if run is None:
            if self.client.health.is_away:
                self._closed = None
            return None
        if run.settings.tasks_per_step is not None:
            self._closed = self._last_of(run) or self._closed
            self._expect(begun)
            return None
        if not run.pending:
            return None
        receipt = self.client.report(self.dataset, [], run=self.run, close_step=True)
        self._closed = receipt
        self._expect(begun)
        return receipt

    def _last_of(self, run: Run) -> HistoryStep | None:
        """Return the last step that a run closed; None if it closed none, or the service cannot tell."""
        pages = run_calls.history(self.dataset, self.run, after_step=max(run.step - 1, 0), limit=1)
        page = None if pages.next_call is None else self.client.try_call(pages.next_call, self.dataset, self.run)
        return None if page is None else next(iter(pages.take(page)), None)

    def state_dict(self, *, step: int | None = None, checkpoint: str | None = None) -> dict[str, Any]:
        """Return where the run stands and what is in flight, as JSON values, for the trainer's checkpoint.

        Args:
            step: the trainer's own, at which it saves.
            checkpoint: what the trainer's checkpoint can be told from others by, wherever it lies: a name, or a digest.
        """
        saved, in_flight = None, list[str]()
        if self.rank == 0:
            saved = self.client.save_checkpoint(self.dataset, self.run)
            flight, mine = self._in_flight, self._in_flight.tasks
            leased = (task for lease in self.client.in_flight(self.dataset, self.run) for task in flight.whole(lease))
            in_flight = [task for task in dict.fromkeys(leased) if task in mine]
        about = {"format": FORMAT, "dataset": self.dataset, "run": self.run, "step": step, "checkpoint": checkpoint}
        return {**about, "saved": saved, "in_flight": in_flight}

    def load_state_dict(
        self, state: Mapping[str, Any], *, step: int | None = None, checkpoint: str | None = None
    ) -> None:
        """Go back to a checkpoint: rank 0 rewinds the run; what was selected or observed since is forgotten.

        `next` then hands out first what was in flight when the checkpoint was saved, and what the service has in flight
        now, as at a crash. A state that was saved at another step or with another checkpoint takes the run nowhere:
        that is logged, or raised with on_error="raise".

        Args:
            state: what `state_dict` returned.
            step: the trainer's own, at which it resumes; None: not compared.
            checkpoint: that it resumes from, as it was told to `state_dict`; None: not compared.

        Raises:
            ValueError: the state is of another dataset or run, or of another version.
        """
        if (state.get("format"), state.get("dataset"), state.get("run")) != (FORMAT, self.dataset, self.run):
            raise ValueError(
                f"the checkpoint is of dataset {state.get('dataset')!r}, run {state.get('run')!r}, format"
                f" {state.get('format')!r}; this selector is of {self.dataset!r}, {self.run!r}, {FORMAT}"
            )
        self._process = InFlight()
        if self.rank != 0 or state["saved"] is None:
            return
        for name, now in (("step", step), ("checkpoint", checkpoint)):
            if None not in (now, state[name]) and now != state[name]:
                self.client.complain(
                    ValueError(
                        f"the selector's state was saved at the trainer's {name} {state[name]!r}, and the trainer"
                        f" resumes from {name} {now!r}: the run stays as it is. Load the state of the same checkpoint"
                    )
                )
                return
        known = set(self.ids)
        leases = self.client.in_flight(self.dataset, self.run)  # before it rewinds
        first = dict.fromkeys([*state["in_flight"], *(task for lease in leases for task in lease.first)])
        self._process = InFlight(first=[task for task in first if task in known])
        self.client.load_checkpoint(state["saved"], self.dataset, self.run)

    def handed_out(self, tasks: Collection[str]) -> None:
        """Say after `load_state_dict` which tasks the trainer hands out of its own state, so that `next` does not."""
        self._in_flight.pass_over(tasks)

    def metrics(self) -> dict[str, float]:
        """Return numbers of the last step for W&B or TensorBoard, under names that begin with "bots/".

        What is not known is left out: while the service is away, nothing tells the effective task ratio. What uniform
        choice could expect is modelled by the run's belief; rank 0 asks for it after a closed step, once in ten.
        """
        values: dict[str, float | None] = {}
        if self._selection is not None:
            means = [task.mean for task in self._selection.tasks if task.mean is not None]
            values["bots/selected_mean"] = sum(means) / len(means) if means else None
        if self._closed is not None:
            values["bots/effective_task_ratio"] = self._closed.effective_task_ratio
            values["bots/capability"] = self._closed.capability
            values["bots/step"] = self._closed.step
            values["bots/uniform_effective_task_ratio"] = self._uniform
            if self._uniform and self._closed.effective_task_ratio is not None:
                values["bots/times_uniform"] = self._closed.effective_task_ratio / self._uniform
        known = {name: float(value) for name, value in values.items() if value is not None}
        return {**known, **self.client.health.as_metrics()}

    def _expect(self, begun: float) -> None:
        """Ask after a closed step what uniform choice could expect, unless that was asked lately.

        Args:
            begun: when the step was reported, by the monotonic clock; the report's deadline counts from there.
        """
        if self.rank != 0 or self._closed is None:
            return
        step, at = self._closed.step, self._expected_at
        if at is not None and at <= step < at + EXPECTED_EVERY:
            return
        self._expected_at = step
        spent_s = time.monotonic() - begun
        self._uniform = self.client.uniform_effective_task_ratio(self.dataset, self.run, spent_s=spent_s)

    @property
    def _in_flight(self) -> InFlight:
        if self._process.process != os.getpid():
            self._process = self._process.in_fork()
        return self._process

    def _note(self, outcome: Outcome, selection: Selection | str | None) -> None:
        self._in_flight.note(outcome, selection.selection_id if isinstance(selection, Selection) else selection)


def _outcome(task: str, rewards: list[SupportsFloat], successes: float | None, effective: bool | None) -> Outcome:
    if successes is None:
        return Outcome.rewards(task, rewards, effective=effective)
    return Outcome.counts(task, successes, len(rewards), rewards=rewards, effective=effective)


def _check_client(client: Any) -> None:
    if not isinstance(client, ResilientClient | None):
        write = "Selector(ResilientClient(), dataset, ids=ids)"
        raise wrong_type("client", "a ResilientClient", client, write=write)


def checked_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of a trainer's tasks.

    Raises:
        ValueError: there are none, one is there twice, or one is no text.
    """
    checked: dict[str, None] = {}
    for task in checked_list(ids, "ids", "a list of str"):
        if not isinstance(task, str):
            raise ValueError(f"ids holds {task!r}, which is no text; pass [str(row_id) for row_id in ...]")
        if task in checked:
            raise ValueError(f"ids holds {task!r} twice; a task needs an id of its own")
        checked[task] = None
    if not checked:
        raise ValueError("ids is empty; pass the ids of all tasks that the trainer has")
    return tuple(checked)
