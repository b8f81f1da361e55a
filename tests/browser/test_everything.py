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
