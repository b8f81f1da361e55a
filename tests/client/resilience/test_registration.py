"""Making a dataset hold a trainer's tasks."""

import logging

import pytest

from bots_client import Selector, Task
from bots_client._resilience import registration
from tests.client.resilience.worlds import IDS
from tests.languages.recording_proxy import RecordingProxy
from tests.serving import free_port


@pytest.fixture
def pool(connect, service, request):
    """Make a selector of the test's own dataset, for a trainer with some tasks."""

    def selector(ids, run="default", url=service):
        return Selector(connect(url), request.node.name[:100], run, ids=ids)

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
    assert [record.getMessage() for record in caplog.records] == [
        f"dataset {selector.dataset} has 16 tasks that are not among the trainer's 24, such as 't24':"
        " this trainer excludes them"
    ]
    chosen = [selector.next(8) for _ in range(3)]
    assert sorted(task for selection in chosen for task in selection.ids) == sorted(mine)
    assert not any(selection.is_local or selection.reused for selection in chosen)
    health = selector.client.health
    assert (health.local_selects, health.replaced) == (0, 0)


def test_tasks_that_the_dataset_lacks_are_added(pool, monkeypatch, caplog):
    monkeypatch.setattr(registration, "BATCH_TASKS", 7)
    pool(IDS[:10]).register()
    selector = pool(IDS)
    selector.register()
    assert held(selector) == IDS
    assert "added 30 of the trainer's tasks" in caplog.text


def test_what_another_process_added_meanwhile_is_not_called_missing(pool, service, monkeypatch, caplog):
    monkeypatch.setattr(registration, "BATCH_TASKS", 7)
    quicker = pool(IDS[:10])
    quicker.register()
    caplog.clear()

    def overtake(_):
        """Add some tasks once the other process was told which there are, and before it hears of it."""
        lists = [exchange for exchange in proxy.exchanges if "/tasks" in exchange.path and exchange.method == "GET"]
        if len(lists) == 1 and proxy.exchanges[-1] is lists[0]:
            quicker.client.direct.append_tasks(quicker.dataset, [Task(task) for task in IDS[10:17]])

    with RecordingProxy(service.url, on_exchange=overtake) as proxy:
        selector = pool(IDS, url=proxy.url)
        selector.register()

    assert [exchange.status for exchange in proxy.exchanges if exchange.method == "POST"] == [409, 200, 200, 200, 200]
    assert held(quicker) == IDS
    assert [record.getMessage() for record in caplog.records] == [
        f"added 23 of the trainer's tasks to dataset {selector.dataset}"
    ]


def test_pass_rates_that_were_imported_stay(pool):
    selector = pool(IDS)
    bots = selector.client.direct
    bots.create_dataset(selector.dataset, [Task("t0", [0.25, 0.5])], reference_models=["weak", "strong"])
    selector.register()
    assert bots.dataset(selector.dataset).reference_models == ("weak", "strong")
    assert held(selector) == IDS


def test_retired_tasks_of_the_trainer_are_told(pool, caplog):
    pool(IDS).register()
    selector = pool(IDS)
    selector.client.direct.retire_tasks(selector.dataset, ["t3"])
    selector.register()
    assert "1 of the trainer's tasks, such as 't3', could not be added to dataset" in caplog.text
    assert "t3" not in held(selector)


def test_a_dataset_of_other_tasks_is_refused(pool):
    pool([f"gsm8k:{task}" for task in IDS]).register()
    with pytest.raises(ValueError, match=r"none of the trainer's 40 tasks.*'gsm8k:t0'.*'t0'"):
        pool(IDS).register()


def test_more_others_than_can_be_excluded_are_refused(pool, monkeypatch):
    monkeypatch.setattr(registration, "MAX_EXCLUDED", 9)
    pool(IDS).register()
    with pytest.raises(ValueError, match=r"10 tasks that the trainer does not have.* at most 9"):
        pool(IDS[:30]).register()


def test_a_service_that_is_away_is_logged_and_training_goes_on(pool, caplog):
    selector = pool(IDS, url=f"http://127.0.0.1:{free_port()}")
    selector.register()
    assert "is unavailable" in caplog.text
    assert len(selector.next(4).ids) == 4


def test_tasks_added_by_others_later_are_replaced_once_and_counted(pool, caplog):
    mine = IDS[:20]
    selector = pool(mine)
    selector.register()
    selector.client.direct.append_tasks(selector.dataset, [Task(task) for task in IDS[20:]])
    caplog.set_level(logging.ERROR)
    caplog.clear()
    for _ in range(12):
        selection = selector.next(8)
        assert set(selection.ids) <= set(mine)
        for task in selection.ids:
            selector.observe(task, [1, 0])
        selector.step()
    assert 0 < selector.client.health.replaced <= 20, "each of the others at most once"
    assert len([record for record in caplog.records if "are not in the trainer's ids" in record.message]) == 1
