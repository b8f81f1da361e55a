"""Generators on the page: said where their dataset and their list are shown."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import PHONE, Visit, visiting
from tests.serving import ServiceProcess, running_service

LEVELS = ["add-2", "add-4", "add-6"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with a dataset of three generators, of which one has a step."""
    with running_service(tmp_path_factory.mktemp("generators")) as started:
        with httpx.Client(base_url=started.url, timeout=30) as http:
            tasks = [{"id": name, "tags": ["add"]} for name in LEVELS]
            http.put("/datasets/sums", json={"generators": True, "tasks": tasks}).raise_for_status()
            outcomes = [{"task": "add-4", "seed": seed, "successes": seed, "trials": 8} for seed in range(9)]
            http.post("/report", json={"dataset": "sums", "outcomes": outcomes}).raise_for_status()
        yield started


@pytest.fixture
def visit(browser: Browser, service: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, service.url) as opened:
        yield opened


def test_the_list_says_that_these_are_generators(visit: Visit):
    page = visit.open("datasets/sums/runs/default/tasks")
    expect(page.get_by_text("Each is a generator, of which your trainer makes a fresh task")).to_be_visible()
    expect(page.locator(".tasks tbody th")).to_have_text(LEVELS)


def test_on_a_phone_their_list_fits_and_reads_well(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url, size=PHONE) as visit:
        page = visit.open("datasets/sums/runs/default/tasks")
        expect(page.locator(".tasks tbody th")).to_have_text(LEVELS)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]
        assert not visit.barriers()


def test_a_dataset_counts_its_generators(visit: Visit):
    expect(visit.open("datasets/sums").get_by_text("3 generators")).to_be_visible()
