"""The page on a slow network, with a part missing, and while the service is away."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.chromium import Visit, visiting
from tests.browser.replaying import BOTS, DATASET
from tests.serving import ServiceProcess, running_service

LATENCY_MS, BYTES_PER_S = 60, 1_500_000
CONTENT_MS = 1000.0
LOADS = 5  # the best one counts: this machine may be busy with other things
RUN = f"datasets/{DATASET}/runs/{BOTS}"
# What tells that a view has content: a number that only the service knows.
CONTENT = {"": "main tbody td.number", RUN: ".tile .value:not(:empty)"}
NOTE_CONTENT = """(selector) => {
    globalThis.contentAt = null;
    new MutationObserver(() => {
        const found = [...document.querySelectorAll(selector)].some((one) => /\\d/.test(one.textContent));
        if (found) globalThis.contentAt ??= performance.now();
    }).observe(document, { childList: true, subtree: true, characterData: true });
}"""


# In the order in which they began; a request for the page itself comes first.
REQUESTS = """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .map(({ startTime, responseEnd, transferSize }) => ({ start: startTime, end: responseEnd, bytes: transferSize }))
    .toSorted((one, other) => one.start - other.start)"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    """A service of the test's own, with a run of two steps."""
    with running_service(tmp_path) as started:
        with httpx.Client(base_url=started.url) as http:
            http.put("/datasets/own", json={"tasks": [{"id": "t1"}, {"id": "t2"}]}).raise_for_status()
            for _ in range(2):
                outcomes = [{"task": "t1", "successes": 3, "trials": 8}]
                http.post("/report", json={"dataset": "own", "outcomes": outcomes}).raise_for_status()
        yield started


@dataclass(frozen=True)
class Load:
    """How a view got its content: when, by how many ways to the service one after another, and in how many bytes."""

    content_ms: float
    ways: int
    received: int

    @property
    def network_ms(self) -> float:
        """What of the time the network took; the rest is the machine's."""
        return self.ways * LATENCY_MS + 1000 * self.received / BYTES_PER_S


def load_slowly(visit: Visit, view: str) -> Load:
    """Open a view over a slow network, with nothing kept from before."""
    page = visit.page
    client = page.context.new_cdp_session(page)
    client.send("Network.enable")
    slow = {"latency": LATENCY_MS, "downloadThroughput": BYTES_PER_S, "uploadThroughput": BYTES_PER_S, "offline": False}
    client.send("Network.emulateNetworkConditions", slow)
    page.add_init_script(f"({NOTE_CONTENT})({CONTENT[view]!r})")
    page.goto(f"{visit.url}/#/{view}")
    page.wait_for_function("() => globalThis.contentAt !== null")
    content_ms = page.evaluate("() => globalThis.contentAt")
    asked = [one for one in page.evaluate(REQUESTS) if one["end"] <= content_ms]
    return Load(content_ms, ways_of(asked), sum(one["bytes"] for one in asked))


def ways_of(asked: list[dict[str, float]]) -> int:
    """Return how many of the requests followed one another: the one began when the other had ended."""
    ways: list[int] = []
    for place, one in enumerate(asked):
        before = [ways[other] for other in range(place) if asked[other]["end"] <= one["start"]]
        ways.append(1 + max(before, default=0))
    return max(ways)


@pytest.mark.parametrize("view", CONTENT)
def test_a_slow_network_shows_content_within_a_second(browser: Browser, trained: ServiceProcess, view: str):
    loads: list[Load] = []
    for _ in range(LOADS):
        with visiting(browser, trained.url) as visit:
            loads.append(load_slowly(visit, view))
    assert min(load.network_ms for load in loads) <= CONTENT_MS / 2, loads  # half is left for the machine
    if os.getloadavg()[0] <= (os.cpu_count() or 1):  # a busier machine may take its time
        assert min(load.content_ms for load in loads) <= CONTENT_MS, loads


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


@pytest.mark.parametrize("lost", ["main.js", "style.css", "theme.js"])
def test_a_part_that_does_not_load_is_told_and_loaded_again_by_a_button(
    browser: Browser, trained: ServiceProcess, lost: str
):
    with visiting(browser, trained.url, refused={404}) as visit:
        page = visit.page
        page.route(f"**/{lost}", lambda route: route.fulfill(status=404))
        page.goto(f"{trained.url}/#/{RUN}")
        page.get_by_role("heading", name="This page did not load completely").wait_for()
        assert not [one for one in visit.barriers() if lost != "style.css"]
        page.unroute(f"**/{lost}")
        page.get_by_role("button", name="Reload").click()
        page.wait_for_selector("#live[data-state=live]")
        assert page.locator("h1").inner_text() == BOTS


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
        assert page.locator(".tile .value").first.is_visible()
        page.goto(f"{service.url}/#/datasets/own")
        expect(alert).to_contain_text("This view appears as soon as there is an answer.")
        assert page.locator("main .card").first.is_hidden()
        service.start()
        page.wait_for_selector("#live[data-state=live]")
        expect(page.locator("main .card").first).to_be_visible()
        assert page.locator("main[data-stale]").count() == 0
        assert all("net::ERR_" in line for line in visit.wrong)  # Chromium logs these itself
        visit.wrong.clear()


def test_the_head_of_the_page_stays_in_sight(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        visit.open(RUN)
        page = visit.drawn()
        page.mouse.wheel(0, 2000)
        page.wait_for_function("() => scrollY > 500")
        expect(page.locator("#live")).to_be_in_viewport()
