"""Predictions on the page: named where their dataset is shown, with the slopes that a run learned of them."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from bots_client import Client, Outcome, Task
from tests.browser.chromium import PHONE, visiting
from tests.serving import ServiceProcess, running_service

PREDICTED = "predicted"
TASKS = 40
PREDICTORS = {"embedding": TASKS // 2, "small-model": TASKS}  # by name: how many tasks each covers


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("predictions")) as started, Client(started.url) as client:
        client.create_dataset(PREDICTED, [Task(f"task-{number}") for number in range(TASKS)])
        for name, covered in PREDICTORS.items():
            client.put_predictions(PREDICTED, name, {f"task-{number}": number / TASKS for number in range(covered)})
        selection = client.select(PREDICTED, 16)
        outcomes = [Outcome.counts(task, 4, 8) for task in selection.ids]
        client.report(PREDICTED, outcomes, selection=selection)
        yield started


def test_a_dataset_names_its_predictions_with_the_tasks_that_each_covers(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url, size=PHONE) as visit:
        page = visit.open(f"datasets/{PREDICTED}")
        facts = f"{TASKS} tasks. Predictions: embedding for {TASKS // 2}, small-model for {TASKS}."
        expect(page.get_by_role("main")).to_contain_text(facts)
        visit.drawn()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]
        assert not visit.barriers()


def test_a_run_shows_how_far_it_trusts_each_of_them(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        estimates = visit.open(f"datasets/{PREDICTED}/runs/default").get_by_label("Estimates", exact=True)
        for name in PREDICTORS:
            expect(estimates).to_contain_text(f"prediction slope {name}")
