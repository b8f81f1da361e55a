"""The page compares a run's belief with others only when you click the button."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import visiting
from tests.serving import ServiceProcess, running_service

RUN = "/datasets/pool/runs/default"
TASKS, STEPS, TRIALS = 20, 100, 8  # steps: as many as a recommendation needs


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with a run of steps of four tasks, whose success rates never change."""
    with running_service(tmp_path_factory.mktemp("compared")) as started:
        with httpx.Client(base_url=started.url, timeout=30) as http:
            tasks = [{"id": f"t{number}", "reference_pass_rates": [number / TASKS]} for number in range(TASKS)]
            http.put("/datasets/pool", json={"tasks": tasks, "reference_models": ["one"]}).raise_for_status()
            http.put("/datasets/new", json={"tasks": tasks, "reference_models": ["one"]}).raise_for_status()
            for step in range(STEPS):
                chosen = [(4 * step + place) % TASKS for place in range(4)]
                outcomes = [
                    {"task": f"t{task}", "successes": task * TRIALS // TASKS, "trials": TRIALS} for task in chosen
                ]
                http.post("/report", json={"dataset": "pool", "outcomes": outcomes}).raise_for_status()
        yield started


def signed(value: float) -> str:
    """Return a number as the page writes differences, with a real minus."""
    size, sign = f"{abs(value):.3f}", "+" if value > 0 else "\N{MINUS SIGN}"
    return size if size == "0.000" else sign + size


def test_a_comparison_shows_what_the_api_tells_once_the_button_is_pressed(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        asked: list[str] = []
        visit.page.on("request", lambda request: asked.append(request.url))
        page = visit.open("datasets/pool/runs/default")
        button = page.get_by_role("button", name="Compare beliefs")
        expect(button).to_be_enabled()
        assert not [url for url in asked if "comparison?" in url]
        button.click()
        page.locator(".verdict").wait_for()
        expect(button).to_be_enabled()
        told = httpx.get(service.url + RUN + "/comparison", params={"wait_s": 30}, timeout=60).json()["comparison"]
        rows = page.get_by_role("table", name="Beliefs compared").get_by_role("row").all_inner_texts()[1:]
        named = [one for one in told["beliefs"] if one["role"] != "grid"]
        assert page.locator(".verdict").inner_text() == told["advice"]
        assert len(rows) == len(named)
        for row, one in zip(rows, named, strict=True):
            assert row.startswith(one["name"])
            assert f"{one['log_loss']:.3f}" in row
            found = one["log_loss_difference"]
            between = "–" if found is None else f"{signed(found['mean'])} ({signed(found['low'])} to"  # noqa: RUF001 - a dash
            assert between in row
        panel = page.locator("section", has=page.get_by_role("heading", name="Which belief fits this run?"))
        panel.locator("summary").click()
        assert not visit.barriers()


def test_a_comparison_that_is_refused_says_why_and_may_be_asked_for_again(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url, refused={503}) as visit:
        page = visit.page
        problem = {"title": "Overloaded", "detail": "another comparison is under way"}
        page.route("**/default/comparison*", lambda route: route.fulfill(status=503, json=problem))
        visit.open("datasets/pool/runs/default").get_by_role("button", name="Compare beliefs").click()
        page.get_by_text(problem["detail"]).wait_for()
        expect(page.get_by_role("button", name="Compare beliefs")).to_be_enabled()


def test_a_run_without_a_closed_step_offers_no_comparison(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        page = visit.open("datasets/new/runs/default")
        page.get_by_text("No reports yet.").wait_for()
        expect(page.get_by_role("button", name="Compare beliefs")).to_be_disabled()
