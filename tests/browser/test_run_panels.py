"""What stands around a run's charts: its history, its settings and its tags."""

import httpx
from playwright.sync_api import Browser, expect

from tests.browser.chromium import PERCENT, visiting
from tests.browser.everything import DATASET
from tests.browser.everything import RUN as MIXED
from tests.serving import ServiceProcess, running_service

RUN = "/datasets/guru/runs/default"
BEFORE, UNDONE, AFTER = 6, 3, 2  # reports: kept by the rewind, taken back by it, and after it


def report(http: httpx.Client, times: int) -> None:
    outcomes = [{"task": f"t{task}", "successes": task, "trials": 8} for task in range(2)]
    for _ in range(times):
        http.post("/report", json={"dataset": "guru", "outcomes": outcomes}).raise_for_status()


def test_the_history_tells_of_changes_and_of_those_that_a_rewind_undid(browser: Browser, tmp_path):
    with (
        running_service(tmp_path) as service,
        httpx.Client(base_url=service.url, timeout=30) as http,
        visiting(browser, service.url) as visit,
    ):
        http.put("/datasets/guru", json={"tasks": [{"id": f"t{number}"} for number in range(4)]}).raise_for_status()
        report(http, BEFORE)
        http.patch(RUN, json={"target": 0.6}).raise_for_status()
        report(http, UNDONE)
        page = visit.open("datasets/guru/runs/default")
        page.get_by_role("table", name="History").wait_for()
        assert [row["Change"] for row in visit.rows("History")] == ["Settings changed: target 0.6"]
        http.post(f"{RUN}/rewind", json={"step": BEFORE}).raise_for_status()
        report(http, AFTER)
        expect(page.get_by_role("table", name="History").locator("tbody tr")).to_have_count(2)
        rows = [(row["Change"], row["Step"]) for row in visit.rows("History")]
        assert rows == [
            (f"Rewind to step {BEFORE}", str(BEFORE)),
            ("Settings changed: target 0.6 (undone)", str(BEFORE)),
        ]
        fact = page.locator(".facts dd", has_text="tasks").first
        expect(fact).to_have_text("0 tasks")
        http.post("/select", json={"dataset": "guru", "count": 3}).raise_for_status()
        expect(fact).to_have_text("3 tasks")
        page.get_by_role("link", name="Journal with all reports").click()
        page.get_by_text('"kind":"report"').wait_for()


def test_a_mix_shows_among_the_settings_and_as_the_share_that_each_tag_is_owed(browser: Browser, mixed: ServiceProcess):
    told = httpx.get(f"{mixed.url}/datasets/{DATASET}/runs/{MIXED}").json()
    share = next(one["share"] for one in told["mix"] if one["tag"] == "code")
    with visiting(browser, mixed.url) as visit:
        page = visit.open(f"datasets/{DATASET}/runs/{MIXED}")
        card = page.get_by_label("Settings", exact=True)
        card.locator("dt").first.wait_for()
        names, values = (card.locator(part).all_inner_texts() for part in ("dt", "dd"))
        shown = dict(zip(names, values, strict=True))
        assert set(shown) == set(told["settings"])
        assert (shown["mix"], shown["target"]) == ("code 1; logic 1; math 3", "0.5")
        row = page.get_by_role("region", name="Numbers by tag").get_by_role("row").filter(has_text="code")
        expect(row.get_by_role("img").first).to_have_accessible_name(f"owed by the mix: {100 * share:.1f}{PERCENT}")


def test_a_run_shows_how_far_it_trusts_a_probe(browser: Browser, mixed: ServiceProcess):
    with visiting(browser, mixed.url) as visit:
        estimates = visit.open(f"datasets/{DATASET}/runs/{MIXED}").get_by_label("Estimates", exact=True)
        expect(estimates).to_contain_text("probe slope")
