"""Requests about one dataset, made before they are timed where that is possible."""

import itertools
import json
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.load import Ask

BODIES = 32  # different reports of each size; making each again would take this process's time


class Asks:
    """Makes requests about the tasks "0", "1", ... of a dataset, each under a key of its own."""

    def __init__(self, dataset: str, tasks: int) -> None:
        self.dataset = dataset
        self.tasks = tasks
        self._keys = map("bench-{}".format, itertools.count(time.time_ns()))
        self._rng = np.random.default_rng([3, tasks])

    def select(self, run: str, count: int) -> Ask:
        """Return a request for so many tasks."""
        body = b'{"dataset":"%s","run":"%s","count":%d}' % (*self._place(run), count)
        return Ask("/select", body, next(self._keys), run)

    def selects(self, runs: list[str], count: int) -> Iterator[Ask]:
        """Yield requests for so many tasks, of each run in turn, without end."""
        return (self.select(run, count) for run in itertools.cycle(runs))

    def reports(self, runs: list[str], count: int) -> Iterator[Ask]:
        """Yield reports of so many tasks picked at random, to each run in turn, without end; each closes a step."""
        bodies = itertools.cycle([self._outcomes(count) for _ in range(BODIES)])
        return (self._report(run, outcomes) for run, outcomes in zip(itertools.cycle(runs), bodies, strict=False))

    def answer_to(self, selection: bytes) -> Ask:
        """Return the report of a selection's tasks."""
        made = json.loads(selection)
        outcomes = [
            {"task": task["id"], "successes": solved, "trials": 16}
            for task, solved in zip(made["tasks"], self._solved(len(made["tasks"])), strict=True)
        ]
        places = {name: made[name] for name in ("dataset", "run", "selection_id")}
        return Ask("/report", json.dumps({**places, "outcomes": outcomes}).encode(), next(self._keys), made["run"])

    def rewind(self, selection: bytes) -> Ask:
        """Return the request that rewinds the selection's run to where it stood, which ends its leases."""
        made = json.loads(selection)
        path = f"/datasets/{self.dataset}/runs/{made['run']}/rewind"
        return Ask(path, json.dumps({"step": made["step"]}).encode(), next(self._keys), made["run"])

    def _report(self, run: str, outcomes: bytes) -> Ask:
        body = b'{"dataset":"%s","run":"%s","outcomes":%s}' % (*self._place(run), outcomes)
        return Ask("/report", body, next(self._keys), run)

    def _place(self, run: str) -> tuple[bytes, bytes]:
        return self.dataset.encode(), run.encode()

    def _outcomes(self, count: int) -> bytes:
        tasks = self._rng.choice(self.tasks, count, replace=False).tolist()
        pairs = zip(tasks, self._solved(count), strict=True)
        return json.dumps([{"task": str(task), "successes": solved, "trials": 16} for task, solved in pairs]).encode()

    def _solved(self, count: int) -> list[int]:
        solved: list[int] = self._rng.integers(0, 17, count).tolist()
        return solved
