"""What rollouts cost, on the page: shown where outcomes say it, and nowhere else."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import PERCENT, PHONE, visiting
from tests.serving import ServiceProcess, running_service

RUNS = {"default": {}, "even": {"strategy": "uniform"}, "free": {}}
STEPS, TRIALS, TOKENS, SECONDS = 12, 8, 4000, 1800
TASKS = [{"id": f"t{number}", "tags": [("odd", "even")[number % 2 == 0]]} for number in range(8)]
UNKNOWN = "\N{EN DASH}"
NAMES = ("Tokens", "GPU hours")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with a run whose odd tasks say their costs, a baseline that says all, and a run that says none."""
    with running_service(tmp_path_factory.mktemp("costs")) as started:
        with httpx.Client(base_url=started.url, timeout=30) as http:
            http.put("/datasets/guru", json={"tasks": TASKS}).raise_for_status()
            for run, settings in RUNS.items():
                http.put(f"/datasets/guru/runs/{run}", json=settings).raise_for_status()
                for _ in range(STEPS):
                    outcomes = [outcome(run, task) for task in range(4)]
                    http.post("/report", json={"dataset": "guru", "run": run, "outcomes": outcomes}).raise_for_status()
        yield started


def outcome(run: str, task: int) -> dict[str, object]:
    """Return an outcome: of the baseline one task of four is effective, of the others two."""
    effective = task < (1 if run == "even" else 2)
    told = run == "even" or (run == "default" and task % 2 == 1)
    cost = {"tokens": TOKENS, "seconds": SECONDS} if told else {}
    return {"task": f"t{task}", "successes": 3 if effective else 0, "trials": TRIALS, **cost}


def tile(page: Page, name: str) -> str:
    """Return what a tile says."""
    return page.locator(".tile").filter(has=page.get_by_text(name, exact=True)).locator("dd").inner_text()


def test_a_run_shows_what_an_effective_task_costs_and_what_was_saved(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        page = visit.open("datasets/guru/runs/default")
        # Of two tasks that say their tokens, one is effective; uniform sampling finds half as many tasks.
        costs, saved = tile(page, "Tokens per effective task"), tile(page, "Tokens saved")
        assert costs.startswith("8K")
        assert f"last {STEPS} steps; 96K tokens spent, known for 50.0{PERCENT} of the rollouts" in costs
        assert saved.startswith("96K")
        assert "of 96K spent (measured)" in saved
        assert tile(page, "GPU seconds per effective task").startswith("3.6K\n")
        assert tile(page, "GPU hours saved").startswith("12\n")
        assert visit.barriers() == []


def test_tags_runs_and_tasks_show_what_they_cost(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        page = visit.open("datasets/guru/runs/default")
        tags = page.get_by_role("table", name="Numbers by tag")
        heads = tags.locator("thead th").all_inner_texts()
        cells = tags.get_by_role("row").filter(has_text="odd").locator("th, td").all_inner_texts()
        assert dict(zip(heads, cells, strict=True))["Tokens per effective task"] == "8K"
        even = tags.get_by_role("row").filter(has_text="even").locator("th, td").all_inner_texts()
        assert dict(zip(heads, even, strict=True))["GPU seconds per effective task"] == UNKNOWN
        page = visit.open("datasets/guru")
        expect(page.get_by_role("table", name="Comparison of runs")).to_contain_text("192K")
        (row,) = [row for row in visit.rows("Comparison of runs") if row["Run"].startswith("even")]
        assert (row["Tokens"], row["GPU seconds per effective task"]) == ("192K", "7.2K")
        page = visit.open("datasets/guru/runs/default/tasks?task=t1")
        drawer = page.get_by_role("dialog")
        expect(drawer).to_contain_text("48K")
        expect(drawer.locator(".history li").first).to_contain_text("4K tokens")


def test_without_costs_the_page_says_nothing_of_them(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url, size=PHONE) as visit:
        page = visit.open("datasets/guru/runs/free")
        page.get_by_role("table", name="Numbers by tag").wait_for()
        page.locator(".facts dt").first.wait_for()
        shown = page.locator("body").inner_text()
        assert [name for name in NAMES if name in shown] == []
