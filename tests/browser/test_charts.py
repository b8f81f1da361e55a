"""Charts: how they are read by mouse, by keyboard, as a table and as a file."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import PERCENT, Visit, visiting
from tests.browser.conftest import STEPS
from tests.browser.replaying import BOTS, DATASET
from tests.serving import ServiceProcess

RATIO = "Effective task ratio"
RUN = f"datasets/{DATASET}/runs/{BOTS}"


@pytest.fixture
def visit(browser: Browser, trained: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, trained.url) as opened:
        yield opened


@pytest.fixture(scope="module")
def run(browser: Browser, trained: ServiceProcess) -> Iterator[Visit]:
    with visiting(browser, trained.url) as opened:
        opened.open(RUN)
        opened.drawn()
        yield opened


def test_the_pointer_reads_all_lines_at_its_step(run: Visit):
    data, ratio = run.data(RATIO), run.chart(RATIO)
    ratio.locator(".plot").hover()
    expect(ratio.locator(".legend")).not_to_contain_text(f"step {STEPS}")
    step, *lines = ratio.locator(".legend li").all_inner_texts()
    place = data["step"].index(float(step.removeprefix("step ")))
    names = [name for name in data if name != "step"]
    assert [line.strip() for line in lines] == [
        f"{name} {100 * (data[name][place] or 0):.1f}{PERCENT}" for name in names
    ]
    assert abs(place - STEPS / 2) <= 3  # it hovers over the middle


def test_arrow_keys_read_a_chart(run: Visit):
    page, data, ratio = run.page, run.data(RATIO), run.chart(RATIO)
    ratio.locator(".plot").focus()
    said = ratio.get_by_role("status")
    page.keyboard.press("End")
    expect(said).to_contain_text(f"step {STEPS} ")
    expect(said).to_contain_text(f"this run {100 * (data['this run'][-1] or 0):.1f} %")
    page.keyboard.press("ArrowLeft")
    expect(said).to_contain_text(f"step {STEPS - 1} ")


def test_what_happened_is_marked(visit: Visit, trained: ServiceProcess):
    run = "/datasets/marked/runs/default"
    with httpx.Client(base_url=trained.url) as http:
        http.put("/datasets/marked", json={"tasks": [{"id": "t1"}, {"id": "t2"}]}).raise_for_status()
        report = {"dataset": "marked", "outcomes": [{"task": "t1", "successes": 3, "trials": 8}]}
        for _ in range(3):
            http.post("/report", json=report).raise_for_status()
        http.post(f"{run}/rewind", json={"step": 2}).raise_for_status()
        http.patch(run, json={"target": 0.6}).raise_for_status()
        http.post("/report", json=report).raise_for_status()
    visit.open("datasets/marked/runs/default")
    page, ratio = visit.drawn(), visit.chart(RATIO)
    assert {"rewind", "target"} <= {*ratio.locator("text").all_text_contents()}
    ratio.locator(".plot").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    for words in ("rewind (step 2)", "target (step 2)"):
        expect(ratio.get_by_role("status")).to_contain_text(words)
    httpx.delete(f"{trained.url}/datasets/marked").raise_for_status()


def test_a_long_course_s_table_shows_the_newest_rows_and_its_file_all(visit: Visit):
    length, most = 20_000, 200
    page = visit.open()
    page.evaluate(
        """async (length) => {
            const folder = new URL(".", document.querySelector("script[type=module]").src);
            const { chart, STEPS } = await import(`${folder}charts.js`);
            const x = Array.from({ length }, (_, place) => place + 1);
            const long = chart("Long", "");
            document.getElementById("main").prepend(long.node);
            const y = { name: "", format: String };
            long.draw({ x: STEPS, y, series: [{ name: "=sum", x, y: x, paint: "accent" }], words: "" });
        }""",
        length,
    )
    long = visit.chart("Long")
    long.get_by_text("Data", exact=True).click()
    long.locator("tbody th").first.wait_for()
    steps = [int(text.replace(",", "")) for text in long.locator("tbody th").all_inner_texts()]
    assert steps == list(range(length, length - most, -1))
    assert "The last 200 of 20,000 rows" in long.inner_text()
    assert visit.data("Long")["'=sum"] == [float(step) for step in range(1, length + 1)]  # no formula in a spreadsheet
