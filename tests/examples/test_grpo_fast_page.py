"""The page of the fast finetuning run says what its plan and its code say."""

from dataclasses import replace
from pathlib import Path

import pytest

from examples.grpo_fast.chart import draw_chart
from examples.grpo_fast.course import records_of
from examples.grpo_fast.plan import ARMS, REGISTERED, Plan
from examples.grpo_fast.table import tables
from tests.docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/trainers/grpo_fast.md").read_text("utf-8")
RESULTS = sorted((ROOT / "examples/grpo_fast/results").glob("*.jsonl"))
NOT_RUN = ["it trains for minutes", "it reads what the run above has written"]


def test_the_page_lists_every_arm_with_its_settings() -> None:
    for name, arm in ARMS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"`{arm.settings['strategy']}`" in row
        assert ("two references" in row) is arm.references
        assert ("tags" in row) is arm.tags
        assert f"`{arm.settings.get('belief', 'bots')}`" in row or name == "shuffle"


def test_the_page_names_the_registered_arms() -> None:
    assert f"arms {', '.join(f'`{name}`' for name in REGISTERED)};" in PAGE


def test_the_page_names_the_sizes_of_the_plan() -> None:
    plan = Plan()
    assert f"{sum(plan.pool)} in the pool, {7 * plan.held_out_per_level} others held out" in PAGE
    assert f"{plan.steps} steps of GRPO, {plan.tasks_per_step} tasks with {plan.rollouts} rollouts each" in PAGE
    assert f"of the {plan.evaluations} evaluations" in PAGE
    assert f"{plan.lessons.weak:.0%} and {plan.lessons.strong:.0%}".replace("%", " %") in PAGE


def test_the_page_names_what_the_references_cost() -> None:
    plan = Plan()
    rollouts = sum(plan.pool) * plan.attempts * 2
    assert f"{rollouts:,}, as many as {rollouts // (plan.tasks_per_step * plan.rollouts)} steps" in PAGE


def test_blocks_that_are_not_run_are_the_known_ones() -> None:
    assert [block.not_run for block in blocks_of(PAGE, "grpo_fast.md")] == NOT_RUN


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_the_page_shows_the_tables_of_each_comparison(file: Path) -> None:
    records = records_of([file])
    assert tables([record.course for record in records]) in PAGE
    assert {record.commit for record in records} == {file.stem}


def test_the_results_are_those_of_the_plans() -> None:
    by_seed = {records[0].course.seed: records[0].plan for records in (records_of([file]) for file in RESULTS)}
    second = replace(Plan(), related=False)
    first = replace(second, lessons=replace(Plan().lessons, effective=0.37))
    assert by_seed == {0: first, 4: second, 8: Plan()}


def test_the_chart_shows_every_arm(tmp_path: Path) -> None:
    newest = next(file for file in RESULTS if records_of([file])[0].plan == Plan())
    draw_chart(records_of([newest]), tmp_path / "chart.svg")
    picture = (tmp_path / "chart.svg").read_text("utf-8")
    assert all(words in picture for words in (*REGISTERED, "effective task ratio", "visits of a task"))
