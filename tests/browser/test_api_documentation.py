"""/docs: Swagger UI with our theme, as people and their screen readers get it."""

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import DESK, PHONE, ColorScheme, Visit, visiting
from tests.serving import ServiceProcess

SIZES = {"desk": DESK, "phone": PHONE}


def pardon_links_to_routes(visit: Visit) -> None:
    """Forget what Swagger UI says of every link to a route whose name has an underscore."""
    visit.wrong[:] = [said for said in visit.wrong if "escaping deep link whitespace" not in said]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_documentation_of_the_api_is_readable_by_all(
    size: str, scheme: ColorScheme, browser: Browser, trained: ServiceProcess
):
    with visiting(browser, trained.url, size=SIZES[size], scheme=scheme) as visit:
        page = visit.page
        page.goto(f"{trained.url}/docs")
        page.wait_for_selector(".opblock-summary-method")
        visit.keep(f"docs-{size}-{scheme}")
        assert visit.barriers() == []
        for operation in ("training-select_tasks", "datasets-list_datasets"):
            summary = page.locator(f"#operations-{operation} .opblock-summary-control")
            summary.click()
            page.wait_for_selector(f"#operations-{operation} .responses-inner")
            assert visit.barriers() == []
            summary.click()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= SIZES[size][0]
        pardon_links_to_routes(visit)


def test_the_documentation_has_the_scheme_of_the_system(browser: Browser, trained: ServiceProcess):
    grounds = []
    for scheme in ("light", "dark"):
        with visiting(browser, trained.url, scheme=scheme) as visit:
            visit.page.goto(f"{trained.url}/docs")
            visit.page.wait_for_selector(".opblock-summary-method")
            grounds.append(visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1] == "rgb(28, 32, 34)"


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
