"""How the page looks, to people and to their screen readers. Every look is kept under build/screenshots."""

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import DESK, PHONE, Visit, visiting
from tests.browser.replaying import BOTS, DATASET
from tests.serving import ServiceProcess, running_service

RUN = f"datasets/{DATASET}/runs/{BOTS}"
VIEWS = {"overview": "", "dataset": f"datasets/{DATASET}", "run": RUN, "tasks": f"{RUN}/tasks"}
SIZES = {"desk": DESK, "phone": PHONE}


def seen(visit: Visit, view: str) -> None:
    """Open a view and wait until it is drawn."""
    page = visit.open(VIEWS[view])
    if view in ("overview", "tasks"):
        page.locator("tbody tr").first.wait_for()
    else:
        visit.drawn()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_readable_by_all_and_as_wide_as_its_window(
    view: str, size: str, browser: Browser, trained: ServiceProcess
):
    with visiting(browser, trained.url, size=SIZES[size]) as visit:
        seen(visit, view)
        for scheme in visit.in_each_scheme():
            visit.keep(f"{view}-{size}-{scheme}")
            assert not visit.barriers()
            assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= SIZES[size][0]


def test_the_theme_is_as_the_system_has_it_until_one_is_chosen(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url, scheme="dark") as visit:
        seen(visit, "run")
        ground = "() => getComputedStyle(document.body).backgroundColor"
        dark = visit.page.evaluate(ground)
        visit.page.get_by_role("button", name="Theme: system").click()
        light = visit.page.evaluate(ground)
        assert dark != light
        visit.page.reload()
        assert visit.page.evaluate(ground) == light
        visit.drawn()
        picture = "() => document.querySelector('.plot canvas').toDataURL()"
        drawn_light = visit.page.evaluate(picture)
        visit.page.get_by_role("button", name="Theme: light").click()
        visit.page.wait_for_function(f"(light) => ({picture})() !== light", arg=drawn_light)  # charts change as well


def test_all_that_can_be_pressed_is_reached_by_the_keyboard(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        seen(visit, "run")
        page = visit.page
        page.wait_for_selector("button:enabled >> text=Rewind…")
        wanted = {"Skip to the content", "Snapshot", "Rewind…", "Compare runs"}
        reached = set()
        page.locator("body").focus()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("() => document.activeElement.textContent.trim()"))
        assert wanted <= reached


def test_on_a_phone_a_run_s_buttons_are_in_one_row_and_so_are_a_chart_s_title_and_its_buttons(
    browser: Browser, trained: ServiceProcess
):
    with visiting(browser, trained.url, size=PHONE) as visit:
        seen(visit, "run")
        middle = "(all) => all.map((one) => one.getBoundingClientRect()).map(({ top, height }) => top + height / 2)"
        buttons = visit.page.locator(".heading.wide").first.locator("a.button, button")
        assert buttons.count() == 3
        assert len(set(buttons.evaluate_all(middle))) == 1
        head = visit.chart("Predicted success rate of all tasks over time").locator(".heading")
        parts = head.locator("h2, button:visible").evaluate_all(middle)
        assert max(parts) - min(parts) < 2  # pixels


def test_an_empty_service_says_how_to_begin(browser: Browser, tmp_path):
    with running_service(tmp_path) as service, visiting(browser, service.url) as visit:
        page = visit.open()
        assert f"bots demo --url {service.url}" in page.locator("main").inner_text()
        visit.keep("empty")
        assert not visit.barriers()
