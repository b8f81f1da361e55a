"""What trainers measured of their models on the page: nothing while there is none, then a column, a tile, charts."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from bots_client import Client, Outcome, Task
from tests.browser.chromium import Visit, visiting
from tests.serving import ServiceProcess, running_service

NAME = "heldout/accuracy"
RUNS = {"baseline": "uniform", "chosen": "pass", "unmeasured": "pass"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with three runs of two steps of 8 and 16 rollouts."""
    with running_service(tmp_path_factory.mktemp("evaluated")) as started, Client(started.url) as bots:
        bots.create_dataset("pool", [Task(f"t{number}") for number in range(8)])
        for run, strategy in RUNS.items():
            bots.create_run("pool", run, strategy=strategy)
            for trials in (8, 16):
                bots.report("pool", [Outcome.counts("t1", 1, trials)], run=run)
        yield started


@pytest.fixture(scope="module")
def measured(service: ServiceProcess) -> ServiceProcess:
    with Client(service.url) as bots:
        for run, values in {"baseline": (0.25, 0.5), "chosen": (0.375, 0.75)}.items():
            for step, value in enumerate(values, start=1):
                bots.evaluate("pool", {NAME: value, "zzz": 0.125}, run=run, step=step)
        bots.finish("pool", "chosen")
    return service


@pytest.fixture
def visit(browser: Browser, service: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, service.url) as opened:
        yield opened


def test_without_any_nothing_of_them_is_there(visit: Visit):
    for view in ("", "datasets/pool", "datasets/pool/runs/chosen"):
        page = visit.open(view)
        expect(
            page.get_by_role("link", name="chosen").or_(page.get_by_role("heading", name="chosen")).first
        ).to_be_visible()
        expect(page.get_by_text("Evaluation")).to_have_count(0 if view == "" else 1)
        expect(page.get_by_text("Evaluation").locator("visible=true")).to_have_count(0)


@pytest.mark.usefixtures("measured")
def test_runs_are_sorted_by_the_difference_and_a_finished_one_says_so(visit: Visit):
    page = visit.open()
    page.get_by_role("button", name="Evaluation").click()
    expect(page.get_by_role("rowheader").first).to_contain_text("chosen")
    rows = {row["Run"]: row for row in visit.rows("Runs")}
    assert (rows["chosen"]["Evaluation"], rows["chosen"]["Status"]) == ("+0.250", "finished")
    assert (rows["baseline"]["Evaluation"], rows["unmeasured"]["Evaluation"]) == ("0.500", "\N{EN DASH}")


@pytest.mark.usefixtures("measured")
def test_a_run_shows_them_next_to_its_baseline_by_steps_and_by_rollouts(visit: Visit):
    page = visit.open("datasets/pool/runs/chosen")
    expect(page.get_by_text("+0.250 vs baseline at step 2")).to_be_visible()
    assert visit.data("Evaluations") == {"step": [1, 2], "baseline": [0.25, 0.5], "this run": [0.375, 0.75]}
    page.get_by_label("By", exact=True).select_option("by rollouts")
    assert visit.data("Evaluations") == {"rollouts": [8, 24], "baseline": [0.25, 0.5], "this run": [0.375, 0.75]}
    page.get_by_label("Measured").select_option("zzz")
    assert visit.data("Evaluations")["this run"] == [0.125, 0.125]


@pytest.mark.usefixtures("measured")
def test_a_dataset_names_the_best_and_draws_those_that_have_any(visit: Visit):
    page = visit.open("datasets/pool")
    expect(page.get_by_text(f"+0.250 {NAME}")).to_be_visible()
    assert visit.data("Evaluations") == {"step": [1, 2], "baseline": [0.25, 0.5], "chosen": [0.375, 0.75]}
