"""A run's tasks as a tool: segments, filters and a drawer, all of it in the address; tasks retired and restored."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import PERCENT, PHONE, Visit, visiting
from tests.serving import ServiceProcess, running_service

RUN = "/datasets/guru/runs/default"
VIEW = "datasets/guru/runs/default/tasks"
ODD = 'a/b ?&#<img src=x onerror="document.title=1">%2F'  # an id that a careless page would take for something else
TRIALS = 8
VISITS = 60  # of one task: more than the drawer loads at once
STUCK, TEACHING, UNTRIED = ["t0", "t1"], ["t2", "t3", ODD], [f"t{number}" for number in range(4, 40)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with a run in which two tasks are stuck, three teach, and the others are untried."""
    with running_service(tmp_path_factory.mktemp("tasks")) as started:
        with httpx.Client(base_url=started.url, timeout=30) as http:
            names = [*STUCK, *TEACHING, *UNTRIED]
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
    return page.locator(".tasks tbody th").all_inner_texts()


def lists(page: Page, names: list[str]) -> None:
    """Wait until the table lists these tasks."""
    expect(page.locator(".tasks tbody th")).to_have_text(names)


def drawer(page: Page) -> Any:
    return page.get_by_role("dialog", name=ODD)


def test_a_segment_lists_its_tasks_and_says_never_tried_where_there_is_no_attempt(visit: Visit):
    page = visit.open(VIEW)
    page.get_by_role("radio", name="Stuck at 0").check(force=True)
    lists(page, STUCK)
    page.get_by_role("radio", name="Untried").check(force=True)
    lists(page, UNTRIED[:25])
    assert page.locator(".tasks tbody tr").first.inner_text().split("\t")[-2] == "never tried"
    labels = page.locator(".segment").all_inner_texts()
    shares = [f"{100 * len(part) / 41:.1f}{PERCENT}" for part in (UNTRIED, STUCK, TEACHING)]
    assert [label.split("\n")[-1] for label in labels[1:4]] == shares


def test_all_that_the_view_shows_stands_in_its_address(visit: Visit, service: ServiceProcess):
    page = visit.open(VIEW)
    lists(page, [*STUCK, *TEACHING, *UNTRIED][:25])
    page.get_by_role("radio", name="Untried").check(force=True)
    page.get_by_label("Only tasks with this tag").select_option("even")
    page.get_by_role("button", name="Visits").click()
    page.get_by_label("Search tasks by id").fill("t2")
    even = [name for place, name in enumerate([*STUCK, *TEACHING, *UNTRIED]) if place % 2 == 0]
    expected = [name for name in UNTRIED if name in even and "t2" in name]
    lists(page, expected)
    address = page.url
    assert page.context.browser
    with visiting(page.context.browser, service.url) as other:  # a colleague who was sent the address
        other.page.goto(address)
        lists(other.page, expected)
        assert other.page.get_by_label("Search tasks by id").input_value() == "t2"
        assert other.page.get_by_role("radio", name="Untried").is_checked()
        other.page.wait_for_selector("th[aria-sort=descending] >> text=Visits")


def test_a_task_s_drawer_shows_each_visit_and_loads_older_ones(visit: Visit, service: ServiceProcess):
    page = visit.open(VIEW)
    page.get_by_role("link", name=ODD).click()
    told = httpx.get(f"{service.url}{RUN}/tasks", params={"ids": ODD}).json()["tasks"][0]
    visits = drawer(page).locator(".history li")
    expect(visits).to_have_count(50)
    facts = drawer(page).locator(".task-facts").inner_text()
    assert f"{VISITS * TRIALS} rollouts in {VISITS} visits" in facts
    assert f"{told['mean']:.2f}" in facts
    drawer(page).get_by_role("button", name="Load older visits").click()
    expect(visits).to_have_count(VISITS)
    rows = [row.split("\n") for row in visits.all_inner_texts()]
    solved = [(visit, visit % (TRIALS + 1)) for visit in range(VISITS - 1, -1, -1)]
    expected = [[f"step {visit + 1}", f"{number} of 8", f"{number / 0.08:.1f}{PERCENT}"] for visit, number in solved]
    assert [row[:3] for row in rows] == expected
    assert [one.locator(".solved").count() for one in visits.all()] == [number for _, number in solved]
    expect(drawer(page).get_by_role("button", name="Load older visits")).to_be_hidden()
    assert not visit.barriers()


def test_the_drawer_holds_the_focus_closes_by_escape_and_gives_the_focus_back(visit: Visit):
    page = visit.open(VIEW)
    link = page.get_by_role("link", name=ODD)
    link.focus()
    page.keyboard.press("Enter")
    drawer(page).get_by_role("button", name="Retire…").wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        inside = page.evaluate(
            "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
        assert inside
    page.keyboard.press("Escape")
    expect(drawer(page)).to_be_hidden()
    expect(link).to_be_focused()
    expect(page).not_to_have_url(re.compile("task="))  # it goes back in the history, which takes a moment
    page.go_back()  # the drawer left no entry of its own behind
    assert not page.url.endswith("/tasks")


def test_what_users_call_their_tasks_stays_text(visit: Visit):
    page = visit.open(f"{VIEW}?segment=teaching")
    lists(page, TEACHING)
    page.get_by_role("link", name=ODD).click()
    assert drawer(page).locator("h2").inner_text() == ODD
    assert page.locator("main img").count() == 0
    assert "Tasks" in page.title()


def test_marked_tasks_are_retired_once_that_is_confirmed_and_restored(visit: Visit, service: ServiceProcess):
    page = visit.open(f"{VIEW}?segment=untried")
    for name in ("t4", "t5"):
        page.get_by_label(f"Mark {name}", exact=True).check()
    page.get_by_role("group", name="Marked tasks").get_by_role("button", name="Retire…").click()
    page.get_by_role("dialog", name="Retire 2 tasks?").get_by_role("button", name="Cancel").click()
    assert retired(service) == 0
    page.get_by_role("group", name="Marked tasks").get_by_role("button", name="Retire…").click()
    page.get_by_role("dialog", name="Retire 2 tasks?").get_by_role("button", name="Retire").click()
    page.get_by_text("2 tasks retired.").wait_for()
    lists(page, UNTRIED[2:27])
    assert retired(service) == 2
    page.get_by_role("radio", name="Retired").check(force=True)
    lists(page, ["t4", "t5"])
    page.get_by_role("link", name="t4").click()
    page.get_by_role("dialog", name="t4").get_by_role("button", name="Restore…").click()
    page.get_by_role("dialog", name="Restore task t4?").get_by_role("button", name="Restore").click()
    page.get_by_role("dialog", name="t4").get_by_role("button", name="Retire…").wait_for()
    page.keyboard.press("Escape")
    lists(page, ["t5"])
    page.get_by_label("Mark all tasks of this page").check()
    page.get_by_role("group", name="Marked tasks").get_by_role("button", name="Restore…").click()
    page.get_by_role("dialog", name="Restore task t5?").get_by_role("button", name="Restore").click()
    page.get_by_text("No task matches.").wait_for()
    assert retired(service) == 0


def test_a_retirement_can_be_undone_at_once(visit: Visit, service: ServiceProcess):
    page = visit.open(f"{VIEW}?task=t9")
    page.get_by_role("dialog", name="t9").get_by_role("button", name="Retire…").click()
    page.get_by_role("dialog", name="Retire task t9?").get_by_role("button", name="Retire").click()
    page.get_by_role("dialog", name="t9").get_by_role("button", name="Restore…").wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_text("Task t9 retired.").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("dialog", name="Restore task t9?").get_by_role("button", name="Restore").click()
    page.get_by_text("Task t9 restored.").wait_for()
    assert retired(service) == 0


def retired(service: ServiceProcess) -> int:
    return httpx.get(f"{service.url}/datasets/guru").json()["retired"]


def test_the_csv_holds_what_the_query_matches_on_all_pages(visit: Visit):
    page = visit.open(f"{VIEW}?segment=untried&sort=-mean")
    lists(page, UNTRIED[:25])
    with page.expect_download() as waited:
        page.get_by_role("button", name="Download CSV").click()
    assert waited.value.suggested_filename == "guru-default-tasks.csv"
    rows = list(csv.DictReader(io.StringIO(waited.value.path().read_text("utf-8"))))
    assert [row["id"] for row in rows] == UNTRIED
    assert {row["segment"] for row in rows} == {"untried"}


def test_an_idle_tab_asks_one_thing_at_a_time(visit: Visit):
    page = visit.open(VIEW)
    lists(page, [*STUCK, *TEACHING, *UNTRIED][:25])
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(visit.url)))
    for _ in range(3):
        page.wait_for_event("requestfinished")
    assert set(asked) == {RUN}


def test_on_a_phone_the_table_scrolls_and_the_page_does_not(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url, size=PHONE) as visit:
        page = visit.open(VIEW)
        lists(page, [*STUCK, *TEACHING, *UNTRIED][:25])
        assert page.get_by_text("Scroll the table sideways").is_visible()
        table = page.get_by_role("region", name="Tasks", exact=True)
        assert table.evaluate("(one) => one.scrollWidth > one.clientWidth")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]
        assert [visit.barriers() for _ in visit.in_each_scheme()] == [[], []]
        page.get_by_role("link", name=ODD).click()
        drawer(page).locator(".history li").first.wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]
        assert [visit.barriers() for _ in visit.in_each_scheme()] == [[], []]
