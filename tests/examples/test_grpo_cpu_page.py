"""The figures on the page of the finetuning example are those of its results."""

from pathlib import Path

import pytest

from examples.grpo_cpu.chart import draw_chart
from examples.grpo_cpu.compare import REFERENCES
from examples.grpo_cpu.results import Results
from examples.grpo_cpu.table import tables, together
from examples.grpo_cpu.tasks import problems_of
from tests.docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "examples/grpo_cpu/results"
PAGE = (ROOT / "docs/trainers/grpo_cpu.md").read_text("utf-8")
NOT_RUN = ["it trains for 40 minutes", "it reads what the run above has written"]


@pytest.mark.parametrize("name", ["full", "first"])
def test_the_page_shows_the_tables_of_the_results(name: str) -> None:
    assert tables(Results.read(RESULTS / f"{name}.json")) in PAGE


def test_the_page_shows_both_comparisons_together() -> None:
    assert together(Results.read(RESULTS / f"{name}.json") for name in ("first", "full")) in PAGE


def test_the_page_names_what_the_references_cost() -> None:
    plan = Results.read(RESULTS / "full.json").plan
    pool, _ = problems_of(6, per_level=plan.tasks_per_level, held_out_per_level=plan.held_out_per_level)
    rollouts = len(pool) * plan.attempts * len(REFERENCES)
    assert f"{rollouts:,} rollouts, as many as {rollouts // (plan.tasks_per_step * plan.rollouts)} steps" in PAGE


def test_the_chart_shows_both_ways_of_choosing(tmp_path: Path) -> None:
    draw_chart(Results.read(RESULTS / "full.json"), tmp_path / "chart.svg")
    picture = (tmp_path / "chart.svg").read_text("utf-8")
    assert all(words in picture for words in ("BOTS", "uniform", "effective task ratio"))


def test_blocks_that_are_not_run_are_the_known_ones() -> None:
    assert [block.not_run for block in blocks_of(PAGE, "grpo_cpu.md")] == NOT_RUN
