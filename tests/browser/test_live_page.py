"""The page follows a real training run by itself, and tells what the API tells."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from bots_service.demo.replay import RUNS
from tests.browser.chromium import PERCENT, SOON_MS, Visit, visiting
from tests.browser.conftest import SOON_S, STEPS
from tests.browser.replaying import BOTS, DATASET, TRACKER, UNIFORM, replaying
from tests.servers import wait_until
from tests.serving import ServiceProcess, running_service

REPLAYED_STEPS = 55  # more than the recent ones
RECENT = 50  # steps, as the page says
RATIO = "Effective task ratio"
HEAT = "Predicted success rate of all tasks over time"


def history(url: str, run: str) -> list[dict]:
    answer = httpx.get(f"{url}/datasets/{DATASET}/runs/{run}/history", params={"limit": 1000})
    return answer.raise_for_status().json()["history"]


def recent_ratio(steps: list[dict]) -> float:
    recent = steps[-RECENT:]
    return sum(step["effective"] for step in recent) / sum(step["reported"] for step in recent)


def test_charts_move_while_a_run_trains(browser: Browser, tmp_path: Path):
    with (
        running_service(tmp_path) as service,
        visiting(browser, service.url, refused={404}) as visit,
        replaying(service.url, REPLAYED_STEPS) as done,
    ):
        page = visit.page
        page.goto(f"{service.url}/#/")
        page.get_by_role("link", name=DATASET).first.click(timeout=SOON_MS)  # appears without a reload
        page.evaluate("() => { globalThis.wasNeverLoadedAgain = true; }")
        first = until(lambda: drawn_steps(visit, RATIO), 1)
        until(lambda: drawn_steps(visit, RATIO), first + 1)
        assert done.wait(SOON_S)
        until(lambda: drawn_steps(visit, RATIO), REPLAYED_STEPS)
        assert page.evaluate("() => globalThis.wasNeverLoadedAgain")
        assert {name: values[-1] for name, values in visit.data(RATIO).items() if name != "step"} == {
            run: pytest.approx(recent_ratio(history(service.url, run))) for run in RUNS
        }


@pytest.fixture(scope="module")
def run(browser: Browser, trained: ServiceProcess) -> Iterator[Visit]:
    """A visit of a run."""
    with visiting(browser, trained.url) as visit:
        visit.open(f"datasets/{DATASET}/runs/{BOTS}")
        yield visit


def test_a_run_s_heat_map_spreads_all_tasks(run: Visit):
    until(lambda: len(run.data(HEAT)["step"]), 2)
    _, *shares = run.data(HEAT).values()
    columns = [sum(column) for column in zip(*shares, strict=True)]
    assert columns == pytest.approx([1.0] * len(columns), abs=1e-5)


def until(read: Callable[[], int], least: int) -> int:
    """Return a number once it has grown so far."""
    give_up = time.monotonic() + SOON_S
    while (found := read()) < least:
        assert time.monotonic() < give_up, f"{found} of {least}"
        time.sleep(0.2)
    return found


def drawn_steps(visit: Visit, chart: str) -> int:
    """Return the step up to which all lines of a chart go, 0 while there is none."""
    steps, *lines = visit.data(chart).values()
    ends = [
        max((step for step, value in zip(steps, line, strict=True) if value is not None), default=0) for line in lines
    ]
    return int(min(ends, default=0))


def told_by(page: Page, where: str) -> dict[str, str]:
    """Return what a list of a run's page tells once it tells all, by its names. where: ".tiles" or ".facts"."""
    page.locator(".facts dt").first.wait_for()
    names, values = (page.locator(f"{where} {part}").all_inner_texts() for part in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_a_run_of_the_tracker_shows_its_estimates_and_no_capability(browser: Browser, trained: ServiceProcess):
    told = httpx.get(f"{trained.url}/datasets/{DATASET}/runs/{TRACKER}").json()["estimates"]
    with visiting(browser, trained.url) as visit:
        page = visit.open(f"datasets/{DATASET}/runs/{TRACKER}")
        facts, card = told_by(page, ".facts"), page.get_by_label("Estimates", exact=True)
        names, values = (card.locator(part).all_inner_texts() for part in ("dt", "dd"))
    assert facts["Ability"] == f"{told['ability']:.2f}"
    assert "Capability" not in facts
    assert names == [name.replace("_", " ") for name in told]
    assert [float(value) for value in values] == pytest.approx(list(told.values()), rel=0.005)


def test_coverage_is_told_by_a_tile_and_drawn_beside_a_shuffled_pass(run: Visit, trained: ServiceProcess):
    coverage = httpx.get(f"{trained.url}/datasets/{DATASET}/runs/{BOTS}").json()["coverage"]
    steps, tasks = history(trained.url, BOTS), coverage["available_tasks"]
    shuffled = [min(1, sum(step["reported"] for step in steps[: place + 1]) / tasks) for place in range(STEPS)]
    tile = told_by(run.page, ".tiles")["Tasks met"]
    _, *lines = run.data("Coverage").values()
    assert tile.startswith(f"{100 * coverage['reached_share']:.1f}{PERCENT}")
    assert f"{coverage['distinct_tasks']} different" in tile
    assert lines == [pytest.approx(shuffled), pytest.approx([step["distinct_tasks"] / tasks for step in steps])]


def test_a_narrow_run_says_why_and_what_to_do(browser: Browser, trained: ServiceProcess):
    with httpx.Client(base_url=trained.url) as http:
        http.put("/datasets/narrow", json={"tasks": [{"id": f"t{number}"} for number in range(20)]}).raise_for_status()
        run, outcomes = "/datasets/narrow/runs/default", [{"task": "t1", "successes": 3, "trials": 8}]
        with visiting(browser, trained.url) as visit:
            page = visit.open("datasets/narrow/runs/default")
            for _ in range(36):  # more than a pass over the pool has; the service looks at every 16th
                http.post("/report", json={"dataset": "narrow", "outcomes": outcomes}).raise_for_status()
            verdict = page.get_by_role("note", name="Verdict")
            verdict.get_by_text("Narrow", exact=True).wait_for()
            told = http.get(f"{run}/summary").json()["verdict"]
            said = [line for line in verdict.inner_text().split("\n") if line]
            assert said == ["Narrow", *(told[part].replace(" %", PERCENT) for part in ("reason", "advice"))]
            assert PERCENT in said[1]
            assert not visit.barriers()
        http.delete("/datasets/narrow").raise_for_status()


def test_a_run_of_uniform_choice_claims_no_gain(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        tiles = told_by(visit.open(f"datasets/{DATASET}/runs/{UNIFORM}"), ".tiles")
        row = visit.open().get_by_role("row").filter(has=visit.page.get_by_role("link", name=UNIFORM, exact=True))
        assert "\N{MULTIPLICATION SIGN}" not in row.inner_text()
    assert not {"vs uniform", "vs uniform (estimate)", "Rollouts saved"} & set(tiles)


def test_without_a_run_of_uniform_choice_the_gain_is_said_to_be_modelled_and_advice_is_given(
    browser: Browser, trained: ServiceProcess
):
    httpx.put(f"{trained.url}/datasets/bare", json={"tasks": [{"id": f"t{n}"} for n in range(40)]}).raise_for_status()
    httpx.put(f"{trained.url}/datasets/bare/runs/default", json={"belief": "bots"}).raise_for_status()
    outcomes = [{"task": f"t{number}", "successes": number, "trials": 2} for number in range(3)]
    report = {"dataset": "bare", "outcomes": outcomes}
    httpx.post(f"{trained.url}/report", json=report).raise_for_status()
    summary = f"{trained.url}/datasets/bare/runs/default/summary"
    wait_until(lambda: httpx.get(summary).json()["gain"]["uniform_ratio"] is not None)  # computed behind the answers
    share = httpx.get(summary).json()["gain"]["uniform_ratio"]
    with visiting(browser, trained.url) as visit:
        page = visit.open("datasets/bare/runs/default")
        tile = told_by(page, ".tiles")["vs uniform (estimate)"]
        assert "no run samples uniformly" in tile
        assert f"uniform {100 * share:.1f}{PERCENT}" in tile
        assert visit.data(RATIO)["uniform (estimate)"] == [pytest.approx(share)]  # of the only step
        assert f"fewer than {40 // 10} tasks a step" in page.get_by_role("note", name="Verdict").inner_text()
    httpx.delete(f"{trained.url}/datasets/bare").raise_for_status()


def test_what_has_the_focus_keeps_it_while_numbers_change(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        tasks = {"tasks": [{"id": "t1"}]}
        httpx.put(f"{trained.url}/datasets/focused", json=tasks).raise_for_status()
        report = {"dataset": "focused", "run": "other", "outcomes": [{"task": "t1", "successes": 3, "trials": 8}]}
        httpx.put(f"{trained.url}/datasets/focused/runs/other", json={}).raise_for_status()
        page = visit.open()
        link = page.get_by_role("link", name="other", exact=True)
        link.focus()
        httpx.post(f"{trained.url}/report", json=report).raise_for_status()
        expect(page.get_by_role("row").filter(has=link)).to_contain_text("100.0 %")  # of one task
        assert page.evaluate("() => document.activeElement.textContent") == "other"
    httpx.delete(f"{trained.url}/datasets/focused").raise_for_status()


@pytest.mark.parametrize("view", ["datasets/%E0%A4%A", "datasets/a%2Fb/runs/%3Cb%3E"])
def test_an_address_that_means_nothing_is_refused_in_words(browser: Browser, trained: ServiceProcess, view: str):
    with visiting(browser, trained.url, refused={400, 404, 422}) as visit:
        visit.page.goto(f"{trained.url}/#/{view}")
        visit.page.locator("#notice:not(:empty), .alone h1").wait_for()


def test_a_service_that_first_fails_is_asked_again(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url, refused={503}) as visit:
        answers = iter([503])
        visit.page.route(
            "**/whoami",
            lambda route: route.fulfill(status=status) if (status := next(answers, None)) else route.continue_(),
        )
        visit.open()


def test_the_way_past_the_head_of_the_page_leads_to_its_content(run: Visit):
    run.page.get_by_text("Skip to the content").focus()
    run.page.keyboard.press("Enter")
    assert run.page.evaluate("() => document.activeElement.id") == "main"
    assert run.page.locator("h1").inner_text() == BOTS


def test_a_browser_that_keeps_nothing_shows_the_page_all_the_same(browser: Browser, trained: ServiceProcess):
    forbid = (
        "Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('no', 'SecurityError'); } });"
    )
    with visiting(browser, trained.url) as visit:
        visit.page.add_init_script(forbid)
        page = visit.open()
        page.locator(".totals").wait_for()
