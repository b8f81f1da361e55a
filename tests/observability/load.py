"""What the services under Prometheus are given to do: runs that train, and one to which happens what goes astray."""

import itertools
from typing import Any

import httpx

from tests.observability.prometheus import SOON_S
from tests.serving import ServiceProcess

TASKS, TRIALS = 200, 8
RUNS = ("default", "other")  # whose history is all that they did
ASTRAY = "astray"  # it is rewound, again and again


class Load:
    """Two services at work on one pool; what becomes of a task, its number says."""

    def __init__(self, services: list[ServiceProcess]) -> None:
        self._services = services
        self._last: dict[str, tuple[Any, str]] = {}  # run -> its last report, and its key
        self._keys = map("key-{}".format, itertools.count())
        tasks = [
            {"id": task, "reference_pass_rates": [_rate(task) / 2, _rate(task)]}
            for task in (f"t{number}" for number in range(TASKS))
        ]
        self.ask("PUT", 0, "/datasets/pool", {"reference_models": ["weak", "strong"], "tasks": tasks})
        for run, settings in (("other", {"belief": "bots", "strategy": "uniform"}), (ASTRAY, {"strategy": "shuffle"})):
            self.ask("PUT", 0, f"/datasets/pool/runs/{run}", settings)

    def train(self, reports: int) -> None:
        for number in range(reports):
            here = number % 2
            run = RUNS[number % 3 == 0]
            self.report(1 - here, run, self.select(here, run))

    def stumble(self) -> None:
        """Send a report twice, one late, one after a rewind, and a request for what there is not."""
        early, on_time = self.select(0, ASTRAY), self.select(1, ASTRAY)
        key = next(self._keys)
        for _ in range(2):
            self.report(0, ASTRAY, on_time, key=key)
        assert self.report(1, ASTRAY, early)["late"] > 0
        fenced = self.select(0, ASTRAY)
        self.ask("POST", 0, f"/datasets/pool/runs/{ASTRAY}/rewind", {"step": 0})
        self.report(0, ASTRAY, fenced, status=409)
        self.report(1, ASTRAY, self.select(1, ASTRAY))

    def settle(self) -> None:
        """Send each run's last report again, to both: who looked between two reports of the other looks once more."""
        for run, (body, key) in self._last.items():
            for place in range(len(self._services)):
                assert self.ask("POST", place, "/report", body, key=key)["duplicate"], run

    def select(self, place: int, run: str) -> Any:
        return self.ask("POST", place, "/select", {"dataset": "pool", "run": run, "count": 4})

    def report(self, place: int, run: str, selection: Any, *, key: str | None = None, status: int = 200) -> Any:
        outcomes = [
            {
                "task": task["id"],
                "successes": round(TRIALS * _rate(task["id"])),
                "trials": TRIALS,
                "tokens": 800,
                "seconds": 4,
            }
            for task in selection["tasks"]
        ]
        body = {"dataset": "pool", "run": run, "selection_id": selection["selection_id"], "outcomes": outcomes}
        key = key or next(self._keys)
        answer = self.ask("POST", place, "/report", body, key=key, status=status)
        if status == 200:
            self._last[run] = body, key
        return answer

    def ask(
        self, method: str, place: int, path: str, body: Any, *, key: str | None = None, status: int | None = None
    ) -> Any:
        headers = {} if key is None else {"Idempotency-Key": key}
        url = f"{self._services[place].url}{path}"
        answer = httpx.request(method, url, json=body, headers=headers, timeout=SOON_S)
        assert answer.is_success if status is None else answer.status_code == status, answer.text
        return answer.json()


def _rate(task: str) -> float:
    """Return the true pass rate of a task: some are always solved, some never, most at times."""
    return (0.0, 0.375, 0.625, 1.0)[int(task[1:]) % 4]
