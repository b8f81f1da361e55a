"""The appendix, the page and the chart of the finetuning runs are what the kept results give."""

import re
from pathlib import Path

import pytest

from examples.finetune.appendix import APPENDIX, CHART, MARKED, PAGE, appendix, newest, page, was_run
from examples.finetune.chart import draw_chart
from examples.finetune.course import registered_runs
from examples.finetune.plan import COMPARISONS, Job

RUN = [name for name in COMPARISONS if was_run(name)]
POINTS = re.compile(
    r"<use[^>]*>|^ *L [-0-9. ]+$", re.MULTILINE
)  # what is around them changes with matplotlib's version


@pytest.mark.parametrize("name", RUN)
def test_the_results_are_those_of_the_registered_plan(name: str) -> None:
    records, comparison = registered_runs(name), COMPARISONS[name]
    assert len({record.commit for record in records}) == 1
    assert not records[0].commit.endswith("+")
    assert {record.plan for record in records} == {comparison.plan}
    ran = {Job(record.course.seed, record.course.arm) for record in records}
    assert len(ran) == len(records)
    assert ran == set(comparison.jobs())


def test_the_appendix_and_the_page_show_what_the_results_give() -> None:
    assert APPENDIX.read_text("utf-8") == appendix()
    text = PAGE.read_text("utf-8")
    assert page(text) == text
    assert len(MARKED.findall(text)) == 2


def test_the_chart_is_that_of_the_results(tmp_path: Path) -> None:
    draw_chart(registered_runs(newest()), tmp_path / "chart.svg")
    drawn, kept = (POINTS.findall(path.read_text("utf-8")) for path in (tmp_path / "chart.svg", CHART))
    assert drawn == kept
    assert drawn
