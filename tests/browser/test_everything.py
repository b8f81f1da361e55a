"""Runs that have tags, a mix and tasks that rest: nothing of it is too wide, too tall or out of reach."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser import everything
from tests.browser.chromium import DESK, PHONE, visiting
from tests.serving import ServiceProcess, running_service

STEPS = 20
DATASET = f"datasets/{everything.DATASET}"
RUN = f"{DATASET}/runs/{everything.RUN}"
VIEWS = {
    "dataset": (DATASET, ".compare-numbers table"),
    "run": (RUN, "section:has(> #tags) table"),
    "tasks": (f"{RUN}/tasks", "table.tasks"),
}
SIZES = {"desk": DESK, "phone": PHONE}
LAPTOP = (1440, 900)
HEIGHTS = "(all) => all.filter((one) => getComputedStyle(one).display === 'table-row').map((one) => one.offsetHeight)"
LINES = 3  # of text in a row of a table: two, and some room; cards have more


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("everything")) as started:
        everything.train_on_everything(started.url, STEPS)
        yield started


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", VIEWS)
def test_no_view_is_wider_than_its_window_and_no_row_taller_than_two_lines(
    view: str, size: str, browser: Browser, service: ServiceProcess
):
    address, table = VIEWS[view]
    with visiting(browser, service.url, size=SIZES[size]) as visit:
        page = visit.open(address)
        rows = page.locator(f"{table} tbody tr")
        rows.first.wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= SIZES[size][0]
        line = page.evaluate("() => parseFloat(getComputedStyle(document.body).lineHeight)")
        assert max(rows.evaluate_all(HEIGHTS), default=0) <= LINES * line
        assert not visit.barriers()


def test_settings_that_tell_runs_apart_come_in_the_order_of_the_settings_panel(
    browser: Browser, service: ServiceProcess
):
    with visiting(browser, service.url) as visit:
        heads = visit.open(DATASET).get_by_role("table", name="Settings that differ").locator("thead th")
        expect(heads).to_have_text(["Run", "Strategy", "Min effective", "Mix"])


def test_the_comparison_fits_a_laptop(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url, size=LAPTOP) as visit:
        runs = visit.open(DATASET).get_by_role("region", name="Comparison of runs")
        assert runs.evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_a_dataset_without_reference_models_speaks_of_no_pass_rates(browser: Browser, service: ServiceProcess):
    facts = httpx.get(f"{service.url}/{DATASET}").json()
    assert (facts["reference_models"], facts["profiles"]) == ([], 3)  # one for each tag
    with visiting(browser, service.url) as visit:
        heading = visit.open(DATASET).locator(".compare-heading")
        expect(heading).to_contain_text("600 tasks, 3 tags.")


def test_the_only_small_chart_of_a_comparison_is_as_wide_as_the_others(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        visit.open(DATASET)
        visit.drawn()
        wide, found = (visit.chart(title).bounding_box() for title in ("Effective task ratio", "Effective tasks found"))
        assert wide
        assert found
        assert found["width"] == wide["width"]


def test_a_task_s_visits_have_two_lines_each(browser: Browser, service: ServiceProcess):
    tried = httpx.get(f"{service.url}/{RUN}/tasks", params={"sort": "-visits", "limit": 1}).json()["tasks"][0]["id"]
    with visiting(browser, service.url) as visit:
        visits = visit.open(f"{RUN}/tasks?task={tried}").get_by_role("dialog").locator(".history li")
        visits.first.wait_for()
        heights = visits.evaluate_all("(all) => all.map((one) => one.offsetHeight)")
        assert len(heights) > 1
        assert max(heights) - min(heights) <= 1  # a border
