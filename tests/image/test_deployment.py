"""docker-compose.yml's services in containers: they find each other, and nothing acknowledged is lost."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bots_client import Client, Outcome, Task
from tests.image.containers import VALUES, Container, Deployment, build_next, inspect, podman, started
from tests.image.trainers import RUNS
from tests.servers import wait_until

REPORTED_MEANWHILE = 20


def client(replica: Container) -> Client:
    return Client(replica.url, api_key=VALUES["BOTS_ADMIN_KEY"])


@contextmanager
def trainers_at_work(deployment: Deployment, dataset: str) -> Iterator[Container]:
    """Train all the while; in the end, every acknowledged report was counted once, and no call failed."""
    with started(deployment.trainers(dataset)) as trainers:
        wait_until(lambda: all(f"at work {run}" in trainers.log() for run in RUNS), 60)
        yield trainers
        assert trainers.stop() == 0
        told = json.loads(trainers.log().splitlines()[-1])
    for replica in deployment.replicas:
        with client(replica) as bots:
            for run, (acknowledged, failed) in told.items():
                assert failed == []
                assert len(set(acknowledged)) == len(acknowledged)
                counted = bots.run(dataset, run)
                assert counted.step == len(acknowledged)
                assert counted.totals.rollouts == 16 * len(acknowledged)
    print(f"{dataset}: {sum(len(acknowledged) for acknowledged, _ in told.values())} reports, none lost")


def wait_for_more(deployment: Deployment, dataset: str) -> None:
    with client(deployment.replicas[0]) as bots:
        before = {run: bots.run(dataset, run).step for run in RUNS}
        wait_until(lambda: all(bots.run(dataset, run).step >= before[run] + REPORTED_MEANWHILE for run in RUNS), 60)


def test_the_replicas_find_their_servers_by_name_and_agree(deployment: Deployment):
    first, second = deployment.replicas
    with client(first) as here, client(second) as there:
        here.create_dataset("agreed", [Task("one"), Task("two")])
        told = there.report("agreed", [Outcome.counts("one", 1, 4)])
        assert not told.degraded
        assert here.run("agreed").seq == told.seq
    assert json.loads(first.execute("bots", "doctor", "--json"))["problems"] == 0


def test_an_upgrade_of_the_image_under_load_loses_nothing(deployment: Deployment, tmp_path: Path):
    with trainers_at_work(deployment, "upgraded"):
        deployment.image = build_next(tmp_path)
        deployment.migrate()  # the old replicas still serve
        for number, old in enumerate(deployment.replicas, 1):
            assert old.stop() == 0
            old.remove()
            new = deployment.replica(number)
            new.start()
            new.wait_until_ready()
            assert inspect(new.name)["ImageName"] == deployment.image
        wait_for_more(deployment, "upgraded")


@pytest.mark.parametrize("victim", ["replica", "postgres", "redis"])
def test_a_kill_under_load_loses_nothing(deployment: Deployment, victim: str):
    container = {"replica": deployment.replicas[1], "postgres": deployment.postgres, "redis": deployment.redis}[victim]
    dataset = f"killed-{victim}"
    with trainers_at_work(deployment, dataset):
        container.kill()
        podman("start", container.name)
        if victim == "replica":
            container.wait_until_ready()
        else:
            deployment.wait_for_servers()
        wait_for_more(deployment, dataset)
