"""Two replicas over HTTP: Redis is wiped, one is killed again and again; what they select is what it must be."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import httpx
import numpy as np
import pytest

from bots_service.core.entries import Entry, Report, Rewind
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.walks import Walk
from tests.core.plain_pass import plain_pass
from tests.servers import PostgresServer, RedisServer
from tests.serving import ServiceProcess
from tests.sizes import size

ADMIN_KEY = "the-operators-own-key"
PATIENT_S = 60.0


class Replica:
    """A client of one service, by the operator's key."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=PATIENT_S, headers={"Authorization": f"Bearer {ADMIN_KEY}"})

    def call(self, method: str, path: str, headers: dict[str, str] | None = None, **body: Any) -> Any:
        answer = self._http.request(method, path, json=body, headers=headers)
        assert answer.is_success, f"{method} {path} {body}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def close(self) -> None:
        self._http.close()


@pytest.fixture(scope="module")
def services(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: PostgresServer,
    migrated_postgres: str,
    redis_server: RedisServer,
) -> Iterator[list[ServiceProcess]]:
    """Two services that started with one empty database and Redis."""
    with redis_server.client() as client:
        client.flushall()
    folder = tmp_path_factory.mktemp("replicas")
    url = postgres.new_database(like=migrated_postgres)
    settings = {"database_url": url, "redis_url": redis_server.url, "redis_timeout_s": "10"}
    both = [ServiceProcess(folder / name, admin_key=ADMIN_KEY, **settings) for name in ("a", "b")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(ServiceProcess.start, both))
    yield both
    for service in both:
        service.stop()
    postgres.drop_database(url)


WIPES = 20


@pytest.fixture
def replicas(services: list[ServiceProcess]) -> Iterator[tuple[Replica, Replica]]:
    with closing(Replica(services[0].url)) as one, closing(Replica(services[1].url)) as two:
        yield one, two


def tasks_of(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": f"t{number}", "tags": [f"tag-t{number}"]} for number in range(first, first + count)]


@pytest.mark.parametrize("strategy", ["pass", "thompson"])
def test_no_selection_is_made_twice_across_wipes_of_redis_and_those_after_one_say_degraded(
    replicas: tuple[Replica, Replica], redis_server: RedisServer, strategy: str
):
    dataset = f"wiped-{strategy}"
    replicas[0].call("PUT", f"/datasets/{dataset}", tasks=tasks_of(0, 60))
    replicas[1].call("PUT", f"/datasets/{dataset}/runs/default", strategy=strategy)
    made: list[tuple[str, tuple[str, ...]]] = []
    told: list[list[bool]] = []

    def select(replica: Replica) -> bool:
        chosen = replica.call("POST", "/select", dataset=dataset, count=8)
        made.append((chosen["selection_id"], tuple(task["id"] for task in chosen["tasks"])))
        return chosen["degraded"]

    with redis_server.client() as client:
        for round_ in range(WIPES):
            told.append([select(replica) for replica in (*replicas, *replicas)])
            if round_ % 5 == 4:  # so that most wipes leave the run at the same entry, where its draws could come again
                report = replicas[round_ % 2].call(
                    "POST", "/report", dataset=dataset, outcomes=[{"task": "t1", "successes": 1, "trials": 4}]
                )
                assert not report["degraded"]  # it is in SQL, and published anew
            client.flushall()
    assert told == [[False] * 4] + [[True] * 4] * (WIPES - 1)
    ids, tasks = zip(*made, strict=True)
    assert len(set(ids)) == len(ids)
    if strategy == "thompson":  # a pass goes on from what was reported, and meets the same tasks again
        assert len(set(tasks)) == len(tasks)


TAGS = {"math": 2000, "code": 1500, "lang": 600, "logic": 200}
WEIGHTS = {"math": 8, "code": 4, "lang": 2, "logic": 1}
MIXED_SELECTIONS = {1: size(130, 1000), 32: size(24, 1000)}  # by their tasks
KILLS = size(1, 6)
CLOSE = 0.01  # of all tasks, from the hundredth on


@pytest.mark.parametrize("count", MIXED_SELECTIONS)
def test_shares_hold_at_every_point_whichever_replica_answers(services: list[ServiceProcess], count: int):
    with ExitStack() as opened:
        replicas = [opened.enter_context(closing(Replica(service.url))) for service in services]
        run = MixedRun(f"mixed-{count}", replicas[0])
        rng = random.Random(count)
        kills = set(rng.sample(range(MIXED_SELECTIONS[count]), KILLS))
        for number in range(MIXED_SELECTIONS[count]):
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


PASS_SELECTIONS = size(80, 200)
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
    for number in range(PASS_SELECTIONS):
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
    headers = {"Idempotency-Key": key}
    first, again = [replica.call("POST", "/select", headers, dataset="pool", count=COUNT) for replica in replicas]
    assert first == again
    assert not first["reused"]
    assert [task["id"] for task in first["tasks"]] == [f"t{task}" for task in follower.chosen(first["selection_id"])]


def report_all(replica: Replica, follower: Follower, rng: random.Random, *, at_most: int) -> None:
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
