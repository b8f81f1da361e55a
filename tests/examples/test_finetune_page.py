"""The page of the finetuning run says what its plan, its code and its results say."""

from pathlib import Path

import numpy as np

from examples.finetune.chart import draw_chart
from examples.finetune.course import registered_runs
from examples.finetune.intervals import sign_flip_p
from examples.finetune.measures import arms_of, charged, difference, differences, mean_accuracy, pool_accuracy
from examples.finetune.plan import ARMS, COMPARISONS, Plan
from tests.docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/studies/finetuning.md").read_text("utf-8")
SETTING = PAGE.split("## What was run")[1]
REGISTRATION = (ROOT / "examples/finetune/REGISTRATION.md").read_text("utf-8")
RECORDS = registered_runs("additions")
NOT_RUN = ["it trains for an hour or two"]


def test_the_page_lists_every_arm_with_its_settings() -> None:
    for name, arm in ARMS.items():
        row = next(line for line in SETTING.splitlines() if line.startswith(f"| `{name}` |"))
        assert ("the truth" in row) is arm.knows_all
        if arm.knows_all:
            continue
        assert f"`{arm.settings['strategy']}`" in row
        assert ("two references" in row) is arm.references
        assert ("tags" in row) is arm.tags
        assert f"`{arm.settings.get('belief', 'bots')}`" in row or name == "shuffle"


def test_the_registration_names_the_seeds_and_sizes_of_its_plan() -> None:
    comparison = COMPARISONS["additions"]
    plan = comparison.plan
    said = " ".join(REGISTRATION.split())
    for arm, seeds in comparison.seeds.items():
        row = next(line for line in REGISTRATION.splitlines() if f"`{arm}`" in line and line.startswith("|"))
        assert f"| {seeds[0]} to {seeds[-1]} |" in row
    assert f"({plan.evaluations} evaluations, the first and the last included)" in said
    cost = plan.reference_rollouts
    assert f"{cost:,} rollouts or {cost // (plan.tasks_per_step * plan.rollouts)} steps" in said
    assert f"so it stays at {plan.learning_rate}." in said


def test_blocks_that_are_not_run_are_the_known_ones() -> None:
    assert [block.not_run for block in blocks_of(PAGE, "finetuning.md")][: len(NOT_RUN)] == NOT_RUN


def test_the_page_says_in_words_what_the_results_say() -> None:
    arms, said = arms_of(record.course for record in RECORDS), " ".join(PAGE.split())
    shares = np.array(Plan().pool) / sum(Plan().pool)
    cost = Plan().tasks_per_step * Plan().rollouts
    found = difference(arms, "pass-r2", mean_accuracy)
    p = sign_flip_p(differences(arms, "pass-r2", mean_accuracy))
    assert f"was {found.mean:.4f} higher" in said
    assert f"interval {found.low:+.4f} to {found.high:+.4f}, exact sign-flip p {p:.3f}, higher in 13 of 16" in said
    paid = {**arms, "pass-r2": {seed: charged(course, cost) for seed, course in arms["pass-r2"].items()}}
    assert f"`pass-r2` is {-difference(paid, 'pass-r2', mean_accuracy).mean:.3f} below `shuffle`, in every seed" in said
    assert max(differences(paid, "pass-r2", mean_accuracy)) < 0
    assert f"ended {difference(arms, 'pass-r2', pool_accuracy).mean:.3f} above `shuffle`" in said
    weighted = difference(arms, "pass-r2", lambda course: float(np.dot(course.by_group[-1], shares)))
    assert f"are, ended {weighted.mean:.3f} above ({weighted.low:+.3f} to {weighted.high:+.3f})" in said
    assert f"is {difference(arms, 'oracle', mean_accuracy).mean:.3f} above `shuffle`, in all of eight seeds" in said


def test_the_chart_shows_every_arm(tmp_path: Path) -> None:
    draw_chart(RECORDS, tmp_path / "chart.svg")
    picture = (tmp_path / "chart.svg").read_text("utf-8")
    assert all(words in picture for words in (*COMPARISONS["additions"].seeds, "effective task ratio", "visits"))
