"""The page of the fast finetuning run says what its plan and its code say."""

from pathlib import Path

from examples.grpo_fast.plan import ARMS, REGISTERED, Plan
from tests.docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/trainers/grpo_fast.md").read_text("utf-8")
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
