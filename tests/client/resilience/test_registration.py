"""Making a dataset hold a trainer's tasks."""

import logging
import re

import pytest

from bots_client import Client, ForbiddenError, Selector, Task
from tests.client.resilience.worlds import IDS, train_on, wait_for
from tests.languages.recording_proxy import RecordingProxy
from tests.serving import running_service


@pytest.fixture
def pool(connect, service, request):
    """Make a selector of the test's own dataset, for a trainer with some tasks."""

    def selector(ids, run="default", url=service):
        return Selector(connect(url), re.sub(r"\W", "-", request.node.name[:100]), run, ids=ids)

    return selector


def held(selector):
    return [task.id for task in selector.client.direct.tasks(selector.dataset)]


def test_a_missing_dataset_and_run_are_made(pool, caplog):
    selector = pool(IDS, run="qwen")
    selector.register()
    assert held(selector) == IDS
    assert selector.client.direct.run(selector.dataset, "qwen").step == 0
    assert "with the trainer's 40 tasks" in caplog.text


def test_registering_again_changes_and_says_nothing(pool, caplog):
    pool(IDS).register()
    before = pool(IDS).client.direct.dataset(pool(IDS).dataset)
    caplog.clear()
    selector = pool(IDS[::-1])
    selector.register()
    assert selector.client.direct.dataset(selector.dataset) == before
    assert not caplog.records


def test_tasks_that_the_trainer_lacks_are_never_selected(pool, caplog):
    pool(IDS).register()
    caplog.clear()
    mine = IDS[:24]
    selector = pool(mine)
    selector.register()
    assert [record.args for record in caplog.records] == [(selector.dataset, 16, 24)]
    chosen = [selector.next(8) for _ in range(3)]
    assert sorted(task for selection in chosen for task in selection.ids) == sorted(mine)
    assert not any(selection.is_local or selection.reused for selection in chosen)
    health = selector.client.health
    assert (health.local_selects, health.replaced) == (0, 0)


@pytest.mark.parametrize("clients", [1, 2])
def test_trainers_of_one_run_each_select_among_their_own_tasks(pool, clients):
    one, other = pool(IDS[:25]), pool(IDS[15:])
    if clients == 1:
        other.client = one.client
    for selector in (one, other):
        selector.register()
    for _ in range(3):
        assert set(one.next(4).ids) <= set(IDS[:25])
        assert set(other.next(4).ids) <= set(IDS[15:])
    assert one.client.health.replaced == other.client.health.replaced == 0


@pytest.mark.parametrize("share", [1, 2, 10])
def test_registering_sends_as_many_requests_for_a_large_pool_as_for_a_small_one(pool, service, share):
    sent = {}
    for size in (40, 4000):
        ids = [f"t{number}" for number in range(size)]
        name = f"requests-{share}-{size}"
        with RecordingProxy(service.url) as proxy:
            selector = pool(ids[::share], url=proxy.url)
            selector.client.direct.create_dataset(name, map(Task, ids))
            Selector(selector.client, name, ids=selector.ids).register()
        sent[size] = [(exchange.method, exchange.path.replace(name, "")) for exchange in proxy.exchanges]
    assert sent[40] == sent[4000]


def test_tasks_that_the_dataset_lacks_are_added_in_one_request(pool, service, caplog):
    pool(IDS[:10]).register()
    with RecordingProxy(service.url) as proxy:
        selector = pool(IDS, url=proxy.url)
        selector.register()
        assert len([exchange for exchange in proxy.exchanges if exchange.path.endswith("/tasks")]) == 1
        assert held(selector) == IDS
        assert sorted(selector.next(40).ids) == sorted(IDS)
    assert "added 30 of the trainer's tasks" in caplog.text


def test_what_another_process_added_meanwhile_is_not_called_missing(pool, service, caplog):
    quicker = pool(IDS[:10])
    quicker.register()
    caplog.clear()

    def overtake(_):
        """Add some tasks once the other process was told which are missing, and before it adds them."""
        told = [exchange for exchange in proxy.exchanges if exchange.path.endswith("/subsets")]
        if len(told) == 1 and proxy.exchanges[-1] is told[0]:
            quicker.client.direct.append_tasks(quicker.dataset, [Task(task) for task in IDS[10:17]])

    with RecordingProxy(service.url, on_exchange=overtake) as proxy:
        selector = pool(IDS, url=proxy.url)
        selector.register()

    assert [exchange.status for exchange in proxy.exchanges if exchange.path.endswith("/tasks")] == [409, 200]
    assert held(quicker) == IDS
    assert [record.args for record in caplog.records] == [(23, selector.dataset)]


def test_pass_rates_that_were_imported_stay(pool):
    selector = pool(IDS)
    bots = selector.client.direct
    bots.create_dataset(selector.dataset, [Task("t0", [0.25, 0.5])], reference_models=["weak", "strong"])
    selector.register()
    assert bots.dataset(selector.dataset).reference_models == ("weak", "strong")
    assert held(selector) == IDS


def test_a_dataset_of_other_tasks_is_refused(pool):
    pool([f"gsm8k:{task}" for task in IDS]).register()
    with pytest.raises(ValueError, match=r"none of the trainer's 40 tasks.*'gsm8k:t0'.*'t0'"):
        pool(IDS).register()


def test_without_registration_unknown_tasks_are_replaced_and_counted(pool, caplog):
    selector = pool(IDS[:20])
    selector.client.direct.create_dataset(selector.dataset, map(Task, IDS))
    caplog.set_level(logging.ERROR)
    assert set(selector.next(20).ids) == set(IDS[:20])
    assert 0 < selector.client.health.replaced <= 20
    assert len([record for record in caplog.records if "Selector.register()" in record.getMessage()]) == 1


@pytest.mark.usefixtures("quick_looks")
def test_a_dataset_that_is_made_anew_gets_the_trainers_tasks_again(pool, caplog):
    mine = IDS[::2]
    selector = pool(mine)
    selector.register()
    selector.next(4)
    direct = selector.client.direct
    direct.delete_dataset(selector.dataset)
    direct.create_dataset(selector.dataset, map(Task, IDS[::-1]))
    assert selector.next(4).is_local
    wait_for(lambda: not selector.next(1).is_local)
    for _ in range(4):
        selection = selector.next(4)
        assert not selection.is_local
        assert set(selection.ids) <= set(mine)
    assert selector.client.health.replaced == 0


def test_a_key_for_some_runs_is_enough_to_register_select_and_report(tmp_path, connect):
    with running_service(tmp_path / "service", admin_key="nobody-guesses-this-one") as service:
        with Client(service.url, api_key="nobody-guesses-this-one") as operator:
            operator.create_dataset("shared", [Task(name) for name in IDS])
            for run in ("alice-1", "bob-1"):
                operator.create_run("shared", run)
            key = operator.create_key("alice", scopes=["select", "report"], datasets=["shared/alice-*"]).key
        own, others = (
            Selector(connect(service.url, api_key=key), "shared", run, ids=IDS[:10]) for run in ("alice-1", "bob-1")
        )
        own.register()
        selection = own.next(4)
        assert set(selection.ids) <= set(IDS[:10])
        assert train_on(own, selection.ids).effective == 4
        with pytest.raises(ForbiddenError):
            others.register()
