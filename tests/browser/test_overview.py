"""The table of all runs on the page: ten thousand of them, found, sorted and paged by the service."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import PERCENT, PHONE, Visit, visiting
from tests.browser.many_runs import DATASETS, RUNS_OF_EACH, STEPS, TASKS, effective_of, name_of, prepare
from tests.serving import ServiceProcess

PAGE = 50
ALL = DATASETS * RUNS_OF_EACH


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with ten thousand runs."""
    service = prepare(tmp_path_factory.mktemp("many"))
    service.start()
    told(service)  # the first one reads all runs; on a busy machine that takes longer than a page waits
    yield service
    service.stop()


@pytest.fixture
def visit(browser: Browser, service: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, service.url) as opened:
        opened.open()
        yield opened


def shown(page: Page) -> list[tuple[str, str]]:
    """Return the rows: dataset and run."""
    names = page.locator(".runs tbody .dataset").all_inner_texts(), page.locator(".runs tbody .run").all_inner_texts()
    return list(zip(*names, strict=True))


def told(service: ServiceProcess, **query: str | int) -> list[tuple[str, str]]:
    """Return the same rows, as the API has them."""
    answer = httpx.get(f"{service.url}/overview", params={"limit": PAGE, **query}, timeout=300).raise_for_status()
    return [(run["dataset"], run["run"]) for run in answer.json()["runs"]]


def expect_where(page: Page, text: str) -> None:
    """Wait until the table says which runs it shows."""
    expect(page.locator(".pages [role=status]")).to_have_text(text)


def test_ten_thousand_runs_are_shown_page_by_page(visit: Visit, service: ServiceProcess):
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
    page.get_by_label("Search datasets and runs").fill("Pool-07/RUN-01")
    expect_where(page, "1 to 10 of 10")
    expected = {("pool-07", name_of(number)) for number in range(10, 20)}
    assert set(shown(page)) == expected
    with visiting(browser, service.url) as other:
        other.page.goto(page.url)
        expect_where(other.page, "1 to 10 of 10")
        assert set(shown(other.page)) == expected
        expect(other.page.get_by_label("Search datasets and runs")).to_have_value("Pool-07/RUN-01")


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


def test_a_status_and_a_dataset_leave_the_others_out(visit: Visit, service: ServiceProcess):
    page = visit.page
    answer = httpx.get(f"{service.url}/overview", params={"status": "running", "limit": 1}, timeout=300).json()
    chip = page.get_by_role("group", name="Status").get_by_role("button", name="running")
    assert f"{answer['totals']['running']:,}" in chip.inner_text()
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect_where(page, f"1 to {min(PAGE, answer['matching'])} of {answer['matching']:,}")
    assert set(page.locator(".runs tbody .state").all_inner_texts()) == {"running"}
    chip.click()
    page.get_by_label("Only runs of this dataset").fill("pool-03")
    page.keyboard.press("Enter")
    expect_where(page, f"1 to {PAGE} of {RUNS_OF_EACH}")
    assert {dataset for dataset, _ in shown(page)} == {"pool-03"}
    page.get_by_role("button", name="All datasets").click()
    expect_where(page, f"1 to {PAGE} of {ALL:,}")


def test_a_row_says_what_the_api_says(visit: Visit):
    page = visit.page
    page.get_by_label("Search datasets and runs").fill("pool-05/run-014")
    expect_where(page, "1 to 1 of 1")
    row = page.locator(".runs tbody tr")
    ratio = effective_of(14) / TASKS
    assert row.locator(".ratio").inner_text() == f"{100 * ratio:.1f}{PERCENT}"
    filled = float(row.locator(".ratio-bar .filled").get_attribute("width") or 0)
    assert filled / float(row.locator(".ratio-bar").get_attribute("width") or 0) == pytest.approx(ratio)
    assert row.locator(".step").inner_text() == str(STEPS)
    assert row.locator(".how").inner_text() == "tracker, pass"


def test_the_totals_are_of_all_runs_whatever_is_searched(visit: Visit):
    page = visit.page
    page.get_by_label("Search datasets and runs").fill("pool-05/run-014")
    expect_where(page, "1 to 1 of 1")
    totals = page.locator(".totals").inner_text()
    effective = DATASETS * STEPS * sum(effective_of(number) for number in range(RUNS_OF_EACH))
    assert f"{ALL:,}" in totals
    assert f"of {DATASETS} datasets" in totals
    assert f"{100 * effective / (ALL * STEPS * TASKS):.1f}{PERCENT} of reported" in totals


def test_an_idle_tab_asks_once_a_refresh(visit: Visit):
    page = visit.page
    asked: list[str] = []
    expect_where(page, f"1 to {PAGE} of {ALL:,}")
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    for turn in range(1, 4):
        with page.expect_response(re.compile("/overview")):
            pass
        assert asked == turn * ["/overview"]


def test_the_keyboard_reaches_search_filters_headings_rows_and_pages(visit: Visit):
    page = visit.page
    expect_where(page, f"1 to {PAGE} of {ALL:,}")
    dataset, run = shown(page)[0]
    wanted = {"Search datasets and runs", "all", "running", "Effective task ratio", dataset, run}
    reached = set()
    page.locator("body").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        name = (
            "() => { const one = document.activeElement; return one.dataset.name ?? one.ariaLabel ?? one.textContent; }"
        )
        reached.add(page.evaluate(name))
    assert wanted <= reached


def test_on_a_phone_each_run_is_a_card_and_can_be_sorted(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url, size=PHONE) as visit:
        page = visit.open()
        expect_where(page, f"1 to {PAGE} of {ALL:,}")
        page.get_by_label("Sort by").select_option("name")
        expect(page.locator(".runs tbody .run").nth(1)).to_have_text(name_of(1))
        assert shown(page) == told(service, sort="name")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]
        row = page.locator(".runs tbody tr").first.bounding_box()
        assert row
        assert row["width"] <= PHONE[0]
        assert not visit.barriers()
