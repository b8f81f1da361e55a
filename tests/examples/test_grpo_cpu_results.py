"""What the finetuning example makes of its runs."""

import json
import math
from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from examples.grpo_cpu.course import Course, Evaluation
from examples.grpo_cpu.measures import (
    best_so_far,
    difference,
    effective_task_ratio,
    final_accuracy,
    interval,
    mean_accuracy,
    overhead,
    pairs_of,
    smoothed,
)
from examples.grpo_cpu.plan import Plan
from examples.grpo_cpu.results import Results
from examples.grpo_cpu.table import together


def course_of(accuracies: list[float], *, arm: str = "uniform", seed: int = 0, effective: int = 4) -> Course:
    """Return a run evaluated at every 10th step, each step of which took half a second."""
    steps = 10 * (len(accuracies) - 1)
    return Course(
        seed=seed,
        arm=arm,
        evaluations=[Evaluation(10 * n, 5.0 * n, accuracy, [accuracy] * 7) for n, accuracy in enumerate(accuracies)],
        solved=[20] * steps,
        effective=[effective] * steps,
        seconds=steps / 2,
        select_seconds=0.1 * steps,
        report_seconds=0.05 * steps,
        local_selects=0,
        kept=0,
    )


def test_an_accuracy_is_the_mean_of_three_evaluations() -> None:
    course = course_of([0.0, 0.3, 0.9, 0.6])
    assert [level for _, level in smoothed(course)] == pytest.approx([0.0, 0.15, 0.4, 0.6])


def test_the_mean_accuracy_is_over_all_evaluations_and_the_final_one_over_the_last_three() -> None:
    course = course_of([0.0, 0.3, 0.9, 0.6])
    assert mean_accuracy(course) == pytest.approx((0.0 + 0.3 + 0.9 + 0.6) / 4)
    assert final_accuracy(course) == pytest.approx((0.3 + 0.9 + 0.6) / 3)


def test_the_best_so_far_looks_at_the_first_share_of_the_steps() -> None:
    course = course_of([0.6, 0.6, 0.6, 0.0, 0.9])
    assert best_so_far(course, 0.5) == pytest.approx(0.6)
    assert best_so_far(course_of([0.1, 0.1, 0.1, 0.4]), 1.0) == pytest.approx(0.2)


def test_the_effective_task_ratio_is_of_a_part_of_the_steps() -> None:
    course = course_of([0.0] * 5)
    course.effective[:20] = [8] * 20
    assert effective_task_ratio(course, tasks_per_step=16, begin=0, end=0.5) == 0.5
    assert effective_task_ratio(course, tasks_per_step=16, begin=0.5, end=1) == 0.25


def test_the_overhead_is_the_share_of_the_time_spent_waiting() -> None:
    assert overhead(course_of([0.0, 0.0])) == pytest.approx(0.15 / 0.5)


def test_differences_are_paired_by_seed() -> None:
    finals = [(0.2, 0.3), (0.5, 0.55), (0.4, 0.6)]
    courses = [
        course_of([value] * 3, arm=arm, seed=seed)
        for seed, pair in enumerate(finals)
        for arm, value in zip(("uniform", "bots"), pair, strict=True)
    ]
    found = difference(pairs_of(reversed(courses)), lambda course: best_so_far(course, 1))
    expected = ttest_rel([bots for _, bots in finals], [uniform for uniform, _ in finals]).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((0.35 / 3, expected.low, expected.high))


def test_one_seed_has_no_interval() -> None:
    assert math.isnan(interval([0.5]).low)


def test_several_comparisons_are_told_together_by_their_seeds() -> None:
    comparisons = [
        Results({}, Plan(), [course_of([0.1, 0.2], seed=0), course_of([0.2, 0.4], seed=0, arm="bots")]),
        Results({}, Plan(), [course_of([0.3, 0.5, 0.7], seed=1), course_of([0.3, 0.6, 0.6], seed=1, arm="bots")]),
    ]
    uniform, bots = [0.3 / 2, 1.5 / 3], [0.6 / 2, 1.5 / 3]
    found = ttest_rel(bots, uniform).confidence_interval(0.95)
    (line,) = together(comparisons).splitlines()[2:]
    means = f"{sum(uniform) / 2:.3f} | {sum(bots) / 2:.3f}"
    assert line.startswith(f"| held-out accuracy, mean over the whole course | {means} |")
    assert f"+{(sum(bots) - sum(uniform)) / 2:.3f} ({found.low:+.3f} to {found.high:+.3f})" in line


def test_results_come_back_from_their_file(tmp_path: Path) -> None:
    results = Results({"cores": 2}, Plan(steps=20), [course_of([0.1, 0.2, 0.4])])
    file = tmp_path / "results.json"
    file.write_text(json.dumps(results.as_json()))
    assert Results.read(file) == results
