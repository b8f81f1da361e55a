"""What selecting gains over uniform choice: told with the metrics, and never paid for by training."""

import math
import threading
import time

import httpx
import pytest

from bots_client import Health, Selector
from bots_client._selector import ESTIMATE_EVERY
from tests.client.resilience.worlds import IDS
from tests.client.scripted_server import answer, drop, problem, stay_silent

GAIN = {"bots/uniform_effective_task_ratio", "bots/times_uniform"}
ABILITY = {"bots/ability"}
SOON_S = 30.0


def before(service, instead=None):
    """Return what a server does that hands each request on to the service, but for looks at the run if told so."""

    def act(server, connection):
        request = server.received[-1]
        if instead is not None and is_look(request):
            instead(server, connection)
            return
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        url = service.url + request.target  # plain HTTP: without certificates the client is made quickly
        reply = httpx.request(request.method, url, headers=headers, content=request.body, verify=False)  # noqa: S501
        answer(reply.content, reply.status_code)(server, connection)

    return act


def train(selector, steps=1):
    """Do some steps in which half of the tasks teach."""
    for _ in range(steps):
        for place, task in enumerate(selector.next(4).ids):
            selector.observe(task, [1, place % 2])
        selector.step()


def is_look(request):
    """Return whether a request asks how the run stands."""
    return request.method == "GET" and request.target.endswith("/runs/default")


def known(selector):
    """Return the names of the metrics that are numbers."""
    return {name for name, value in selector.metrics().items() if not math.isnan(value)}


def asked(server):
    return [request.target for request in server.received if is_look(request)]


def test_the_gain_is_the_last_steps_ratio_over_what_uniform_choice_could_expect(connect, service, dataset):
    selector = Selector(connect(service), dataset, ids=IDS)
    selector.next(1)
    assert not GAIN & known(selector)

    train(selector)

    expected = selector.client.direct.run(dataset).uniform_effective_task_ratio
    metrics = selector.metrics()
    assert metrics["bots/uniform_effective_task_ratio"] == expected
    assert metrics["bots/times_uniform"] == (2 / 4) / metrics["bots/uniform_effective_task_ratio"]


def test_the_ability_is_what_the_tracker_estimates_and_the_belief_bots_has_none(connect, service, dataset):
    bots = connect(service)
    bots.direct.create_run(dataset, "papers", belief="bots")
    tracked, papers = Selector(bots, dataset, ids=IDS), Selector(bots, dataset, "papers", ids=IDS)

    train(tracked)
    train(papers)

    assert tracked.metrics()["bots/ability"] == bots.direct.run(dataset).estimates["ability"]
    assert not ABILITY & known(papers)


def test_it_is_asked_for_once_in_ten_steps_and_the_newest_alone(connect, serve, service, dataset):
    server = serve(before(service))
    selector = Selector(connect(server), dataset, ids=IDS)
    follower = Selector(selector.client, dataset, ids=IDS, rank=1)

    train(follower, 2)
    assert asked(server) == []
    train(selector, ESTIMATE_EVERY)
    assert asked(server) == [f"/datasets/{dataset}/runs/default"]
    train(selector)
    assert len(asked(server)) == 2


@pytest.mark.parametrize(
    ("instead", "is_away"),
    [(stay_silent, True), (problem(503), False), (problem(404), False), (problem(500), False)],
    ids=["silent", "busy", "unknown", "broken"],
)
def test_a_service_that_cannot_tell_fails_no_step_and_takes_no_longer_than_a_report(
    connect, serve, service, dataset, instead, is_away
):
    server = serve(before(service, instead))
    changes: list[Health] = []
    bots = connect(server, report_deadline_s=1.0, on_change=changes.append)
    selector = Selector(bots, dataset, ids=IDS)

    begun = time.monotonic()
    train(selector)
    took_s = time.monotonic() - begun

    assert took_s < 3  # 1 s for the report, the rest for a loaded machine
    assert len(asked(server)) == 1
    assert (selector.metrics()["bots/step"], selector.metrics()["bots/effective_task_ratio"]) == (1, 2 / 4)
    assert not GAIN & known(selector)
    assert [health.is_away for health in changes[:1]] == [True] * is_away


def test_while_the_service_is_away_it_is_neither_asked_for_nor_told(connect, serve, service, dataset):
    gone = threading.Event()
    there = before(service)

    def act(server, connection):
        (drop if gone.is_set() else there)(server, connection)

    server = serve(act)
    selector = Selector(connect(server, select_deadline_s=1.0, report_deadline_s=1.0), dataset, ids=IDS)
    selector.next(1)
    train(selector)
    assert known(selector) >= GAIN
    looks = len(asked(server))
    gone.set()

    train(selector, ESTIMATE_EVERY + 1)

    assert not (GAIN | ABILITY) & known(selector)
    assert len(asked(server)) == looks
