"""The page where keys guard the service: nothing is shown without one, and nothing done that it may not."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Visit, visiting
from tests.serving import ServiceProcess, running_service

OPERATOR = "the-operators-own-key"
STEPS = 5
TASKS = 9


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("guarded"), admin_key=OPERATOR) as started:
        with as_operator(started) as http:
            http.put(
                "/datasets/guru", json={"tasks": [{"id": f"t{number}"} for number in range(TASKS)]}
            ).raise_for_status()
            for step in range(STEPS):
                outcomes = [{"task": f"t{step}", "successes": step, "trials": 8}]
                http.post("/report", json={"dataset": "guru", "outcomes": outcomes}).raise_for_status()
        yield started


def as_operator(service: ServiceProcess) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {OPERATOR}"}, timeout=30)


def new_key(service: ServiceProcess, *scopes: str) -> str:
    with as_operator(service) as http:
        wanted = {"name": "-".join(scopes), "scopes": scopes, "datasets": ["*"]}
        return http.post("/keys", json=wanted).raise_for_status().json()["key"]


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def visit(browser: Browser, service: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, service.url, refused={401, 404}) as opened:
        opened.page.goto(f"{service.url}/#/datasets/guru/runs/default")
        yield opened


def test_nothing_is_shown_without_a_good_key_and_all_with_one(visit: Visit, service: ServiceProcess):
    page = visit.page
    page.get_by_role("heading", name="Sign in").wait_for()
    assert page.get_by_text("guru").count() == 0 or "Sign in" in page.locator("main").inner_text()
    sign_in(page, "bots_0123456789abcdef_" + 64 * "0")
    page.get_by_role("alert").get_by_text("Invalid, expired or revoked key").wait_for()
    visit.keep("sign-in")
    sign_in(page, new_key(service, "read"))
    page.wait_for_selector("#live[data-state=live]")
    assert page.locator("h1").inner_text() == "default"


def test_a_link_brings_a_key_which_leaves_the_address(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        visit.page.goto(f"{service.url}/#key={new_key(service, 'read')}")
        visit.page.wait_for_selector("#live[data-state=live]")
        assert visit.page.url == f"{service.url}/#/"


def test_the_key_goes_with_the_tab_and_is_never_in_the_address(visit: Visit, service: ServiceProcess):
    page, key = visit.page, new_key(service, "read")
    sign_in(page, key)
    page.wait_for_selector("#live[data-state=live]")
    assert key not in page.url
    assert page.evaluate("() => JSON.stringify(localStorage) + document.cookie").find(key) == -1
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    page.reload()
    page.get_by_role("heading", name="Sign in").wait_for()


@pytest.mark.parametrize(
    ("view", "button", "scopes", "missing"),
    [
        ("", "Rewind…", ("read",), "report"),
        ("/tasks?task=t1", "Retire…", ("read", "report"), "admin"),
        ("/tasks?task=t1", "Retire…", ("read", "admin"), None),
    ],
)
def test_a_key_is_offered_only_what_it_may(
    visit: Visit, service: ServiceProcess, view: str, button: str, scopes: tuple[str, ...], missing: str | None
):
    page = visit.page
    page.goto(f"{service.url}/#/datasets/guru/runs/default{view}")
    sign_in(page, new_key(service, *scopes))
    offered = page.get_by_role("button", name=button)
    expect(offered).to_be_enabled(enabled=missing is None)
    reason = offered.get_attribute("title") or ""
    assert reason == "" if missing is None else f"the scope {missing}" in reason


def test_a_rewind_that_the_service_refuses_says_why_and_one_that_it_takes_is_shown(
    visit: Visit, service: ServiceProcess
):
    page = visit.page
    sign_in(page, new_key(service, "read", "report"))
    page.locator("button:enabled", has_text="Rewind…").click()
    page.get_by_label("Rewind to step").fill(str(STEPS + 10))
    page.get_by_role("button", name="Rewind", exact=True).click()
    assert page.get_by_label("Rewind to step").evaluate("(one) => one.validity.rangeOverflow")  # the browser refuses it
    page.get_by_label("Rewind to step").evaluate("(one) => one.removeAttribute('max')")  # so that the service must
    page.get_by_role("button", name="Rewind", exact=True).click()
    page.wait_for_function("() => document.querySelector('dialog [role=alert]').textContent.length > 0")
    assert str(STEPS + 10) in page.locator("dialog [role=alert]").inner_text()
    page.get_by_label("Rewind to step").fill("2")
    page.get_by_role("button", name="Rewind", exact=True).click()
    page.get_by_text("Now at step 2.").wait_for()
    page.get_by_role("table", name="History").get_by_text("Rewind to step 2").wait_for()
    with as_operator(service) as http:
        assert http.get("/datasets/guru/runs/default").json()["step"] == 2


def test_two_clicks_rewind_once(visit: Visit, service: ServiceProcess):
    page = visit.page
    sign_in(page, new_key(service, "read", "report"))
    page.locator("button:enabled", has_text="Rewind…").click()
    with as_operator(service) as http:
        before = http.get("/datasets/guru/runs/default").json()["epoch"]
        page.get_by_label("Rewind to step").fill("1")
        page.get_by_role("button", name="Rewind", exact=True).evaluate("(one) => { one.click(); one.click(); }")
        page.get_by_text("Now at step 1.").wait_for()
        assert http.get("/datasets/guru/runs/default").json()["epoch"] == before + 1


@pytest.mark.parametrize("key", ["bots_…", "ключ"])
def test_what_can_be_no_key_is_refused_at_the_form(visit: Visit, key: str):
    sign_in(visit.page, key)
    assert visit.page.get_by_label("API key").evaluate("(one) => one.validity.patternMismatch")
    sign_in(visit.page, OPERATOR)
    visit.page.wait_for_selector("#live[data-state=live]")
