"""Trainers that report without a pause, and what their reports must come to: plain Python beside the service."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest

from bots_client import Client, Outcome, Retries, Selection, ServiceError, Task, UnreachableError
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.walks import Walk
from tests.servers import wait_until
from tests.serving import running_service

TASKS = 200
TRIALS = 16
RETRIES = Retries(attempts=4, first_wait_s=0.02, longest_wait_s=0.2)  # then the other service is asked
GIVE_UP_S = 300.0  # for one report; nothing is away for that long
PAUSE_S = 0.25  # at most, between reports beyond the quota, so that the processor is not all theirs


def create_pool(url: str, belief: str = "bots") -> None:
    tasks = [Task(str(task), tuple(rates)) for task, rates in enumerate(references().tolist())]
    with Client(url, deadline_s=60) as client:
        client.create_dataset("pool", tasks, reference_models=["weak", "strong"])
        client.create_run("pool", "default", belief=belief)


def references() -> np.ndarray:
    grid = np.random.default_rng(1).integers(0, 17, (TASKS, 2)) / 16
    return np.sort(grid, axis=1)


@dataclass
class Sent:
    """One report: what was said, and what was answered.

    walks: how far its selection walked through passes. seq: 0 until it is acknowledged.
    """

    key: str
    tasks: list[int]
    successes: list[int]
    made_at: int | None
    close_step: bool | None
    walks: tuple[Walk, ...] = ()
    seq: int = 0


def walks_of(selection_id: str) -> tuple[Walk, ...]:
    """Return how far a selection walked, as its id says: epoch-step-seq-ordinal, then the walks, then a check."""
    parts = selection_id.split("-")[4:-1]
    return tuple(Walk(*(int(number, 16) for number in part.split("."))) for part in parts)


@dataclass
class Account:
    """What all trainers sent and were told.

    belief: of their run. missed: why selects were not answered. floor: the greatest seq that was acknowledged as seen
    by all replicas. over: set once the test has ended, so that no trainer outlives its services.
    """

    belief: str = "bots"
    sent: list[Sent] = field(default_factory=list)
    selections: list[Selection] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    floor: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def replayed(self) -> tuple[RunState, Pool]:
        """Return the state that exactly these reports make, in the order of their numbers; checks what was selected.

        Every selection must show the beliefs that stood after its seq, so none was drawn from a reset or torn one.
        """
        pool = Pool.of_tasks(references())
        state = fresh_state(settings_from({"belief": self.belief}), pool)
        drawn: dict[int, list[Selection]] = {}
        for selection in self.selections:
            drawn.setdefault(selection.seq, []).append(selection)
        assert_shows(drawn.get(0, []), state, pool)
        for sent in sorted(self.sent, key=lambda one: one.seq):
            successes = np.array(sent.successes, float)
            evidence = Evidence(
                np.array(sent.tasks, np.int32), successes, TRIALS - successes, (successes > 0) & (successes < TRIALS)
            )
            report = Report(evidence, sent.made_at, sent.close_step, sent.walks)
            state, _ = advance(state, Entry(sent.seq, 0, pool.profiles, report), pool)
            assert_shows(drawn.get(sent.seq, []), state, pool)
        return state, pool


def assert_shows(selections: list[Selection], state: RunState, pool: Pool) -> None:
    for selection in selections:
        tasks = np.array([int(task) for task in selection.ids], np.int32)
        assert selection.step == state.step
        assert [task.mean for task in selection.tasks] == state.belief.distributions(pool, tasks).mean.tolist()


def require_excuse(error: UnreachableError | ServiceError) -> None:
    """A service may be gone, or say that it can't just now (503); it may never fall over its own feet (500)."""
    if error.status not in (None, 503):
        raise error


@dataclass
class Reporter:
    """Selects and reports through whichever service answers; sends a report under its key until it is acknowledged."""

    number: int
    urls: list[str]
    account: Account
    seed: int

    def work(self, quota: int, enough: threading.Event) -> None:
        """Send so many reports without a pause, and more until told that it is enough."""
        rng = random.Random(self.seed * 1000 + self.number)
        clients = [Client(url, deadline_s=5, retries=RETRIES) for url in self.urls]
        try:
            turn = 0
            while not self.account.over.is_set() and (turn < quota or not enough.is_set()):
                self.send(clients, rng, self.make(clients, rng, turn))
                turn += 1
                if turn > quota:
                    enough.wait(rng.uniform(0.0, PAUSE_S))
        except Exception as error:
            self.account.failures.append(f"reporter {self.number}: {type(error).__name__}: {error}")
        finally:
            for client in clients:
                client.close()

    def make(self, clients: list[Client], rng: random.Random, turn: int) -> tuple[Sent, Selection | None]:
        """Return the next report, of selected tasks or of others."""
        selection = self.select(rng.choice(clients)) if rng.random() < 0.5 else None
        tasks = sorted(rng.sample(range(TASKS), 8)) if selection is None else [int(task) for task in selection.ids]
        successes = [rng.randint(0, TRIALS) for _ in tasks]
        close = rng.choice([None, None, None, False, True])
        made_at, walks = (None, ()) if selection is None else (selection.step, walks_of(selection.selection_id))
        return Sent(f"{self.number}-{turn}", tasks, successes, made_at, close, walks), selection

    def select(self, client: Client) -> Selection | None:
        floor = self.account.floor
        try:
            selection = client.select("pool", 8)
        except (UnreachableError, ServiceError) as error:
            require_excuse(error)
            self.account.missed.append(str(error))
            return None
        assert selection.degraded or selection.seq >= floor, f"drawn from {selection.seq}, {floor} was acknowledged"
        with self.account.lock:
            self.account.selections.append(selection)
        return selection

    def send(self, clients: list[Client], rng: random.Random, made: tuple[Sent, Selection | None]) -> None:
        sent, selection = made
        pairs = zip(sent.tasks, sent.successes, strict=True)
        outcomes = [Outcome.counts(str(task), successes=count, trials=TRIALS) for task, count in pairs]
        give_up = time.monotonic() + GIVE_UP_S
        while not self.account.over.is_set() and time.monotonic() < give_up:
            try:
                receipt = rng.choice(clients).report(
                    "pool", outcomes, selection=selection, close_step=sent.close_step, idempotency_key=sent.key
                )
            except (UnreachableError, ServiceError) as error:
                require_excuse(error)
                continue
            with self.account.lock:
                sent.seq = receipt.seq
                self.account.sent.append(sent)
                self.account.floor = max(self.account.floor, 0 if receipt.degraded else receipt.seq)
            return
        assert self.account.over.is_set(), f"report {sent.key} was not acknowledged in {GIVE_UP_S} s"


REPORTERS = 8
SETTLED_S = 120.0


@contextmanager
def load(
    urls: list[str], seed: int, account: Account, *, reports: int, enough: threading.Event
) -> Iterator[list[threading.Thread]]:
    """Start the reporters; end them with the test, also where it failed: their errors would fail a later test."""
    reporters = [Reporter(number, urls, account, seed) for number in range(REPORTERS)]
    threads = [threading.Thread(target=one.work, args=(reports // REPORTERS, enough)) for one in reporters]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        account.over.set()
        for thread in threads:
            thread.join()


def means(url: str) -> dict[str, float]:
    answer = httpx.get(f"{url}/datasets/pool/runs/default/tasks", params={"limit": 1000}, timeout=60)
    return {task["id"]: task["mean"] for task in answer.raise_for_status().json()["tasks"]}


def assert_settled(urls: list[str], database_url: str, account: Account, folder: Path) -> RunState:
    """All services, and one that knows nothing but the journal, hold exactly what the reports come to: return that."""
    assert account.failures == [], account.failures
    assert sorted(one.seq for one in account.sent) == list(range(1, len(account.sent) + 1))
    state, pool = account.replayed()
    believed = state.belief.distributions(pool, np.arange(TASKS, dtype=np.int32)).mean.tolist()
    # The state's bytes are compared by some tests; a matrix product may round differently where it has other columns.
    wanted = pytest.approx({str(task): believed[task] for task in range(TASKS)}, rel=1e-12)
    for url in urls:
        with Client(url, deadline_s=60) as client:
            wait_until(lambda client=client: client.run("pool").seq == state.seq, SETTLED_S)  # type: ignore[misc]
            run = client.run("pool")
        assert (run.step, run.epoch, run.estimates.get("capability")) == (state.step, 0, state.belief.capability)
        assert asdict(run.totals) == asdict(state.totals)
        assert means(url) == wanted
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM snapshots")
    with running_service(folder / "cold", database_url=database_url) as cold:
        assert means(cold.url) == wanted
    return state
