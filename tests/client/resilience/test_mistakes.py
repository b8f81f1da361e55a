"""What is wrong with the trainer's own code raises at once; what is wrong with the world never does."""

import logging

import pytest

from bots_client import (
    AuthenticationError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    Outcome,
    RequestError,
    Selector,
)
from bots_client._resilience import connection
from tests.client.answers import SELECTION
from tests.client.resilience.worlds import IDS, spool_in, train, wait_for
from tests.client.scripted_server import answer, drop, problem
from tests.serving import NOWHERE, ServiceProcess


def refused(selector):
    """Return the writes of a selector's run that were set aside."""
    return spool_in(selector.client, selector.dataset, selector.run).refused()


@pytest.mark.parametrize("names", [("no-such-dataset", "default"), (None, "no-such-run")], ids=["dataset", "run"])
def test_an_unknown_name_raises_before_anything_is_trained_on(connect, service, dataset, names):
    selector = Selector(connect(service), names[0] or dataset, names[1], ids=IDS)
    for ask in (lambda: selector.next(4), selector.close_step):
        with pytest.raises(NotFoundError):
            ask()
    selector.observe("t1", [1, 0])
    with pytest.raises(NotFoundError):
        selector.step()
    assert selector.client.health.local_selects == 0


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, AuthenticationError), (403, ForbiddenError), (404, NotFoundError), (422, InvalidRequestError)],
)
def test_a_refusal_of_the_first_call_of_its_kind_raises(connect, serve, status, kind):
    bots = connect(serve(problem(status)))
    selector = Selector(bots, "guru", ids=IDS)
    with pytest.raises(kind):
        selector.next(4)
    with pytest.raises(kind):
        bots.report("guru", [Outcome.counts("t1", 1, 2)])
    if kind is not NotFoundError:  # which registering mends
        with pytest.raises(kind):
            selector.register()


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_what_has_worked_before_is_an_outage_that_is_told_again_and_again(
    connect, serve, caplog, monkeypatch, status
):
    monkeypatch.setattr(connection, "AGAIN_S", 0.0)
    server = serve(answer(SELECTION), answer({"seq": 1, "step": 1, "closed": True}), problem(status))
    bots = connect(server, report_deadline_s=1.0)
    ids = [task["id"] for task in SELECTION["tasks"]]
    bots.select("guru", 2, ids=ids)
    bots.report("guru", [Outcome.counts(ids[0], 1, 2)], close_step=True)
    for waiting in (1, 2):
        assert bots.select("guru", 2, ids=ids).is_local
        assert bots.report("guru", [Outcome.counts(ids[0], 1, 2)]) is None
        assert (bots.health.kept, bots.health.refused) == (waiting, 0)
    told = [record for record in caplog.records if record.levelno == logging.ERROR and str(status) in record.message]
    assert len(told) >= 4


def test_a_reward_outside_the_range_raises_where_it_is_observed(connect, service, dataset):
    selector = Selector(connect(service), dataset, ids=IDS)
    selector.register()
    train(selector)
    task = selector.next(1).ids[0]
    with pytest.raises(InvalidRequestError):
        selector.observe(task, [-1, 1])
    selector.observe(task, [-1, 1], successes=1)
    selector.client.direct.update_run(dataset, reward_range=(-1, 1))
    selector.observe(task, [-1, 1])
    receipt = selector.step()
    assert receipt is not None
    assert receipt.reported == 1


def test_without_registering_it_raises_at_the_step_and_costs_no_other_outcome(connect, service, dataset):
    selector = Selector(connect(service), dataset, ids=IDS)
    train(selector)
    good, bad = selector.next(2).ids
    selector.observe(good, [1, 0])
    selector.observe(bad, [-1, 1])
    with pytest.raises(InvalidRequestError, match="reward_range"):
        selector.step()
    assert selector.client.health.refused == len(refused(selector)) == 1
    run = selector.client.direct.run(dataset)
    assert (run.totals.reported, run.leased) == (5, 0)


@pytest.mark.parametrize("name", ["default", "new"])
def test_a_reward_range_is_that_of_the_run_once_it_is_registered(connect, service, dataset, name):
    selector = Selector(connect(service), dataset, name, ids=IDS, reward_range=(-1, 1))
    selector.register()
    train(selector, rewards=(-1, 1, 1, 1))
    run = selector.client.direct.run(dataset, name)
    assert run.settings.reward_range == (-1.0, 1.0)
    assert (run.totals.rollouts, run.totals.successes) == (16, 12)


@pytest.mark.parametrize("reward_range", [(1, -1), (0, 0), (0, float("nan")), (1,)])
def test_a_reward_range_that_is_none_is_said_at_once(connect, reward_range):
    with pytest.raises(ValueError, match="reward_range"):
        Selector(connect(NOWHERE), "guru", ids=IDS, reward_range=reward_range)


def test_with_on_mistake_warn_training_goes_on_and_is_warned_again_and_again(
    connect, service, dataset, caplog, monkeypatch
):
    monkeypatch.setattr(connection, "AGAIN_S", 0.0)
    selector = Selector(connect(service, on_mistake="warn"), dataset, ids=IDS)
    selector.register()
    missing = Selector(selector.client, "no-such-dataset", ids=IDS)
    train(selector, 3, rewards=(-1, 1))
    train(missing, 3)
    assert selector.metrics()["bots/refused"] == len(refused(selector)) == 3
    assert sum("is outside [0, 1]" in record.message for record in caplog.records) >= 3
    assert sum("no-such-dataset" in record.message for record in caplog.records) >= 3


def test_more_tasks_than_there_are_raise_with_the_service_and_without(connect, service, dataset):
    here = Selector(connect(service), dataset, ids=IDS)
    few = Selector(connect(service), dataset, ids=IDS[:3])
    away = Selector(connect(NOWHERE, select_deadline_s=0.1), "guru", ids=IDS[:3])
    for selector, too_many in ((here, 50), (few, 4), (away, 50)):
        for _ in range(2):
            with pytest.raises(InvalidRequestError):
                selector.next(too_many)
    assert sorted(away.next(3).ids) == IDS[:3]


def test_a_task_that_is_not_the_selectors_raises_and_with_a_warning_it_is_dropped(connect, service, dataset):
    selector = Selector(connect(service), dataset, ids=IDS)
    careless = Selector(connect(service, on_mistake="warn"), dataset, ids=IDS)
    with pytest.raises(InvalidRequestError, match="zz"):
        selector.observe("zz", [1, 0])
    with pytest.raises(InvalidRequestError, match="zz"):
        selector.abort("zz")
    careless.observe("zz", [1, 0])
    careless.observe("t1", [1, 0])
    receipt = careless.step()
    assert receipt is not None
    assert receipt.reported == 1
    assert careless.client.health.refused == 0


@pytest.mark.usefixtures("quick_looks")
@pytest.mark.parametrize("call", ["next", "observe", "step", "report"])
@pytest.mark.parametrize("mistake", ["dataset", "outcome"])
def test_a_mistake_that_an_outage_hid_is_raised_once_the_service_is_back(connect, serve, call, mistake):
    server = serve(drop)
    selector = Selector(connect(server, select_deadline_s=0.3, report_deadline_s=1.0), "guru", ids=IDS)
    train(selector, 2)
    flaws = [{"loc": ["body", "outcomes", place], "msg": "outside [0, 1]"} for place in range(4)]
    server.acts = (problem(404, "unknown-dataset") if mistake == "dataset" else problem(422, errors=flaws),)
    wait_for(lambda: not selector.client.health.is_away)
    calls = {
        "next": lambda: selector.next(4),
        "observe": lambda: selector.observe("t1", [1, 0]),
        "step": selector.step,
        "report": lambda: selector.client.report("guru", []),
    }

    with pytest.raises(NotFoundError if mistake == "dataset" else InvalidRequestError):
        calls[call]()

    if mistake == "outcome":
        assert len(refused(selector)) == selector.client.health.refused >= 2
        if call in ("observe", "step"):
            selector.observe("t2", [1, 0])  # once is enough
    else:
        assert selector.client.health.kept >= 2


def test_what_an_earlier_job_did_wrong_raises_in_no_later_one(connect, service, dataset):
    earlier = connect(NOWHERE, report_deadline_s=0.1)
    earlier.report(dataset, [Outcome.rewards("gone", [1, 0])])
    spool_in(earlier, dataset).file.rename(spool_in(earlier, dataset, url=service.url).file)
    selector = Selector(connect(service), dataset, ids=IDS)
    train(selector, 2)
    assert selector.client.health.refused == 1
    assert selector.client.direct.run(dataset).step == 2


@pytest.mark.usefixtures("quick_looks")
def test_a_registration_that_an_outage_put_off_is_done_before_the_reports_are_sent(connect, tmp_path):
    service = ServiceProcess(tmp_path / "service")
    bots = connect(service, select_deadline_s=0.3, report_deadline_s=5.0)
    selector = Selector(bots, "made-late", "a-run", ids=IDS, reward_range=(-1, 1))
    selector.register()
    train(selector, 2, rewards=(-1, 1))
    assert (bots.health.kept, bots.health.local_selects) == (2, 2)

    service.start()
    try:
        wait_for(lambda: not bots.health.is_away)
        train(selector)
        run = bots.direct.run("made-late", "a-run")
        assert (run.step, run.settings.reward_range) == (3, (-1, 1))
        assert (bots.health.kept, bots.health.refused, bots.health.lost) == (0, 0, 0)
    finally:
        service.stop()


class Ranks:
    """Two ranks in one process: what rank 0 shares, rank 1 gets afterwards."""

    def __init__(self, connect, url, dataset):
        self.shared: list[object] = []
        self.zero = Selector(connect(url), dataset, rank=0, ids=IDS, share=self._ask)
        self.one = Selector(connect(url), dataset, rank=1, ids=IDS, share=lambda _ask: self.shared[-1])

    def _ask(self, ask):
        self.shared.append(ask())
        return self.shared[-1]


def test_with_several_ranks_a_step_raises_in_the_next_selection_so_that_no_rank_waits_for_another(
    connect, service, dataset, monkeypatch
):
    monkeypatch.setenv("WORLD_SIZE", "2")
    ranks = Ranks(connect, service, dataset)
    for rank in (ranks.zero, ranks.one):
        task = rank.next(2).ids[rank.rank]
        rank.observe("zz", [1, 0])
        rank.observe(task, [-1, 1])
    for rank in (ranks.one, ranks.zero):
        assert rank.step() is None
    for rank in (ranks.zero, ranks.one):
        with pytest.raises(RequestError):
            rank.next(2)
    assert [rank.client.health.refused for rank in (ranks.zero, ranks.one)] == [1, 1]
