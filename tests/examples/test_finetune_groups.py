"""The results of the finetuning example by group of tasks."""

from statistics import fmean

import pytest
from scipy.stats import ttest_rel

from examples.finetune.course import Course
from examples.finetune.families import FAMILIES, is_mislabelled
from examples.finetune.groups import group_tables, held_out_groups, shares_of
from examples.finetune.kinds import problems_of
from examples.finetune.plan import BASE, COMPARISONS

PLAN = COMPARISONS["families"].small
TASKS = sum(PLAN.pool)
SOLVABLE = [name for name, family in FAMILIES.items() if family.solvable]


def course_of(arm: str, seed: int, by_group: list[list[float]], visits: list[int]) -> Course:
    evaluations = len(by_group)
    return Course(
        seed=seed,
        arm=arm,
        accuracies=[fmean(groups) for groups in by_group],
        by_group=by_group,
        pool_accuracies=[0.5] * evaluations,
        uniform_ratios=[0.3] * evaluations,
        slopes=[None] * evaluations,
        log_losses=[0.7] * evaluations,
        least_losses=[0.4] * evaluations,
        solved=[8],
        effective=[2],
        visits=visits,
        reference_rollouts=0,
        seconds=0.4,
        cpu_seconds=0.3,
        service_seconds=0.1,
    )


def test_groups_with_held_out_tasks_are_those_that_can_be_solved() -> None:
    assert held_out_groups(PLAN, 3) == SOLVABLE


def test_visits_are_counted_by_group_and_by_label() -> None:
    pool, _ = problems_of(PLAN, 3)
    visits = [place % 5 for place in range(TASKS)]
    found = shares_of(PLAN, 3, visits)
    for name in FAMILIES:
        own = [count for problem, count in zip(pool, visits, strict=True) if problem.group == name]
        assert found[name] == pytest.approx(sum(own) / sum(visits))
    wrong = [count for problem, count in zip(pool, visits, strict=True) if is_mislabelled(problem)]
    assert len(wrong) == len(SOLVABLE)  # one of twelve each
    assert found["mislabelled"] == pytest.approx(sum(wrong) / sum(visits))


def test_the_tables_have_a_row_for_each_family_and_each_arm() -> None:
    base = {seed: [[0.1 * seed + 0.01 * place + 0.1 * at for place in range(7)] for at in range(3)] for seed in (1, 2)}
    gains = {1: 0.03, 2: 0.05}
    even = [1] * TASKS
    first_only = [int(place < PLAN.pool[0]) for place in range(TASKS)]
    courses = [course_of(BASE, seed, base[seed], even) for seed in base]
    for seed, gain in gains.items():
        better = [[accuracy + gain for accuracy in groups] for groups in base[seed]]
        courses.append(course_of("pass-r2", seed, better, first_only))

    text = group_tables(courses, PLAN).splitlines()

    found = ttest_rel([0.03, 0.05], [0.0, 0.0]).confidence_interval(0.95)
    for place, name in enumerate(SOLVABLE):
        before, after = (fmean(base[seed][at][place] for seed in base) for at in (0, -1))
        more = f"+0.0400 ({found.low:+.4f} to {found.high:+.4f})"
        assert f"| {name} | {before:.3f} | {after:.3f} | {more} |" in text
    shares = ["1.000", *["0.000"] * 7, f"{1 / 12:.3f}"]
    assert f"| `pass-r2` | {' | '.join(shares)} |" in text
    assert text[-2].replace(f"`{BASE}`", "of the pool") == text[-3]  # shuffle visits all alike
