"""Charts: what they draw, and how they are read by mouse, by keyboard, and as files."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.chromium import PERCENT, Visit, visiting
from tests.browser.conftest import STEPS
from tests.browser.replaying import BOTS, DATASET
from tests.serving import ServiceProcess

RATIO, HEAT, COVERAGE, CALIBRATION = (
    "Effective task ratio",
    "Predicted success rate of all tasks over time",
    "Coverage",
    "Calibration",
)
RUN = f"datasets/{DATASET}/runs/{BOTS}"
# Canvases hold no text: this keeps what is written on them, with its place.
KEEP_TEXTS = """
    globalThis.written = [];
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        globalThis.written.push({ text, x, y });
        return write.apply(this, arguments);
    };
"""


@pytest.fixture
def visit(browser: Browser, trained: ServiceProcess) -> Iterator[Visit]:
    """A visit that keeps what charts write."""
    with visiting(browser, trained.url) as opened:
        opened.page.add_init_script(KEEP_TEXTS)
        yield opened


def drag(page: Page, chart: Locator, first: float, last: float) -> None:
    """Drag over a part of a chart: from one share of its width to another."""
    over = chart.locator(".u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + first * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + last * box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()


def steps_shown(chart: Locator) -> list[int]:
    """Return the steps in a chart's table, which follows its zoom; the newest comes first."""
    if chart.locator("details[open]").count() == 0:
        chart.locator("summary").click()
    chart.get_by_role("table").wait_for()
    return [int(text.replace(",", "")) for text in chart.locator("tbody td:first-child").all_inner_texts()]


def texts(page: Page) -> list[dict[str, Any]]:
    return page.evaluate("() => globalThis.written")


def test_dragging_shows_a_part_of_the_steps_in_all_charts_of_steps_and_a_button_shows_all_again(visit: Visit):
    visit.open(RUN)
    page = visit.drawn()
    ratio, coverage = visit.chart(RATIO), visit.chart(COVERAGE)
    drag(page, ratio, 0.25, 0.5)
    first, last = 1 + (STEPS - 1) * 0.25, 1 + (STEPS - 1) * 0.5
    wanted = [step for step in range(STEPS, 0, -1) if first <= step <= last]
    assert steps_shown(ratio) == pytest.approx(wanted, abs=1)
    assert steps_shown(coverage) == steps_shown(ratio)
    assert not visit.chart(CALIBRATION).get_by_role("button", name="Reset zoom").is_visible()  # its x are no steps
    coverage.get_by_role("button", name="Reset zoom").click()
    assert steps_shown(ratio) == list(range(STEPS, 0, -1))
    expect(ratio.get_by_role("button", name="Reset zoom")).to_be_hidden()


def test_the_pointer_reads_all_series_at_its_step(visit: Visit):
    visit.open(RUN)
    visit.drawn()
    data, ratio = visit.data(RATIO), visit.chart(RATIO)
    ratio.locator(".u-over").hover()
    step, *lines = ratio.locator(".readout p").all_inner_texts()
    place = data["step"].index(float(step.removeprefix("step ")))
    names = [name for name in data if name != "step"]
    assert lines == [f"{name} {100 * (data[name][place] or 0):.1f}{PERCENT}" for name in names]
    assert abs(place - STEPS / 2) <= 2  # it hovers over the middle


def test_arrow_keys_read_a_chart_and_keys_zoom(visit: Visit):
    page = visit.open(RUN)
    visit.drawn()
    data, ratio = visit.data(RATIO), visit.chart(RATIO)
    ratio.locator(".plot").focus()
    said = ratio.get_by_role("status")
    page.keyboard.press("End")
    expect(said).to_contain_text(f"step {STEPS} ")
    expect(said).to_contain_text(f"this run {100 * (data['this run'][-1] or 0):.1f} %")
    page.keyboard.press("ArrowLeft")
    expect(said).to_contain_text(f"step {STEPS - 1} ")
    page.keyboard.press("+")
    expect(ratio.get_by_role("button", name="Reset zoom")).to_be_visible()
    page.keyboard.press("Escape")
    expect(ratio.get_by_role("button", name="Reset zoom")).to_be_hidden()


def test_steps_are_whole_numbers_and_what_happened_is_marked(visit: Visit, trained: ServiceProcess):
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
    page = visit.drawn()
    written = {one["text"] for one in texts(page)}
    assert {"rewind", "target"} & written  # both are at step 2: there is room for the first
    assert not {text for text in written if "." in text and text.replace(".", "").isdigit() and 1 < float(text) < 3}
    visit.chart(RATIO).locator(".plot").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    said = visit.chart(RATIO).get_by_role("status")
    expect(said).to_contain_text("rewind (step 2)")
    expect(said).to_contain_text("target (step 2)")
    httpx.delete(f"{trained.url}/datasets/marked").raise_for_status()


def test_a_chart_is_saved_as_a_picture(visit: Visit):
    visit.open(RUN)
    page = visit.drawn()
    with page.expect_download() as saved:
        visit.chart(RATIO).get_by_role("button", name="PNG").click()
    assert saved.value.suggested_filename == "effective-task-ratio.png"
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")


def test_long_courses_are_drawn_whole_their_table_shows_the_newest_rows_and_their_file_all(visit: Visit):
    length, most = 20_000, 200
    page = visit.open()
    page.evaluate(
        """async (length) => {
            const folder = new URL(".", document.querySelector("script[type=module]").src);
            const { chart, STEPS, NUMBERS } = await import(`${folder}charts.js`);
            const x = Array.from({ length }, (_, place) => place + 1);
            const long = chart("Long", "");
            document.getElementById("main").prepend(long.node);
            await long.draw({ x: STEPS, y: NUMBERS, series: [{ name: "=sum", x, y: x, paint: "accent" }], words: "" });
        }""",
        length,
    )
    long = visit.chart("Long")
    long.locator("canvas").wait_for()
    assert steps_shown(long) == list(range(length, length - most, -1))
    assert "The last 200 of 20,000 rows" in long.inner_text()
    assert visit.data("Long")["'=sum"] == [float(step) for step in range(1, length + 1)]  # no formula in a spreadsheet


def test_without_the_charts_library_the_page_shows_tables(browser: Browser, trained: ServiceProcess):
    with visiting(browser, trained.url, refused={404}) as visit:
        visit.page.route("**/uPlot.esm.js", lambda route: route.fulfill(status=404))
        visit.open(RUN)
        ratio = visit.chart(RATIO)
        ratio.get_by_text("The part that draws charts did not load").wait_for()
        assert len(ratio.locator("tbody tr").all()) == STEPS
        assert len(visit.data(RATIO)["step"]) == STEPS
        expect(ratio.get_by_role("button", name="PNG")).to_be_disabled()
        assert not visit.barriers()
