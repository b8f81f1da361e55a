"""Predictions on the page: named where their dataset is shown, with the slopes that a run learned of them."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser import given_tasks
from tests.browser.chromium import PHONE, visiting
from tests.serving import ServiceProcess, running_service

STEPS = 3


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("predictions")) as started:
        given_tasks.train_with_predictions(started.url, STEPS)
        yield started


def test_a_dataset_names_its_predictions_with_the_tasks_that_each_covers(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url, size=PHONE) as visit:
        page = visit.open(f"datasets/{given_tasks.PREDICTED}")
        half, all_tasks = given_tasks.TASKS // 2, given_tasks.TASKS
        facts = f"{all_tasks} tasks. Predictions: embedding for {half}, small-model for {all_tasks}."
        expect(page.locator(".compare-heading")).to_contain_text(facts)
        visit.drawn()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]
        assert not visit.barriers()


def test_a_run_shows_how_far_it_trusts_each_of_them(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        estimates = visit.open(f"datasets/{given_tasks.PREDICTED}/runs/default").get_by_role("region", name="Estimates")
        for name in given_tasks.PREDICTORS:
            expect(estimates).to_contain_text(f"prediction slope {name}")


def test_the_estimate_for_uniform_sampling_is_drawn_over_the_steps_that_the_verdict_has_it_for(
    browser: Browser, service: ServiceProcess
):
    run = f"datasets/{given_tasks.PREDICTED}/runs/default"
    with visiting(browser, service.url) as visit:
        visit.open(run)
        visit.drawn()
        drawn = visit.data("Effective task ratio")["uniform (estimate)"]
        gain = httpx.get(f"{service.url}/{run}/summary").json()["gain"]
    assert len([share for share in drawn if share is not None]) == STEPS
    assert drawn[-1] == pytest.approx(gain["uniform_effective_task_ratio"])
