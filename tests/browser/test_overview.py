"""The table of all runs on the page: more than a page of them, found, sorted and paged by the service."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import PERCENT, Visit, visiting
from tests.serving import ServiceProcess, running_service

PAGE = 50
DATASETS, RUNS_OF_EACH = 3, 40  # and the run `default` of each, which is not used and so not listed
ALL = DATASETS * RUNS_OF_EACH
TASKS, TRIALS = 8, 8  # of the one step of a run


def effective_of(run: int) -> int:
    """Return how many of its step's tasks are effective. run: its number in its dataset."""
    return run % (TASKS + 1)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("many")) as started:
        with httpx.Client(base_url=started.url, timeout=60) as http:
            for dataset in (f"pool-{place}" for place in range(DATASETS)):
                tasks = [{"id": f"t{number}"} for number in range(TASKS)]
                http.put(f"/datasets/{dataset}", json={"tasks": tasks}).raise_for_status()
                for number in range(RUNS_OF_EACH):
                    run = f"run-{number:03}"
                    http.put(f"/datasets/{dataset}/runs/{run}", json={}).raise_for_status()
                    solved = [TRIALS // 2 if task < effective_of(number) else 0 for task in range(TASKS)]
                    outcomes = [{"task": f"t{task}", "successes": n, "trials": TRIALS} for task, n in enumerate(solved)]
                    report = {"dataset": dataset, "run": run, "outcomes": outcomes}
                    http.post("/report", json=report).raise_for_status()
        yield started


@pytest.fixture
def visit(browser: Browser, service: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, service.url) as opened:
        opened.open()
        yield opened


def shown(page: Page) -> list[tuple[str, str]]:
    rows = [row.split("\n") for row in page.locator("tbody th").all_inner_texts()]
    return [(dataset, run) for run, dataset in rows]


def told(service: ServiceProcess, **query: str | int) -> list[tuple[str, str]]:
    answer = httpx.get(f"{service.url}/overview", params={"limit": PAGE, **query}, timeout=300).raise_for_status()
    return [(run["dataset"], run["run"]) for run in answer.json()["runs"]]


def expect_where(page: Page, text: str) -> None:
    expect(page.get_by_role("status").get_by_text(text, exact=True)).to_be_visible()


def test_runs_are_shown_page_by_page(visit: Visit, service: ServiceProcess):
    page = visit.page
    expect_where(page, f"1 to {PAGE} of {ALL:,}")
    first = shown(page)
    assert first == told(service)
    page.get_by_role("button", name="Next").click()
    expect_where(page, f"{PAGE + 1} to {2 * PAGE} of {ALL:,}")
    second = shown(page)
    assert len(set(first + second)) == 2 * PAGE
    page.get_by_role("link", name=second[7][1], exact=True).first.click()
    page.wait_for_selector(f"h1 >> text={second[7][1]}")
    page.go_back()
    expect_where(page, f"{PAGE + 1} to {2 * PAGE} of {ALL:,}")
    page.get_by_role("button", name="Previous").click()
    expect_where(page, f"1 to {PAGE} of {ALL:,}")
    assert shown(page) == first


def test_a_search_finds_parts_of_names_and_stands_in_the_address(
    visit: Visit, browser: Browser, service: ServiceProcess
):
    page = visit.page
    page.get_by_label("Search datasets and runs").fill("Pool-1/RUN-01")
    expect_where(page, "1 to 10 of 10")
    expected = {("pool-1", f"run-{number:03}") for number in range(10, 20)}
    assert set(shown(page)) == expected
    with visiting(browser, service.url) as other:
        other.page.goto(page.url)
        expect_where(other.page, "1 to 10 of 10")
        assert set(shown(other.page)) == expected
        expect(other.page.get_by_label("Search datasets and runs")).to_have_value("Pool-1/RUN-01")


def test_a_heading_sorts_by_its_column_and_turns_it_round_and_back_undoes_that(visit: Visit, service: ServiceProcess):
    page = visit.page
    heading = page.get_by_role("columnheader", name="Effective task ratio")
    for order, sort in (("descending", "-effective_task_ratio"), ("ascending", "effective_task_ratio")):
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", order)
        assert shown(page) == told(service, sort=sort)
        assert f"sort={sort}" in page.url
    page.go_back()
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert shown(page) == told(service, sort="-effective_task_ratio")


def test_a_status_leaves_the_others_out(visit: Visit, service: ServiceProcess):
    page = visit.page
    for place in range(DATASETS):
        httpx.post(f"{service.url}/datasets/pool-{place}/runs/run-000/finish").raise_for_status()
    page.reload()
    answer = httpx.get(f"{service.url}/overview", params={"status": "finished", "limit": 1}, timeout=300).json()
    chip = page.get_by_role("group", name="Filter").get_by_role("button", name="finished")
    expect(chip).to_contain_text(f"{answer['totals']['finished']:,}")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    assert answer["matching"] == DATASETS
    expect_where(page, f"1 to {DATASETS} of {DATASETS}")
    assert {row["Status"] for row in visit.rows("Runs")} == {"finished"}
    chip.click()
    expect_where(page, f"1 to {PAGE} of {ALL:,}")


def test_a_row_says_what_the_api_says_and_the_totals_are_of_all_runs(visit: Visit):
    page = visit.page
    page.get_by_label("Search datasets and runs").fill("pool-2/run-014")
    expect_where(page, "1 to 1 of 1")
    (row,) = visit.rows("Runs")
    ratio = effective_of(14) / TASKS
    assert row["Effective task ratio"].strip() == f"{100 * ratio:.1f}{PERCENT}"
    filled = float(page.locator("tbody .part").first.get_attribute("width") or 0)
    assert filled / float(page.locator("tbody .whole").first.get_attribute("width") or 0) == pytest.approx(ratio)
    assert (row["Step"], row["Strategy"], row["belief"]) == ("1", "pass", "tracker")
    totals = page.locator(".totals").inner_text()
    effective = DATASETS * sum(effective_of(number) for number in range(RUNS_OF_EACH))
    assert f"{ALL:,}" in totals
    assert f"of {DATASETS} datasets" in totals
    assert f"{100 * effective / (DATASETS * RUNS_OF_EACH * TASKS):.1f}{PERCENT} of reported" in totals
