"""/docs: Swagger UI with our theme, as people and their screen readers get it."""

from collections.abc import Iterator

from playwright.sync_api import Browser

from tests.browser.chromium import PHONE, ColorScheme, Visit, visiting
from tests.serving import ServiceProcess


def pardon_links_to_routes(visit: Visit) -> None:
    """Forget what Swagger UI says of every link to a route whose name has an underscore."""
    visit.wrong[:] = [said for said in visit.wrong if "escaping deep link whitespace" not in said]


def in_each_scheme(visit: Visit) -> Iterator[ColorScheme]:
    """Show /docs in light and in dark colours; a script of ours follows the system's scheme a little later."""
    for scheme in visit.in_each_scheme():
        dark = "(dark) => document.documentElement.classList.contains('dark-mode') === dark"
        visit.page.wait_for_function(dark, arg=scheme == "dark")
        visit.page.evaluate("() => Promise.all(document.getAnimations().map((one) => one.finished))")  # colours fade
        yield scheme


def test_the_documentation_of_the_api_is_readable_by_all_in_the_scheme_of_their_system(
    browser: Browser, trained: ServiceProcess
):
    with visiting(browser, trained.url) as visit:
        page = visit.page
        page.goto(f"{trained.url}/docs")
        page.wait_for_selector(".opblock-summary-method")
        grounds = []
        for scheme in in_each_scheme(visit):
            grounds.append(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
            visit.keep(f"docs-{scheme}")
            assert visit.barriers() == []
        assert grounds[0] != grounds[1] == "rgb(28, 32, 34)"
        for operation in ("training-select_tasks", "datasets-list_datasets"):
            section = f"#operations-{operation}"
            page.locator(f"{section} .opblock-summary-control").click()
            page.wait_for_selector(f"{section} .responses-inner")
            for _ in in_each_scheme(visit):
                assert visit.barriers(section) == []
            page.locator(f"{section} .opblock-summary-control").click()
        width, height = PHONE
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        pardon_links_to_routes(visit)


def test_a_route_can_be_tried_from_the_documentation(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        page = visit.page
        page.goto(f"{trained.url}/docs#/datasets/list_datasets")
        page.wait_for_selector("#operations-datasets-list_datasets .try-out__btn")
        page.locator("#operations-datasets-list_datasets .try-out__btn").click()
        page.locator("#operations-datasets-list_datasets .execute").click()
        page.wait_for_selector("#operations-datasets-list_datasets .live-responses-table")
        assert "rlvr-run-890" in page.locator("#operations-datasets-list_datasets .live-responses-table").inner_text()
        pardon_links_to_routes(visit)
