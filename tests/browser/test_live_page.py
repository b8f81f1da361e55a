"""The page follows a real training run by itself, and tells what the API tells."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import SOON_MS, visiting
from tests.browser.conftest import SOON_S, STEPS
from tests.browser.replaying import BOTS, DATASET, PASS, TRACKER, UNIFORM, replaying
from tests.serving import ServiceProcess, running_service

RECENT = 50  # steps, as the page says
RATIO = "Effective task ratio"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    with running_service(tmp_path) as started:
        yield started


def history(url: str, run: str) -> list[dict]:
    """Return the closed steps of a run."""
    answer = httpx.get(f"{url}/datasets/{DATASET}/runs/{run}/history", params={"limit": 1000})
    return answer.raise_for_status().json()["history"]


def recent_ratio(steps: list[dict]) -> float:
    """Return the effective task ratio over the last steps."""
    recent = steps[-RECENT:]
    return sum(step["effective"] for step in recent) / sum(step["reported"] for step in recent)


def test_charts_move_while_training_goes_on_and_show_both_beliefs_pulling_away(
    browser: Browser, service: ServiceProcess
):
    with replaying(service.url, STEPS) as done, visiting(browser, service.url, refused={404}) as visit:
        page = visit.page
        page.goto(f"{service.url}/#/")
        page.get_by_role("link", name=DATASET).click(timeout=SOON_MS)  # appears without a reload
        page.evaluate("() => { globalThis.wasNeverLoadedAgain = true; }")
        page.wait_for_function("() => document.querySelector('.plot')?.data?.length >= 4")
        first = len(visit.trace(RATIO, 0)["x"])
        page.wait_for_function(f"() => document.querySelector('.plot').data[0].x.length > {first}")
        assert done.wait(SOON_S)
        page.wait_for_function(f"() => document.querySelector('.plot').data.every((line) => line.x.at(-1) === {STEPS})")
        assert page.evaluate("() => globalThis.wasNeverLoadedAgain")
        ends = {line["name"]: line["y"][-1] for line in (visit.trace(RATIO, place) for place in range(4))}
        runs = (BOTS, PASS, TRACKER, UNIFORM)
        assert ends == {run: pytest.approx(recent_ratio(history(service.url, run))) for run in runs}
        assert ends[TRACKER] > ends[BOTS] > ends[PASS] > ends[UNIFORM]


def test_a_runs_heat_map_moves_and_spreads_all_tasks(browser: Browser, service: ServiceProcess):
    with replaying(service.url, 500), visiting(browser, service.url) as visit:
        wait_for_run(service)
        page = visit.open(f"datasets/{DATASET}/runs/{BOTS}")
        heat = "() => [...document.querySelectorAll('.plot')].map((plot) => plot.data?.[0]).find((one) => one?.z)"
        page.wait_for_function(f"() => ({heat})()?.x.length >= 2")
        first = page.evaluate(f"() => ({heat})().x.length")
        page.wait_for_function(f"() => ({heat})().x.length > {first}")
        shares = page.evaluate(f"() => ({heat})().z")
        assert [sum(column) for column in zip(*shares, strict=True)] == pytest.approx([1.0] * len(shares[0]), abs=1e-5)


def wait_for_run(service: ServiceProcess) -> None:
    """Return once BOTS's run has closed a step."""
    for _ in range(600):
        if httpx.get(f"{service.url}/datasets/{DATASET}/runs/{BOTS}/history").json().get("history"):
            return
    pytest.fail("the replay did not begin")


def tiles_of(page: Page) -> dict[str, str]:
    """Return what a run's tiles tell, by their names."""
    names, values = (page.locator(f".tile {part}").all_inner_texts() for part in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def test_the_tiles_tell_what_the_history_tells_and_the_gain_that_the_demo_tells(
    browser: Browser, trained: ServiceProcess
):
    steps = history(trained.url, BOTS)
    found, others = (sum(step["effective"] for step in course) for course in (steps, history(trained.url, UNIFORM)))
    times = found / others  # as the demo's closing table has it: both runs tried as many tasks
    saved = sum(step["rollouts"] for step in steps) * (times - 1)
    with visiting(browser, trained.url) as visit:
        tiles = tiles_of(visit.open(f"datasets/{DATASET}/runs/{BOTS}"))
        row = visit.open().get_by_role("row").filter(has=visit.page.get_by_role("link", name=BOTS, exact=True))
        assert f"{times:.2f}\N{MULTIPLICATION SIGN}" in row.inner_text()
    assert tiles[RATIO].startswith(f"{100 * recent_ratio(steps):.1f} %")
    assert tiles["vs uniform"].startswith(f"{times:.2f}\N{MULTIPLICATION SIGN}")
    assert f"measured: run {UNIFORM}, {STEPS} steps" in tiles["vs uniform"]
    assert tiles["Rollouts saved"].startswith(f"{saved / 1000:.1f}K")
    assert tiles["Step"].startswith(str(STEPS))


def test_a_run_of_the_tracker_shows_its_estimates_and_no_capability(browser: Browser, trained: ServiceProcess):
    told = httpx.get(f"{trained.url}/datasets/{DATASET}/runs/{TRACKER}").json()["estimates"]
    with visiting(browser, trained.url) as visit:
        page = visit.open(f"datasets/{DATASET}/runs/{TRACKER}")
        tiles, card = tiles_of(page), page.get_by_role("region", name="Estimates")
        names, values = (card.locator(part).all_inner_texts() for part in ("dt", "dd"))
        capability = page.get_by_role("heading", name="Capability", exact=True)
        assert not capability.is_visible()
        visit.open(f"datasets/{DATASET}/runs/{BOTS}")
        assert capability.is_visible()
    assert tiles["Ability"].startswith(f"{told['ability']:.2f}")
    assert "Capability" not in tiles
    assert names == [name.replace("_", " ") for name in told]
    assert [float(value) for value in values] == pytest.approx(list(told.values()), rel=0.005)


def test_coverage_is_told_by_a_tile_and_drawn_beside_a_shuffled_pass(browser: Browser, trained: ServiceProcess):
    coverage = httpx.get(f"{trained.url}/datasets/{DATASET}/runs/{BOTS}").json()["coverage"]
    steps, tasks = history(trained.url, BOTS), coverage["available_tasks"]
    shuffled = [min(1, sum(step["reported"] for step in steps[: place + 1]) / tasks) for place in range(STEPS)]
    with visiting(browser, trained.url) as visit:
        tile = tiles_of(visit.open(f"datasets/{DATASET}/runs/{BOTS}"))["Tasks met"]
        unmet, *lines = (visit.trace("Coverage", place) for place in range(3))
        path = f"{trained.url}/datasets/{DATASET}/runs/{BOTS}/outlooks"
        outlooks = {one["step"]: one["unmet_share"] for one in httpx.get(path).json()["outlooks"]}
    assert tile.startswith(f"{100 * coverage['reached_share']:.1f} %")
    assert f"{coverage['distinct_tasks']} different" in tile
    assert [one["y"] for one in lines] == [
        pytest.approx(shuffled),
        pytest.approx([step["distinct_tasks"] / tasks for step in steps]),
    ]
    assert unmet["x"]
    assert unmet["y"] == pytest.approx([outlooks[step] for step in unmet["x"]])


def test_a_narrow_run_says_why_and_what_to_do_and_its_journal_names_old_logs(browser: Browser, trained: ServiceProcess):
    with httpx.Client(base_url=trained.url) as http:
        http.put("/datasets/narrow", json={"tasks": [{"id": f"t{number}"} for number in range(20)]}).raise_for_status()
        run, outcomes = "/datasets/narrow/runs/default", [{"task": "t1", "successes": 3, "trials": 8}]
        http.post(f"{run}/evidence", json={"outcomes": [{**outcomes[0], "age": 2}]}).raise_for_status()
        with visiting(browser, trained.url) as visit:
            page = visit.open("datasets/narrow/runs/default")
            note = page.get_by_role("note", name="Coverage")
            assert note.count() == 0
            page.get_by_text("8 rollouts from old logs").wait_for()
            for _ in range(20):  # as many as a pass over the pool has
                http.post("/report", json={"dataset": "narrow", "outcomes": outcomes}).raise_for_status()
            note.wait_for()
            assert note.inner_text() == http.get(run).json()["coverage"]["reason"]
            assert not visit.barriers()
        http.delete("/datasets/narrow").raise_for_status()


def test_a_warm_start_says_where_it_comes_from(browser: Browser, trained: ServiceProcess):
    wanted = {"warm_start": {"run": BOTS, "discount": 0.25}}
    warm = f"{trained.url}/datasets/{DATASET}/runs/warm"
    httpx.put(warm, json=wanted).raise_for_status()
    with visiting(browser, trained.url) as visit:
        card = visit.open(f"datasets/{DATASET}/runs/warm").get_by_role("region", name="Settings")
        card.get_by_text("warm start from").wait_for()
        assert f"{BOTS}, step {STEPS}, 25.0 % of its evidence dropped" in card.inner_text()
    httpx.delete(warm).raise_for_status()


def test_belief_and_reality_names_what_its_axes_show(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        page = visit.open(f"datasets/{DATASET}/runs/{BOTS}")
        figure = page.locator("figure", has=page.get_by_role("heading", name="Calibration", exact=True))
        titles = [figure.locator(f".{axis}title").text_content() for axis in "xy"]
    assert titles == ["predicted success rate", "observed success rate"]


def course(first: int, last: int, width: int, ratio: float) -> list[dict]:
    """Return the points of a curve: 32 tasks of 16 rollouts at each step, this share of them effective."""
    points = []
    for start in range(first, last + 1, width):
        end = min(last, start + width - 1)
        reported = 32 * (end - start + 1)
        sums = {"reported": reported, "effective": ratio * reported, "rollouts": 16 * reported}
        points.append({"first_step": start, "last_step": end, **sums})
    return points


@pytest.mark.parametrize(
    ("own", "baseline", "times", "steps"),
    [
        (course(51, 100, 1, 1.0), [*course(1, 50, 1, 0.0), *course(51, 100, 1, 1.0)], 1.0, 50),  # a fork
        (course(1, 2500, 42, 0.75), course(1, 30, 1, 0.5), 1.5, 30),  # one point is wider than the whole baseline
        (course(40, 50, 1, 0.5), course(1, 30, 1, 0.5), None, 0),
    ],
)
def test_a_gain_is_measured_on_the_steps_that_both_runs_have(
    browser: Browser, trained: ServiceProcess, own, baseline, times, steps
):
    gain = "async ([own, other]) => (await import('/page/series.js')).measuredGain(own, other)"
    spent = 16 * 32 * steps
    with visiting(browser, trained.url) as visit:
        found = visit.open(f"datasets/{DATASET}").evaluate(gain, [own, baseline])
    saved = None if times is None else pytest.approx(spent * (times - 1))
    assert found == {"times": times, "saved": saved, "spent": pytest.approx(spent), "steps": steps}


def test_a_run_of_uniform_choice_claims_no_gain(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        tiles = tiles_of(visit.open(f"datasets/{DATASET}/runs/{UNIFORM}"))
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
    with visiting(browser, trained.url) as visit:
        page = visit.open("datasets/bare/runs/default")
        assert "no run samples uniformly" in tiles_of(page)["vs uniform (estimate)"]
        assert f"fewer than {40 // 10} tasks a step" in page.get_by_role("note", name="Advice").inner_text()
    httpx.delete(f"{trained.url}/datasets/bare").raise_for_status()


def test_runs_are_compared_by_how_far_predictions_were_off_which_choosing_hard_tasks_does_not_spoil(
    browser: Browser, trained: ServiceProcess
):
    bins = httpx.get(f"{trained.url}/datasets/{DATASET}/runs/{BOTS}/calibration").json()["bins"]
    told = [one for one in bins if one["rollouts"]]
    off = sum(one["rollouts"] * abs(one["mean_prediction"] - one["success_rate"]) for one in told)
    error = off / sum(one["rollouts"] for one in told)
    with visiting(browser, trained.url) as visit:
        table = visit.open(f"datasets/{DATASET}").get_by_role("table", name="Comparison of runs")
        assert "Calibration error" in table.inner_text()
        row = table.get_by_role("row").filter(has=visit.page.get_by_role("link", name=BOTS, exact=True))
        assert row.inner_text().endswith(f"{error:.3f}")


def test_runs_are_compared_side_by_side_as_one_chooses(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        page = visit.open(f"datasets/{DATASET}")
        assert {visit.trace(RATIO, place)["name"] for place in range(4)} == {BOTS, PASS, TRACKER, UNIFORM}
        page.get_by_role("checkbox", name=UNIFORM).uncheck()
        page.wait_for_function("() => document.querySelector('.plot')?.data?.length === 3")
        assert {visit.trace(RATIO, place)["name"] for place in range(3)} == {BOTS, PASS, TRACKER}


def test_what_has_the_focus_keeps_it_while_numbers_change(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        page = visit.open()
        page.get_by_role("link", name=UNIFORM, exact=True).focus()
        select = {"dataset": DATASET, "run": UNIFORM, "count": 17}
        httpx.post(f"{trained.url}/select", json=select).raise_for_status()
        page.get_by_role("cell", name="17", exact=True).wait_for()
        assert page.evaluate("() => document.activeElement.textContent") == UNIFORM


def test_an_unknown_run_is_named_and_shown_once_it_is_there(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url, refused={404}) as visit:
        page = visit.page
        page.goto(f"{trained.url}/#/datasets/{DATASET}/runs/nobody")
        page.get_by_role("alert").get_by_text("nobody").wait_for()
        httpx.put(f"{trained.url}/datasets/{DATASET}/runs/nobody", json={}).raise_for_status()
        page.wait_for_selector("#live[data-state=live]")
        assert page.get_by_role("alert").first.inner_text() == ""
        assert page.locator("h1").inner_text() == "nobody"


@pytest.mark.parametrize("view", ["datasets/%E0%A4%A", "datasets/100%", "datasets/..", "datasets/a%2Fb/runs/%3Cb%3E"])
def test_an_address_that_means_nothing_is_refused_in_words(browser: Browser, trained: ServiceProcess, view: str):
    with visiting(browser, trained.url, refused={400, 404, 422}) as visit:
        visit.page.goto(f"{trained.url}/#/{view}")
        visit.page.wait_for_function("() => document.getElementById('notice').textContent.length > 0")


def test_a_service_that_first_fails_is_asked_again(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url, refused={503}) as visit:
        answers = iter([503])
        visit.page.route(
            "**/whoami",
            lambda route: route.fulfill(status=status) if (status := next(answers, None)) else route.continue_(),
        )
        visit.open()


def test_views_come_and_go_without_a_trace(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        page = visit.page
        client = page.context.new_cdp_session(page)

        def nodes_after(rounds: int) -> int:
            for _ in range(rounds):
                visit.open(f"datasets/{DATASET}/runs/{BOTS}")
                page.wait_for_function("() => document.querySelectorAll('.plot').length > 0")
                page.wait_for_function("() => [...document.querySelectorAll('.plot')].every((plot) => plot.data)")
                visit.open()
                page.wait_for_function(
                    "() => !document.querySelector('.plot') && Boolean(document.querySelector('main table'))"
                )
            return nodes()

        def nodes() -> int:
            client.send("HeapProfiler.collectGarbage")
            return client.send("Memory.getDOMCounters")["nodes"]

        first = nodes_after(2)
        left, give_up = nodes_after(6), time.monotonic() + 30
        while left >= 2 * first and time.monotonic() < give_up:  # what is on its way out goes when the browser has time
            time.sleep(0.5)
            left = nodes()
        assert left < 2 * first


def test_the_way_past_the_head_of_the_page_leads_to_its_content(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url) as visit:
        page = visit.open(f"datasets/{DATASET}/runs/{BOTS}")
        page.get_by_text("Skip to the content").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("() => document.activeElement.id") == "main"
        assert page.locator("h1").inner_text() == BOTS


def test_a_browser_that_keeps_nothing_shows_the_page_all_the_same(browser: Browser, trained: ServiceProcess):
    forbid = "Object.defineProperty(window, '%s', { get() { throw new DOMException('no', 'SecurityError'); } });"
    with visiting(browser, trained.url) as visit:
        for name in ("localStorage", "sessionStorage"):
            visit.page.add_init_script(forbid % name)
        page = visit.open()
        page.get_by_role("button", name="Theme: system").click()
        page.get_by_role("button", name="Theme: light").wait_for()


def test_a_service_that_is_away_is_told_and_followed_again_when_it_is_back(browser: Browser, service: ServiceProcess):
    with visiting(browser, service.url) as visit:
        page = visit.open()
        service.kill()
        page.wait_for_selector("#live[data-state=away]")
        service.start()
        page.wait_for_selector("#live[data-state=live]")
        assert any("ERR_CONNECTION_REFUSED" in line for line in visit.wrong)  # the browser says so by itself
        visit.wrong.clear()
