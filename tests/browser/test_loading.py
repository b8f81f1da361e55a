"""What the page asks for, and what it shows while the service is away."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.chromium import visiting
from tests.serving import ServiceProcess, running_service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    with running_service(tmp_path) as started:
        with httpx.Client(base_url=started.url) as http:
            http.put("/datasets/own", json={"tasks": [{"id": "t1"}, {"id": "t2"}]}).raise_for_status()
            for _ in range(2):
                outcomes = [{"task": "t1", "successes": 3, "trials": 8}]
                http.post("/report", json={"dataset": "own", "outcomes": outcomes}).raise_for_status()
        yield started


def paths_asked(page: Page, refreshes: int) -> list[list[str]]:
    """Return the paths that an idle page asks for in its next refreshes; one ends when the last answer has come."""
    asked: list[list[str]] = [[]]

    def note(request: Request) -> None:
        asked[-1].append(urlsplit(request.url).path)

    page.on("request", note)
    for _ in range(refreshes):
        page.wait_for_event("requestfinished")
        page.wait_for_load_state("networkidle")  # half a second without a request: the pause between two is longer
        asked.append([])
    page.remove_listener("request", note)
    return asked[:-1]


def test_an_idle_run_is_one_request_a_refresh(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        page = visit.open("datasets/own/runs/default")
        visit.drawn()
        page.wait_for_timeout(7000)  # for so long it looks for what the service finds out a little later
        asked = paths_asked(page, 3)
    assert asked == [["/datasets/own/runs/default/summary"]] * 3


def test_what_was_known_stays_and_is_marked_while_the_service_is_away_and_goes_on_after(
    browser: Browser, service: ServiceProcess
):
    with visiting(browser, service.url) as visit:
        page = visit.open("datasets/own/runs/default")
        visit.drawn()
        service.kill()
        alert = page.get_by_role("alert").first
        expect(alert).to_contain_text("The service does not answer. You see what was known then.")
        assert "no answer since" in page.locator("#live").inner_text()
        assert page.locator("main[data-stale]").count() == 1
        assert page.locator(".tiles .value").first.is_visible()
        page.goto(f"{service.url}/#/datasets/own")
        expect(alert).to_contain_text("This view appears as soon as there is an answer.")
        assert page.locator("main .card").first.is_hidden()
        service.start()
        page.wait_for_selector("#live[data-state=live]")
        expect(page.locator("main .card").first).to_be_visible()
        assert page.locator("main[data-stale]").count() == 0
        assert all("net::ERR_" in line for line in visit.wrong)  # Chromium logs these itself
        visit.wrong.clear()
