"""A dataset's runs compared on the page: which ones, against which baseline, and by how much they differ."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from scipy.stats import norm

from tests.browser.chromium import PERCENT, Visit, visiting
from tests.browser.conftest import STEPS
from tests.browser.replaying import BOTS, DATASET, PASS, TRACKER, UNIFORM
from tests.serving import ServiceProcess, running_service

VIEW = f"datasets/{DATASET}"
TABLE, SETTINGS = "Comparison of runs", "Settings of the compared runs"
MOST = 8
MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def visit(browser: Browser, trained: ServiceProcess) -> Iterator[Visit]:
    """A visit of the demo's dataset, which each test leaves as it found it."""
    with visiting(browser, trained.url) as opened:
        opened.open(VIEW)
        yield opened


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with twelve runs of a dataset, each of one step; none samples uniformly."""
    with running_service(tmp_path_factory.mktemp("crowded")) as service, httpx.Client(base_url=service.url) as http:
        http.put("/datasets/pool", json={"tasks": [{"id": f"t{number}"} for number in range(8)]}).raise_for_status()
        for number in range(12):
            run = f"run-{number:02}"
            http.put(f"/datasets/pool/runs/{run}", json={"seed": number}).raise_for_status()
            outcomes = [{"task": "t1", "successes": 1, "trials": 8}, {"task": "t2", "successes": 0, "trials": 8}]
            http.post("/report", json={"dataset": "pool", "run": run, "outcomes": outcomes}).raise_for_status()
        yield service


def table(page: Page) -> Locator:
    return page.get_by_role("table", name=TABLE)


def cells(visit: Visit, run: str) -> dict[str, str]:
    (row,) = [row for row in visit.rows(TABLE) if row["Run"].strip() == run]
    return row


def compared(page: Page) -> list[str]:
    return [box.get_attribute("value") or "" for box in table(page).get_by_role("checkbox", checked=True).all()]


def summaries(service: ServiceProcess, dataset: str = DATASET) -> dict[str, dict]:
    answer = httpx.get(f"{service.url}/overview", params={"dataset": dataset, "limit": 100}).raise_for_status()
    return {run["run"]: run for run in answer.json()["runs"]}


def interval(own: dict, other: dict) -> tuple[float, float, float]:
    """Return the difference of two ratios with Newcombe's 95 % interval (1998, method 10), in percentage points."""
    z = norm.ppf(0.975)

    def wilson(run: dict) -> tuple[float, float, float]:
        tasks, share = run["reported"], run["effective"] / run["reported"]
        middle = (share + z**2 / (2 * tasks)) / (1 + z**2 / tasks)
        half = z / (1 + z**2 / tasks) * (share * (1 - share) / tasks + z**2 / (4 * tasks**2)) ** 0.5
        return share, middle - half, middle + half

    (one, low, high), (two, other_low, other_high) = wilson(own), wilson(other)
    below, above = (
        ((one - low) ** 2 + (other_high - two) ** 2) ** 0.5,
        ((high - one) ** 2 + (two - other_low) ** 2) ** 0.5,
    )
    return 100 * (one - two), 100 * (one - two - below), 100 * (one - two + above)


def points(value: float) -> str:
    return f"{MINUS if value < 0 else '+'}{abs(value):.1f}"


def test_the_headline_is_the_best_measured_gain_of_a_healthy_run(visit: Visit, trained: ServiceProcess):
    runs = [run for run in summaries(trained).values() if run["gain"] and run["gain"]["factor"] is not None]
    kinds = {run["run"]: run["verdict"]["kind"] for run in runs}
    assert kinds[TRACKER] == "narrow"
    best = max((run for run in runs if kinds[run["run"]] == "healthy"), key=lambda run: run["gain"]["factor"])
    result = visit.page.locator(".result")
    gain, change = best["gain"], f"+{round(100 * (best['gain']['factor'] - 1))}{PERCENT} effective tasks"
    spent = f"{round(gain['rollouts_spent']):,}"
    expect(result.locator(".headline")).to_have_text(f"{change} for the same {spent} rollouts")
    expect(result).to_contain_text(
        f"{best['run']} compared with {UNIFORM}, which samples uniformly, over {STEPS} steps"
    )
    expect(result.locator(".caution")).to_contain_text(TRACKER)  # whose gain is larger


def test_the_gain_of_a_run_that_is_not_healthy_is_grey_and_says_why(browser: Browser, trained: ServiceProcess):
    # Of 20 tasks one, all of them, and all of them at random; effective in all steps, in 3 of 4, and in 1 of 4.
    runs = {"default": (1, 4, {}), "wide": (20, 3, {}), "even": (20, 1, {"strategy": "uniform"})}
    with httpx.Client(base_url=trained.url) as http:
        http.put("/datasets/few", json={"tasks": [{"id": f"t{number}"} for number in range(20)]}).raise_for_status()
        for run, (tasks, effective, settings) in runs.items():
            http.put(f"/datasets/few/runs/{run}", json=settings).raise_for_status()
            for step in range(36):  # the service looks at every 16th
                solved = 4 if step % 4 < effective else 0
                outcomes = [{"task": f"t{step % tasks}", "successes": solved, "trials": 8}]
                http.post("/report", json={"dataset": "few", "run": run, "outcomes": outcomes}).raise_for_status()
        with visiting(browser, trained.url) as visit:
            page = visit.open("datasets/few")
            result = page.locator(".result")
            expect(result.locator(".headline")).to_contain_text(f"+200{PERCENT} effective tasks")
            expect(result.locator(".headline.soft")).to_have_count(0)
            expect(result.locator(".caution")).to_contain_text(f"default found +300{PERCENT}")
            expect(page.locator("table .good")).to_have_count(1)  # of a healthy run
            link = result.get_by_role("link", name="What to do about default")
            expect(link).to_have_attribute("href", "#/datasets/few/runs/default")
            assert not visit.barriers()
            page.get_by_role("checkbox", name="wide", exact=True).uncheck()
            expect(result.locator(".headline.soft")).to_contain_text(f"+300{PERCENT} effective tasks")
            reason = summaries(trained, "few")["default"]["verdict"]["reason"].replace(" %", PERCENT)
            expect(result.locator(".caution")).to_contain_text(reason)
            assert not visit.barriers()
            page.get_by_role("checkbox", name="even", exact=True).uncheck()
            expect(result.locator(".headline")).to_have_count(0)  # what it is measured against is not compared
        http.delete("/datasets/few").raise_for_status()


def test_differences_from_the_baseline_have_intervals_and_another_can_be_chosen(visit: Visit, trained: ServiceProcess):
    page, known = visit.page, summaries(trained)
    for baseline, run in ((UNIFORM, BOTS), (TRACKER, PASS)):
        chosen = page.get_by_role("radio", name=f"Baseline: {baseline}")
        chosen.click()
        expect(page.get_by_text(f"Difference: from {baseline}")).to_be_visible()
        mean, low, high = interval(known[run], known[baseline])
        row = cells(visit, run)
        assert row["Difference"] == f"{points(mean)} points"
        assert row[f"95{PERCENT} interval"].split() == [points(low), "to", points(high)]
        assert cells(visit, baseline)["Difference"] == "\N{EN DASH}"
    assert f"baseline={TRACKER}" in page.url
    page.reload()
    expect(page.get_by_role("radio", name=f"Baseline: {TRACKER}")).to_be_checked()
    page.get_by_role("radio", name=f"Baseline: {UNIFORM}").click()
    expect(page.get_by_text(f"Difference: from {UNIFORM}")).to_be_visible()


def test_numbers_are_those_of_the_api(visit: Visit, trained: ServiceProcess):
    run, row = summaries(trained)[BOTS], cells(visit, BOTS)
    assert row["Effective task ratio"] == f"{100 * run['effective'] / run['reported']:.1f}{PERCENT}"
    assert row["last 50 steps"] == f"{100 * run['effective_task_ratio']:.1f}{PERCENT}"
    assert row["vs uniform"] == f"{run['gain']['factor']:.2f}{TIMES}"
    assert (row["Effective tasks"], row["of reported"]) == (f"{run['effective']:,}", f"{run['reported']:,}")
    assert (row["Rollouts"], row["steps"]) == (f"{round(run['rollouts']):,}", str(run["step"]))
    coverage = httpx.get(f"{trained.url}/datasets/{DATASET}/runs/{BOTS}").json()["coverage"]
    assert row["Tasks met"] == f"{100 * coverage['reached_share']:.1f}{PERCENT}"
    bins = httpx.get(f"{trained.url}/datasets/{DATASET}/runs/{BOTS}/calibration").json()["bins"]
    told = [one for one in bins if one["rollouts"]]
    off = sum(one["rollouts"] * abs(one["mean_prediction"] - one["success_rate"]) for one in told)
    assert row["Calibration error"] == f"{off / sum(one['rollouts'] for one in told):.3f}"


def test_only_settings_that_differ_are_columns(visit: Visit, trained: ServiceProcess):
    runs = [
        httpx.get(f"{trained.url}/datasets/{DATASET}/runs/{name}").json() for name in (BOTS, PASS, TRACKER, UNIFORM)
    ]
    names = {name for run in runs for name in run["settings"]}  # each kind of belief has settings of its own
    differ = {name for name in names if len({str(run["settings"].get(name)) for run in runs}) > 1}
    rows = visit.rows(SETTINGS)
    assert {head.lower().replace(" ", "_") for head in rows[0]} == differ | {"run"}
    assert {row["Run"].split("\n")[0]: row["strategy"] for row in rows} == {
        run["run"]: run["settings"]["strategy"] for run in runs
    }


def test_where_no_run_is_selected_the_page_says_that_and_no_gain(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        page = visit.open(f"{VIEW}?run=")
        expect(page.locator(".result")).to_have_text("Select runs to compare them.")
        expect(visit.chart("Effective task ratio")).to_contain_text("No run with a closed step is selected.")


def test_at_most_eight_runs_are_compared_and_a_run_keeps_its_line_while_others_go(
    browser: Browser, crowded: ServiceProcess
):
    with visiting(browser, crowded.url) as visit:
        page = visit.open("datasets/pool")
        page.get_by_text(f"Comparing {MOST} of {MOST}.").wait_for()
        assert "No gain is measured yet" in page.locator(".result").inner_text()  # none samples uniformly
        assert len(compared(page)) == MOST
        assert table(page).locator("input[type=checkbox]:disabled").count() == 12 - MOST  # `default` is unused
        lines = lines_of(page)
        assert len(set(lines.values())) == MOST
        gone = compared(page)[3]
        page.get_by_role("checkbox", name=gone, exact=True).uncheck()
        page.get_by_text(f"Comparing {MOST - 1} of at most {MOST} runs.").wait_for()
        assert lines_of(page) == {run: line for run, line in lines.items() if run != gone}
        assert table(page).locator("input[type=checkbox]:disabled").count() == 0
        assert not visit.barriers()
        page.go_back()
        page.get_by_text(f"Comparing {MOST} of {MOST}.").wait_for()
        assert lines_of(page) == lines
        page.get_by_label("Search runs").fill("run-0")
        expect(table(page).locator("tbody tr")).to_have_count(10 + len({*lines} - {f"run-0{n}" for n in range(10)}))


def lines_of(page: Page) -> dict[str, tuple[str | None, str | None]]:
    """Return the colour and the dash of each compared run."""
    rows = table(page).locator("tbody th:has(path)").all()
    return {row.locator("a").inner_text(): look_of(row.locator("path")) for row in rows}


def look_of(line: Locator) -> tuple[str | None, str | None]:
    return line.get_attribute("stroke"), line.get_attribute("stroke-dasharray")
