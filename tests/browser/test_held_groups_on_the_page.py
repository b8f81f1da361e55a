"""Held groups on the page: told with the verdict, and released or dropped there."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Visit, visiting
from tests.serving import ServiceProcess, running_service

COUNT = 12
RUN = "/datasets/guarded/runs/default"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with a guarded run whose verifier broke in its fifth step."""
    with running_service(tmp_path_factory.mktemp("held")) as started:
        with httpx.Client(base_url=started.url, timeout=30) as http:
            tasks = [{"id": f"t{number}", "tags": ["code"]} for number in range(COUNT)]
            http.put("/datasets/guarded", json={"tasks": tasks}).raise_for_status()
            http.patch(RUN, json={"verifier_guard": True}).raise_for_status()
            for successes in (4, 4, 4, 4, 0):
                outcomes = [{"task": f"t{number}", "successes": successes, "trials": 8} for number in range(COUNT)]
                http.post("/report", json={"dataset": "guarded", "outcomes": outcomes}).raise_for_status()
        yield started


@pytest.fixture
def visit(browser: Browser, service: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, service.url) as opened:
        yield opened


def test_held_groups_are_told_and_dropped_where_the_verdict_stands(visit: Visit, service: ServiceProcess):
    page = visit.open("datasets/guarded/runs/default")
    expect(page.get_by_role("note", name="Verdict")).to_contain_text("Verifier suspect")
    held = page.get_by_role("region", name="Held groups")
    expect(held.get_by_role("listitem")).to_have_text(
        [f"All tasks: {COUNT} groups, since step 5", f"Tag code: {COUNT} groups, since step 5"]
    )
    held.get_by_role("button", name="Release…").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    held.get_by_role("button", name="Drop…").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop").click()
    expect(held).to_be_hidden()
    run = httpx.get(f"{service.url}{RUN}", timeout=30).json()
    assert (run["alarms"], run["seq"]) == ([], 7)
    expect(page.get_by_text("Held groups dropped")).to_be_visible()
