"""A mix over HTTP, on two replicas of which one is killed again and again: the shares hold at every point."""

import random
from contextlib import ExitStack, closing

import pytest

from tests.serving import ServiceProcess
from tests.sizes import size
from tests.system.replica import Replica

TAGS = {"math": 2000, "code": 1500, "lang": 600, "logic": 200}
WEIGHTS = {"math": 8, "code": 4, "lang": 2, "logic": 1}
SELECTIONS = {1: size(130, 1000), 32: size(24, 1000)}  # by their tasks
KILLS = size(1, 6)
CLOSE = 0.01  # of all tasks, from the hundredth on


@pytest.mark.parametrize("count", SELECTIONS)
def test_shares_hold_at_every_point_whichever_replica_answers(services: list[ServiceProcess], count: int):
    with ExitStack() as opened:
        replicas = [opened.enter_context(closing(Replica(service.url))) for service in services]
        run = MixedRun(f"mixed-{count}", replicas[0])
        rng = random.Random(count)
        kills = set(rng.sample(range(SELECTIONS[count]), KILLS))
        for number in range(SELECTIONS[count]):
            if number in kills:
                services[number % 2].kill()
                services[number % 2].start()
            run.select(rng.choice(replicas), count)
            run.require_shares()
            while len(run.in_flight) > rng.randrange(4):
                run.report(rng.choice(replicas), rng)
        shown = {one["tag"]: one for one in replicas[1].call("GET", f"/datasets/{run.name}/runs/default")["mix"]}
        assert {tag: one["given"] for tag, one in shown.items()} == run.reported


class MixedRun:
    """A run with a mix, and what was selected and reported of each tag."""

    def __init__(self, name: str, replica: Replica) -> None:
        self.name = name
        self.selected, self.reported = dict.fromkeys(TAGS, 0), dict.fromkeys(TAGS, 0)
        self.in_flight: list[tuple[str, list[str]]] = []
        tasks = [{"id": f"{tag}-{number}", "tags": [tag]} for tag, size in TAGS.items() for number in range(size)]
        replica.call("PUT", f"/datasets/{name}", tasks=tasks)
        replica.call("PUT", f"/datasets/{name}/runs/default", mix=WEIGHTS)

    def select(self, replica: Replica, count: int) -> None:
        selection = replica.call("POST", "/select", dataset=self.name, count=count)
        ids = [task["id"] for task in selection["tasks"]]
        assert (len(set(ids)), selection["reused"]) == (count, 0)
        self.in_flight.append((selection["selection_id"], ids))
        self._count(self.selected, ids)

    def report(self, replica: Replica, rng: random.Random) -> None:
        selection_id, ids = self.in_flight.pop(rng.randrange(len(self.in_flight)))
        outcomes = [{"task": task, "successes": rng.randrange(5), "trials": 4} for task in ids]
        replica.call("POST", "/report", dataset=self.name, selection_id=selection_id, outcomes=outcomes)
        self._count(self.reported, ids)

    def _count(self, counts: dict[str, int], ids: list[str]) -> None:
        for task in ids:
            counts[task.split("-")[0]] += 1

    def require_shares(self) -> None:
        total, weights = sum(self.selected.values()), sum(WEIGHTS.values())
        if total < 100:
            return
        for tag, weight in WEIGHTS.items():
            assert abs(self.selected[tag] / total - weight / weights) <= CLOSE, (tag, self.selected)
