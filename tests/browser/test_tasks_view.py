"""A run's tasks as a tool: segments, filters and order in the address, one task's history, and retiring it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import PERCENT, Visit, visiting
from tests.serving import ServiceProcess, running_service

RUN = "/datasets/guru/runs/default"
VIEW = "datasets/guru/runs/default/tasks"
ODD = 'a/b ?&#<img src=x onerror="document.title=1">%2F'  # an id that a careless page would take for something else
TRIALS = 8
VISITS = 60  # of one task: more than the drawer loads at once
UNSOLVED, TEACHING, UNTRIED = ["t0", "t1"], ["t2", "t3", ODD], [f"t{number}" for number in range(4, 40)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("tasks")) as started:
        with httpx.Client(base_url=started.url, timeout=30) as http:
            names = [*UNSOLVED, *TEACHING, *UNTRIED]
            tasks = [{"id": name, "tags": ["even"] if place % 2 == 0 else []} for place, name in enumerate(names)]
            http.put("/datasets/guru", json={"tasks": tasks}).raise_for_status()
            for visit in range(VISITS):
                outcomes = [outcome(ODD, visit % (TRIALS + 1))]
                outcomes += [outcome("t0", 0), outcome("t1", 0), outcome("t2", 1), outcome("t3", 5)][: 4 * (visit == 0)]
                http.post("/report", json={"dataset": "guru", "outcomes": outcomes}).raise_for_status()
        yield started


def outcome(task: str, successes: int) -> dict[str, Any]:
    return {"task": task, "successes": successes, "trials": TRIALS}


@pytest.fixture
def visit(browser: Browser, service: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, service.url) as opened:
        yield opened


def ids(page: Page) -> list[str]:
    return page.locator("tbody th").all_inner_texts()


def lists(page: Page, names: list[str]) -> None:
    expect(page.locator("tbody th")).to_have_text(names)


def choose(page: Page, segment: str) -> None:
    page.get_by_role("list").get_by_role("link", name=segment).click()


def test_a_segment_lists_its_tasks_and_says_never_tried_where_there_is_no_attempt(visit: Visit):
    page = visit.open(VIEW)
    choose(page, "Not solved yet")
    lists(page, UNSOLVED)
    choose(page, "Untried")
    lists(page, UNTRIED[:25])
    assert "never tried" in page.locator("tbody tr").first.inner_text()
    labels = page.locator(".segments a").all_inner_texts()
    shares = [f"{100 * len(part) / 41:.1f}{PERCENT}" for part in (UNTRIED, UNSOLVED, TEACHING)]
    assert [label.split("\n")[-1] for label in labels[1:4]] == shares


def test_all_that_the_view_shows_stands_in_its_address(visit: Visit, service: ServiceProcess):
    page = visit.open(VIEW)
    lists(page, [*UNSOLVED, *TEACHING, *UNTRIED][:25])
    choose(page, "Untried")
    page.get_by_label("Only tasks with this tag").select_option("even")
    page.get_by_role("button", name="Visits").click()
    page.get_by_label("Search tasks by id").fill("t2")
    even = [name for place, name in enumerate([*UNSOLVED, *TEACHING, *UNTRIED]) if place % 2 == 0]
    expected = [name for name in UNTRIED if name in even and "t2" in name]
    lists(page, expected)
    address = page.url
    assert page.context.browser
    with visiting(page.context.browser, service.url) as other:  # a colleague who was sent the address
        other.page.goto(address)
        lists(other.page, expected)
        assert other.page.get_by_label("Search tasks by id").input_value() == "t2"
        expect(other.page.locator(".segments [aria-current]")).to_contain_text("Untried")
        other.page.wait_for_selector("th[aria-sort=descending] >> text=Visits")


def test_a_task_shows_its_counts_and_back_returns_to_the_list(visit: Visit, service: ServiceProcess):
    page = visit.open(f"{VIEW}?segment=teaching")
    lists(page, TEACHING)
    page.get_by_role("link", name=ODD).click()
    told = httpx.get(f"{service.url}{RUN}/tasks", params={"ids": ODD}).json()["tasks"][0]
    expect(page.get_by_role("heading", level=1)).to_have_text(ODD)  # it stays text
    facts = page.locator(".tiles")
    expect(facts).to_contain_text(f"of {VISITS * TRIALS} rollouts in {VISITS} visits")
    assert page.locator("main img").count() == 0
    assert f"{told['mean']:.2f}" in facts.inner_text()
    assert not visit.barriers()
    page.go_back()
    lists(page, TEACHING)


def test_a_task_is_retired_once_that_is_confirmed_and_restored(visit: Visit, service: ServiceProcess):
    page = visit.open(f"{VIEW}?task=t9")
    page.get_by_role("button", name="Retire…").click()
    dialog = page.get_by_role("dialog", name="Retire task t9?")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Retire…")).to_be_focused()
    assert retired(service) == 0
    page.get_by_role("button", name="Retire…").click()
    dialog.get_by_role("button", name="Retire").click()
    page.get_by_role("button", name="Restore…").wait_for()
    assert retired(service) == 1
    page.get_by_role("link", name="Tasks", exact=True).click()
    choose(page, "Retired")
    lists(page, ["t9"])
    page.get_by_role("link", name="t9").click()
    page.get_by_role("button", name="Restore…").click()
    page.get_by_role("dialog", name="Restore task t9?").get_by_role("button", name="Restore").click()
    page.get_by_role("button", name="Retire…").wait_for()
    assert retired(service) == 0


def retired(service: ServiceProcess) -> int:
    return httpx.get(f"{service.url}/datasets/guru").json()["retired"]
