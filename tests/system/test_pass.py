"""`pass` over HTTP, on two replicas of which one is killed: every selection is what twenty lines say, task by task."""

import random
from contextlib import closing

import numpy as np

from bots_service.core.entries import Entry, Report, Rewind
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.walks import Walk
from tests.core.plain_pass import plain_pass
from tests.serving import ServiceProcess
from tests.sizes import size
from tests.system.replica import Replica

SELECTIONS = size(80, 200)
KILLED_AT, REWOUND_AT, REWOUND_TO = 60, 120, 70
TASKS, COUNT, ROLLOUTS, SEED = 60, 4, 8, 11
RUN = "/datasets/pool/runs/default"
RATES = np.stack([np.arange(TASKS) % 17 / 16, np.arange(TASKS) % 13 / 12], axis=1)


class Follower:
    """The run as a journal of its own leads to it, and what `pass` must choose in it."""

    def __init__(self) -> None:
        self.pool = Pool.of_tasks(RATES)
        settings = settings_from({"strategy": "pass", "seed": SEED})
        self.states: list[RunState] = [fresh_state(settings, self.pool)]
        self.in_flight: dict[str, tuple[list[int], Walk, int]] = {}

    @property
    def state(self) -> RunState:
        return self.states[-1]

    def chosen(self, selection_id: str) -> list[int]:
        """Return the tasks of the next selection, which are then in flight."""
        believed = self.state.belief.distributions(self.pool, np.arange(TASKS, dtype=np.int32))
        leased = {task for tasks, _, _ in self.in_flight.values() for task in tasks}
        walk = self.state.walks.of(0, TASKS)
        tasks, end = plain_pass(
            believed.effective(self.state.group_size).item,
            set(range(TASKS)) - leased,
            COUNT,
            (walk.turn, walk.place, walk.size),
            size=TASKS,
            seed=SEED,
        )
        self.in_flight[selection_id] = (tasks, Walk(0, *end), self.state.step)
        return tasks

    def report(self, selection_id: str, successes: list[int]) -> None:
        tasks, walk, step = self.in_flight.pop(selection_id)
        solved = np.array(successes, float)
        effective = (solved > 0) & (solved < ROLLOUTS)
        evidence = Evidence(np.array(tasks, np.int32), solved, ROLLOUTS - solved, effective)
        self._then(Report(evidence, step, None, (walk,)), self.state.epoch)

    def rewind(self, step: int) -> None:
        seq = next(state.seq for state in self.states if (state.epoch, state.step) == (self.state.epoch, step))
        self._then(Rewind(seq, step), self.state.epoch + 1, base=self.states[seq])

    def _then(self, body: Report | Rewind, epoch: int, base: RunState | None = None) -> None:
        entry = Entry(self.state.seq + 1, epoch, self.pool.profiles, body)
        self.states.append(advance(self.state, entry, self.pool, base=base)[0])


def test_replicas_retries_kills_and_rewinds_give_one_walk(services: list[ServiceProcess]):
    with closing(Replica(services[0].url)) as one, closing(Replica(services[1].url)) as other:
        walk_on(services, [one, other])


def walk_on(services: list[ServiceProcess], replicas: list[Replica]) -> None:
    rng = random.Random(5)
    tasks = [{"id": f"t{number}", "reference_pass_rates": rates} for number, rates in enumerate(RATES.tolist())]
    replicas[0].call("PUT", "/datasets/pool", reference_models=["weak", "strong"], tasks=tasks)
    replicas[1].call("PUT", RUN, strategy="pass", seed=SEED)
    follower = Follower()
    for number in range(SELECTIONS):
        if number == KILLED_AT:
            services[0].kill()
            services[0].start()
        if number == REWOUND_AT:
            report_all(rng.choice(replicas), follower, rng, at_most=0)
            rng.choice(replicas).call("POST", f"{RUN}/rewind", step=REWOUND_TO)
            follower.rewind(REWOUND_TO)
        select_twice(rng.sample(replicas, 2), follower, key=f"select {number}")
        report_all(rng.choice(replicas), follower, rng, at_most=rng.randrange(4))
    assert follower.state.walks.of(0, TASKS).turn > 5


def select_twice(replicas: list[Replica], follower: Follower, *, key: str) -> None:
    """Select at one replica, and ask the other again under the same key."""
    headers = {"Idempotency-Key": key}
    first, again = [replica.call("POST", "/select", headers, dataset="pool", count=COUNT) for replica in replicas]
    assert first == again
    assert not first["reused"]
    assert [task["id"] for task in first["tasks"]] == [f"t{task}" for task in follower.chosen(first["selection_id"])]


def report_all(replica: Replica, follower: Follower, rng: random.Random, *, at_most: int) -> None:
    """Report selections, in any order, until at most so many are in flight."""
    while len(follower.in_flight) > at_most:
        selection_id = rng.choice(sorted(follower.in_flight))
        tasks, _, _ = follower.in_flight[selection_id]
        successes = [rng.choice([0, task % (ROLLOUTS + 1), ROLLOUTS]) for task in tasks]
        outcomes = [
            {"task": f"t{task}", "successes": solved, "trials": ROLLOUTS}
            for task, solved in zip(tasks, successes, strict=True)
        ]
        told = replica.call("POST", "/report", dataset="pool", selection_id=selection_id, outcomes=outcomes)
        follower.report(selection_id, successes)
        assert told["step"] == follower.state.step
