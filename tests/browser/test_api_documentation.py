"""/docs: Swagger UI with our theme, as people and their screen readers get it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import PHONE, ColorScheme, Visit, visiting
from tests.serving import ServiceProcess

POST, GET = "#operations-training-select_tasks", "#operations-datasets-list_datasets"
# Routes of one method look alike, and axe takes seconds for all of them.
LEAVE_ONE_OF_EACH_METHOD = """(kept) => {
    const seen = new Set(kept.map((route) => document.querySelector(route).classList[1]));
    for (const route of document.querySelectorAll(".opblock")) {
        const method = route.classList[1];
        if (seen.has(method) && !kept.includes(`#${route.id}`)) route.parentElement.remove();
        seen.add(method);
    }
}"""


@pytest.fixture(scope="module")
def visit(browser: Browser, trained: ServiceProcess) -> Iterator[Visit]:
    """A visit of /docs; to draw all routes takes seconds."""
    with visiting(browser, trained.url) as opened:
        opened.page.goto(f"{trained.url}/docs")
        opened.page.wait_for_selector(".opblock-summary-method")
        yield opened
        # What Swagger UI says of every link to a route whose name has an underscore.
        opened.wrong[:] = [said for said in opened.wrong if "escaping deep link whitespace" not in said]


def in_each_scheme(visit: Visit) -> Iterator[ColorScheme]:
    """Show /docs in light and in dark colours; a script of ours follows the system's scheme a little later."""
    for scheme in visit.in_each_scheme():
        dark = "(dark) => document.documentElement.classList.contains('dark-mode') === dark"
        visit.page.wait_for_function(dark, arg=scheme == "dark")
        visit.page.evaluate("() => Promise.all(document.getAnimations().map((one) => one.finished))")  # colours fade
        yield scheme


def test_the_documentation_of_the_api_is_readable_by_all_in_the_scheme_of_their_system(visit: Visit):
    page = visit.page
    page.evaluate(LEAVE_ONE_OF_EACH_METHOD, [POST, GET])
    grounds = []
    for scheme in in_each_scheme(visit):
        grounds.append(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
        visit.keep(f"docs-{scheme}")
        assert visit.barriers() == []
    assert grounds[0] != grounds[1] == "rgb(28, 32, 34)"
    for route in (POST, GET):
        page.locator(f"{route} .opblock-summary-control").click()
        page.wait_for_selector(f"{route} .responses-inner")
        for _ in in_each_scheme(visit):
            assert visit.barriers(route) == []
        page.locator(f"{route} .opblock-summary-control").click()
    width, height = PHONE
    page.set_viewport_size({"width": width, "height": height})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


# Last: two buttons of the answer that Swagger UI then shows have no name.
def test_a_route_can_be_tried_from_the_documentation(visit: Visit):
    route = visit.page.locator(GET)
    route.locator(".opblock-summary-control").click()
    route.locator(".try-out__btn").click()
    route.locator(".execute").click()
    assert "rlvr-run-890" in route.locator(".live-responses-table").inner_text()
