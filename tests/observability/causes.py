"""What makes alerts fire, done to real services."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import httpx

from tests.observability.prometheus import SOON_S
from tests.servers import RedisServer

TASKS, BATCH, TRIALS = 64, 16, 16
PAUSE_S = 0.2
SLOW_S, BETWEEN_S = 0.9, 0.05
PATIENT = {"redis_timeout_s": "5"}  # a service that waits for a slow Redis, instead of going on without it

Selected = dict[str, Any]
RIGHT = 8 * BATCH  # groups that the verifier of the run "outage" judges before it breaks
JUDGED = count()


def _by_a_verifier_that_breaks(_: Selected) -> int:
    return TRIALS // 2 if next(JUDGED) < RIGHT else 0


# run -> how many of a selected task's rollouts are solved
TRAINERS: dict[str, Callable[[Selected], int]] = {
    "steady": lambda _: TRIALS // 2,
    "solved": lambda _: TRIALS,  # nothing to learn from
    "narrow": lambda _: TRIALS // 2,
    "outage": _by_a_verifier_that_breaks,
    "drifted": lambda task: 1 if task["mean"] > 0.5 else TRIALS - 1,  # the opposite of what is believed
}
FEW = {"narrow": "few"}  # run -> the tag of all tasks that it asks for; a quarter of the pool, just enough for a batch
FORGETFUL = {"belief": "bots", "forgetting": 0.9}  # else what was believed and its opposite would soon cancel out


def prepare(url: str) -> None:
    """Make the dataset and the runs; leave one run with tasks in flight that nobody reports."""
    with httpx.Client(base_url=url, timeout=SOON_S) as http:
        tasks = [{"id": f"t{number}", "tags": ["few"] * (number < BATCH)} for number in range(TASKS)]
        http.put("/datasets/pool", json={"tasks": tasks}).raise_for_status()
        for run in (*TRAINERS, "stalled"):
            http.put(f"/datasets/pool/runs/{run}", json=FORGETFUL).raise_for_status()
        http.post("/select", json={"dataset": "pool", "run": "stalled", "count": BATCH}).raise_for_status()


@contextmanager
def trainers(url: str) -> Iterator[None]:
    """Let one trainer for each run select and report, whatever it is answered, until the end."""
    ended = threading.Event()
    threads = [threading.Thread(target=_train, args=(url, run, ended)) for run in TRAINERS]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _train(url: str, run: str, ended: threading.Event) -> None:
    selection: dict[str, Any] = {}
    with httpx.Client(base_url=url, timeout=SOON_S) as http:
        while not ended.wait(PAUSE_S):
            with contextlib.suppress(httpx.HTTPError):  # the service or what it needs is away: that's the cause
                wanted = {"dataset": "pool", "run": run, "count": BATCH, "tags": [FEW[run]] if run in FEW else []}
                answer = http.post("/select", json=wanted)
                selection = answer.raise_for_status().json()
                outcomes = [
                    {"task": task["id"], "successes": TRAINERS[run](task), "trials": TRIALS}
                    for task in selection["tasks"]
                ]
                body = {"dataset": "pool", "run": run, "selection_id": selection["selection_id"], "outcomes": outcomes}
                http.post("/report", json=body).raise_for_status()


@contextmanager
def slow(redis: RedisServer) -> Iterator[None]:
    """Let Redis answer nobody for most of a second, again and again, until the end."""
    ended = threading.Event()
    thread = threading.Thread(target=_pause, args=(redis, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _pause(redis: RedisServer, ended: threading.Event) -> None:
    with redis.client() as client:
        while not ended.wait(BETWEEN_S):
            client.client_pause(round(SLOW_S * 1000), all=True)
            client.ping()  # waits as all others do
