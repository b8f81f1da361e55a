"""What users see while Redis or PostgreSQL is away or hangs, and that all is well afterwards without anybody's help."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bots_client import Client, Outcome, Retries, Selection, ServiceError, Task
from tests.servers import Server, wait_until
from tests.serving import running_service
from tests.system.faults.cluster import Cluster, cluster

PATIENT_S = 60.0
ONCE = Retries(attempts=1)
REQUEST_TIMEOUT_S = 6.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("outages")
    settings = {"database_timeout_s": "2", "request_timeout_s": str(REQUEST_TIMEOUT_S)}
    with cluster(folder, seed=3, **settings) as running:
        yield running


@pytest.fixture
def pool(made: Cluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").strip("]")[:100]
    for url in made.direct:
        with Client(url, deadline_s=PATIENT_S) as client:
            client.create_dataset(name, [Task(f"t{number}") for number in range(50)])
            report(client, name)
            client.select(name, 2)
    return name


def report(client: Client, pool: str, selection: Selection | None = None, key: str | None = None):
    tasks = ("t1", "t2") if selection is None else selection.ids
    outcomes = [Outcome.counts(task, successes=3, trials=8) for task in tasks]
    return client.report(pool, outcomes, selection=selection, idempotency_key=key)


def readiness(made: Cluster) -> list[tuple[int, str]]:
    began = time.monotonic()
    answers = [httpx.get(f"{url}/readyz", timeout=PATIENT_S) for url in made.direct]
    assert time.monotonic() - began < PATIENT_S / 2
    return [(answer.status_code, answer.json()["status"]) for answer in answers]


def is_whole(client: Client, pool: str) -> bool:
    try:
        client.select(pool, 2)
        return not report(client, pool).degraded and not client.run(pool).degraded
    except ServiceError:
        return False


@pytest.mark.parametrize("how", ["kill", "hang"])
def test_without_redis_select_and_report_go_on_and_say_so(made: Cluster, pool: str, how: str):
    with Client(made.direct[0], deadline_s=PATIENT_S) as a, Client(made.direct[1], deadline_s=PATIENT_S) as b:
        before = a.run(pool).seq
        away(made.redis, how)
        wait_until(lambda: readiness(made) == [(200, "degraded")] * 2, PATIENT_S)
        selection = a.select(pool, 4)
        receipt = report(a, pool, selection)
        assert (selection.degraded, receipt.degraded, a.run(pool).degraded) == (True, True, True)
        assert receipt.seq == before + 1
        assert b.select(pool, 4).seq == before + 1  # from SQL, which both share
        back(made.redis, how)
        for client in (a, b):
            wait_until(lambda client=client: is_whole(client, pool), PATIENT_S)  # type: ignore[misc]
            # A Redis that started again may lack leases; one that only hung lacks none.
            assert client.select(pool, 2).degraded == (how == "kill")
        assert a.run(pool).seq == b.run(pool).seq > before + 1


@pytest.mark.parametrize("how", ["kill", "hang"])
def test_without_postgresql_select_goes_on_and_report_is_refused_in_time(made: Cluster, pool: str, how: str):
    with (
        Client(made.direct[0], deadline_s=PATIENT_S, retries=ONCE) as client,
        Client(made.direct[0], deadline_s=PATIENT_S) as patient,
    ):
        last = report(client, pool)
        away(made.postgres, how)
        wait_until(lambda: readiness(made) == [(200, "degraded")] * 2, PATIENT_S)
        began = time.monotonic()
        with pytest.raises(ServiceError) as refused:
            report(client, pool, key="kept")
        waited_s = time.monotonic() - began
        chosen = [client.select(pool, 4) for _ in range(3)]
        back(made.postgres, how)
        again = report(patient, pool, key="kept")
        assert refused.value.status == 503
        assert refused.value.retry_after_s is not None
        assert waited_s < REQUEST_TIMEOUT_S + 20.0  # a loaded machine is slow; without a deadline it would be for ever
        assert [selection.seq for selection in chosen] == [last.seq] * 3
        assert len({task for selection in chosen for task in selection.ids}) == 12
        # A report that hung may have been written once PostgreSQL went on; it counts once all the same.
        assert again.seq == last.seq + 1
        wait_until(lambda: is_whole(client, pool), PATIENT_S)
        wait_until(lambda: readiness(made) == [(200, "ready")] * 2, PATIENT_S)


def test_without_both_they_are_not_ready_until_both_are_back(made: Cluster, pool: str):
    with Client(made.direct[0], deadline_s=PATIENT_S, retries=ONCE) as client:
        for server in (made.postgres, made.redis):
            server.hang()
        wait_until(lambda: readiness(made) == [(503, "unavailable")] * 2, PATIENT_S)
        assert client.is_live()
        with pytest.raises(ServiceError):
            report(client, pool)
        for server in (made.postgres, made.redis):
            server.resume()
        wait_until(lambda: readiness(made) == [(200, "ready")] * 2, PATIENT_S)
        wait_until(lambda: is_whole(client, pool), PATIENT_S)


def test_a_select_ends_when_its_client_leaves(made: Cluster, pool: str, tmp_path: Path):
    settings = {"database_url": made.database_url, "request_timeout_s": "100", "database_timeout_s": "100"}
    body = {"dataset": pool, "count": 1}
    left = 'bots_http_requests_total{method="POST",route="/select",status="499"} 1.0'
    with running_service(tmp_path, **settings) as service:
        made.postgres.hang()
        try:
            with pytest.raises(httpx.ReadTimeout):  # the run was not asked for yet, so it must be read
                httpx.post(f"{service.url}/select", json=body, timeout=httpx.Timeout(PATIENT_S, read=1.0))
            wait_until(lambda: left in httpx.get(f"{service.url}/metrics", timeout=PATIENT_S).text, 50.0)
        finally:
            made.postgres.resume()
        assert httpx.post(f"{service.url}/select", json=body, timeout=PATIENT_S).status_code == 200


def away(server: Server, how: str) -> None:
    (server.kill if how == "kill" else server.hang)()


def back(server: Server, how: str) -> None:
    (server.start if how == "kill" else server.resume)()
