"""The journal and the settings of a run: what stands out, what is one line, and what is left out."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from bots_service.core.run_settings import BELIEFS, RunSettings, settings_from
from tests.browser.chromium import PERCENT, Visit, visiting
from tests.serving import ServiceProcess, running_service

RUN = "/datasets/guru/runs/default"
TRIALS, TASKS = 8, 2  # of each report; one of its tasks is effective
BEFORE, UNDONE, AFTER = 300, 40, 60  # reports: kept by the rewind, taken back by it, and after it


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with a run that changed its settings, was rewound, and went on."""
    with running_service(tmp_path_factory.mktemp("panels")) as started:
        with httpx.Client(base_url=started.url, timeout=30) as http:
            http.put("/datasets/guru", json={"tasks": [{"id": f"t{number}"} for number in range(4)]}).raise_for_status()
            report(http, BEFORE)
            http.patch(RUN, json={"target": 0.6}).raise_for_status()
            report(http, UNDONE)
            http.post(f"{RUN}/rewind", json={"step": BEFORE}).raise_for_status()
            report(http, AFTER)
        yield started


def report(http: httpx.Client, times: int) -> None:
    outcomes = [{"task": f"t{task}", "successes": task, "trials": TRIALS} for task in range(TASKS)]
    for _ in range(times):
        http.post("/report", json={"dataset": "guru", "outcomes": outcomes}).raise_for_status()


@pytest.fixture
def visit(browser: Browser, service: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, service.url) as opened:
        opened.open("datasets/guru/runs/default")
        yield opened


def lines(page: Page) -> list[str]:
    """Return what stands in each line of the journal, without its time."""
    return [" ".join(line.split("\n")[:-1]) for line in page.locator(".entry").all_inner_texts()]


def group(reports: int, first: int, last: int, undone: str = "") -> str:
    """Return the line of many reports."""
    rollouts = reports * TASKS * TRIALS
    amount = f"{rollouts:,}" if rollouts < 1000 else f"{rollouts / 1000:.1f}K".replace(".0K", "K")
    about = f"steps {first:,} to {last:,}, {amount} rollouts, {100 / TASKS:.1f}{PERCENT} effective"
    return f"{reports} reports {about}{undone}"


def test_tasks_in_flight_are_counted_while_the_journal_stands_still(visit: Visit, service: ServiceProcess):
    page = visit.drawn()
    fact = page.locator(".facts dd", has_text="tasks").first
    expect(fact).to_have_text("0 tasks")
    httpx.post(f"{service.url}/select", json={"dataset": "guru", "count": 3}).raise_for_status()
    expect(fact).to_have_text("3 tasks")
    page.get_by_role("table", name="Selections in flight").wait_for()


def test_runs_of_reports_are_one_line_and_what_stands_out_has_its_own(visit: Visit, service: ServiceProcess):
    page = visit.page
    page.locator(".entry[data-kind=rewind]").wait_for()
    shown = 50
    assert lines(page)[0] == group(shown, BEFORE + AFTER - shown + 1, BEFORE + AFTER)
    assert page.locator(".entry[data-kind=gap]").all_inner_texts() == [
        f"{AFTER - shown} reports, not loaded",
        f"{UNDONE} reports, not loaded",
    ]
    page.get_by_role("button", name="Load older entries").click()
    expect(page.locator(".entry[data-kind=gap]")).to_have_count(0)
    assert lines(page)[:4] == [
        group(AFTER, BEFORE + 1, BEFORE + AFTER),
        f"Rewind to step {BEFORE} entry {BEFORE + 1 + UNDONE + 1}",
        group(UNDONE, BEFORE + 1, BEFORE + UNDONE, " undone"),
        f"Settings changed target 0.6, step {BEFORE} undone",
    ]
    struck = "(one) => getComputedStyle(one).textDecorationLine"
    assert [one.evaluate(struck) for one in page.locator(".entry.undone strong").all()] == ["line-through"] * 2
    assert page.locator(".entry[data-kind=rewind] strong").evaluate(struck) == "none"
    page.get_by_role("button", name="Load older entries").click()
    expect(page.get_by_role("button", name="Load older entries")).to_be_hidden()
    assert lines(page)[4:] == [group(BEFORE, 1, BEFORE)]
    assert not visit.barriers()


def names(page: Page, part: str) -> list[str]:
    return page.get_by_role("region", name="Settings").locator(f"{part} dt code").all_inner_texts()


@pytest.mark.parametrize(
    ("run", "settings", "changed"),
    [
        ("plain", {}, []),
        ("other", {"target": 0.7, "tasks_per_step": 4}, ["target", "tasks_per_step"]),
        ("papers", {"belief": "bots", "prior": [1, 2]}, ["belief", "prior"]),
    ],
)
def test_settings_that_differ_come_first_and_those_that_mean_nothing_are_left_out(
    browser: Browser, service: ServiceProcess, run: str, settings: dict, changed: list[str]
):
    httpx.put(f"{service.url}/datasets/guru/runs/{run}", json=settings).raise_for_status()
    used = settings_from(settings)
    with visiting(browser, service.url) as visit:
        page = visit.open(f"datasets/guru/runs/{run}")
        summary = page.get_by_text("more have their default" if changed else re.compile(r"^\d+ settings$"))
        summary.click()
        assert names(page, "div > .settings") == names(page, "")
        shown = names(page, "")
        assert shown[: len(changed)] == changed
        ignored = {name for kind in BELIEFS.values() for name in kind.own} - {*BELIEFS[used.belief].own}
        assert set(shown) == set(RunSettings.__slots__) - ignored
        assert summary.inner_text().startswith(str(len(shown) - len(changed)))
        assert not visit.barriers()


def test_the_page_knows_each_setting_with_the_service_s_default(visit: Visit):
    known = visit.page.evaluate(
        """async () => {
            const folder = new URL(".", document.querySelector("script[type=module]").src);
            return (await import(`${folder}settings.js`)).SETTINGS;
        }"""
    )
    defaults = {
        name: list(value) if isinstance(value, tuple) else value for name, value in RunSettings().as_dict().items()
    }
    assert {name: one["usual"] for name, one in known.items()} == defaults
    assert all(one["meaning"] for one in known.values())
    own = {name for kind in BELIEFS.values() for name in kind.own}
    assert {name for name, one in known.items() if "belief" in one.get("only", {})} == own
    strategies = {kind: settings_from({"belief": kind}).strategy for kind in BELIEFS}
    usual = known["strategy"]
    assert {kind: usual.get("usualOf", {}).get(kind, usual["usual"]) for kind in BELIEFS} == strategies


def test_a_mix_shows_among_the_settings_and_as_the_share_that_each_tag_is_owed(
    browser: Browser, service: ServiceProcess
):
    with httpx.Client(base_url=service.url, timeout=30) as http:
        tasks = [{"id": f"{tag}-{number}", "tags": [tag]} for tag in ("code", "lang", "math") for number in range(20)]
        http.put("/datasets/mixed", json={"tasks": tasks}).raise_for_status()
        mix = {"math": 3, "code": 1}
        http.put("/datasets/mixed/runs/default", json={"mix": mix}).raise_for_status()
        selection = http.post("/select", json={"dataset": "mixed", "count": 8}).json()
        outcomes = [{"task": task["id"], "successes": 1, "trials": 2} for task in selection["tasks"]]
        http.post("/report", json={"dataset": "mixed", "outcomes": outcomes}).raise_for_status()
        share = next(one["share"] for one in http.get("/datasets/mixed/runs/default").json()["mix"])
    with visiting(browser, service.url) as visit:
        page = visit.open("datasets/mixed/runs/default")
        settings = page.get_by_role("region", name="Settings")
        expect(settings.get_by_text("code 1; math 3")).to_be_visible()
        row = page.get_by_role("region", name="Numbers by tag").get_by_role("row").filter(has_text="code")
        title = f"25.0{PERCENT}; owed by the mix: {100 * share:.1f}{PERCENT}"
        expect(row.locator(".measure").first).to_have_attribute("title", title)
        assert not visit.barriers()
