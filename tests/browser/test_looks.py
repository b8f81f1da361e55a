"""How the page looks, to people and to their screen readers. Every look is kept under build/screenshots."""

from typing import get_args

import pytest
from playwright.sync_api import Browser

from bots_service.core.summary import VerdictKind
from tests.browser import everything
from tests.browser.chromium import DESK, PHONE, Visit, visiting
from tests.browser.replaying import BOTS, DATASET
from tests.serving import ServiceProcess

RUN = f"datasets/{DATASET}/runs/{BOTS}"
RUN_WITH_TAGS = f"datasets/{everything.DATASET}/runs/{everything.RUN}"
VIEWS = {
    "overview": "",
    "dataset": f"datasets/{DATASET}",
    "run": RUN,
    "tasks": f"{RUN}/tasks",
    "task": f"{RUN}/tasks?task=dsr_sub%2F21",
}
SIZES = {"desk": DESK, "phone": PHONE}
FITS = "(width) => document.documentElement.scrollWidth <= width"


def seen(visit: Visit, view: str) -> None:
    page = visit.open(view)
    page.locator(".card").first.wait_for()
    if page.locator("figure").count():
        visit.drawn()
    else:
        page.locator("tbody tr, dd").first.wait_for()


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_readable_by_all_in_light_and_dark_and_as_wide_as_its_window(
    view: str, browser: Browser, trained: ServiceProcess
):
    with visiting(browser, trained.url) as visit:
        seen(visit, VIEWS[view])
        for size, (width, height) in SIZES.items():
            visit.page.set_viewport_size({"width": width, "height": height})
            grounds = []
            for scheme in visit.in_each_scheme():
                visit.keep(f"{view}-{size}-{scheme}")
                assert not visit.barriers()
                visit.page.wait_for_function(FITS, arg=width)  # charts are drawn anew a moment after a resize
                grounds.append(visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
            assert grounds[0] != grounds[1]


@pytest.mark.parametrize("view", [f"datasets/{everything.DATASET}", RUN_WITH_TAGS])
def test_what_has_tags_is_readable_by_all_and_as_wide_as_its_window(view: str, browser: Browser, mixed: ServiceProcess):
    with visiting(browser, mixed.url) as visit:
        seen(visit, view)
        if view == RUN_WITH_TAGS:
            visit.page.get_by_role("table", name="Numbers by tag").wait_for()
        for width, height in SIZES.values():
            visit.page.set_viewport_size({"width": width, "height": height})
            visit.page.wait_for_function(FITS, arg=width)  # charts are drawn anew a moment after a resize
            assert not visit.barriers()


def test_terms_lead_to_what_they_mean(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        seen(visit, RUN)
        page = visit.page
        wanted = {link.get_attribute("href") or "" for link in page.locator("a.help").all()}
        assert {"page/help.html#in-flight", "page/help.html#effective-task-ratio"} <= wanted
        wanted |= {f"page/help.html#{kind.replace('_', '-')}" for kind in get_args(VerdictKind)}
        page.get_by_role("link", name="Calibration error").click()
        page.get_by_role("heading", name="What the page shows").wait_for()
        assert wanted <= {f"page/help.html#{one.get_attribute('id')}" for one in page.locator("[id]").all()}
        for width, height in SIZES.values():
            page.set_viewport_size({"width": width, "height": height})
            for _ in visit.in_each_scheme():
                assert not visit.barriers()
            assert page.evaluate(FITS, width)


def test_all_that_can_be_pressed_is_reached_by_the_keyboard(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        seen(visit, RUN)
        page = visit.page
        page.wait_for_selector("button:enabled >> text=Rewind…")
        wanted = {"Skip to the content", "Rewind…", "Compare runs", "CSV", "Data", "All tasks"}
        reached = set()
        page.locator("body").focus()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("() => document.activeElement.textContent.trim()"))
        assert wanted <= reached
