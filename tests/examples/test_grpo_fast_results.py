"""What the fast finetuning run makes of its runs."""

import json
from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from examples.grpo_fast.course import Course, Record, records_of
from examples.grpo_fast.measures import (
    arms_of,
    difference,
    distinct_tasks,
    effective_ratio,
    final_accuracy,
    mean_accuracy,
    most_visits,
    share_of_steps_to,
)
from examples.grpo_fast.plan import ARMS, BASE, REGISTERED, SMALL, Plan
from examples.grpo_fast.table import tables


def course_of(accuracies: list[float], *, arm: str = BASE, seed: int = 0) -> Course:
    """Return a run of 8 steps with 2 tasks each, of which fewer and fewer are effective."""
    return Course(
        seed=seed,
        arm=arm,
        accuracies=accuracies,
        by_level=[[accuracy] * 7 for accuracy in accuracies],
        pool_accuracies=[accuracies[0], accuracies[-1]],
        uniform_ratios=[0.4, 0.3],
        solved=[8] * 8,
        effective=[2, 2, 2, 1, 1, 1, 0, 0],
        visits=[9, 0, 4, 3],
        seconds=0.4,
        service_seconds=0.1,
    )


def record_of(course: Course, plan: Plan = SMALL) -> Record:
    return Record("abc", {"cores": 2}, plan, course)


def test_runs_come_back_from_their_lines(tmp_path: Path) -> None:
    records = [record_of(course_of([0.1, 0.2, 0.4], seed=seed)) for seed in (0, 1)]
    (tmp_path / "results.jsonl").write_text("".join(record.as_line() for record in records))
    assert records_of([tmp_path / "results.jsonl"]) == records
    assert all(json.loads(record.as_line())["plan"]["steps"] == SMALL.steps for record in records)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([record_of(course_of([0.1, 0.2]), Plan())], "different plans"),
        ([record_of(course_of([0.3, 0.3]))], "more than one run of seed 0, shuffle"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path, others: list[Record], said: str) -> None:
    lines = [record.as_line() for record in [record_of(course_of([0.1, 0.2])), *others]]
    (tmp_path / "results.jsonl").write_text("".join(lines))
    with pytest.raises(ValueError, match=said):
        records_of([tmp_path / "results.jsonl"])


def test_the_endpoint_is_the_mean_of_all_evaluations() -> None:
    course = course_of([0.1, 0.2, 0.6])
    assert mean_accuracy(course) == pytest.approx((0.1 + 0.2 + 0.6) / 3)
    assert final_accuracy(course) == 0.6


def test_coverage_is_told_by_the_visits() -> None:
    assert distinct_tasks(course_of([0.1])) == 3
    assert most_visits(course_of([0.1])) == 9


def test_the_effective_task_ratio_is_of_a_quarter_of_the_steps() -> None:
    course = course_of([0.1])  # 16 visits in 8 steps
    assert [effective_ratio(course, quarter=quarter) for quarter in range(4)] == pytest.approx([4 / 4, 3 / 4, 2 / 4, 0])


def test_steps_to_an_accuracy_are_read_between_evaluations() -> None:
    base = course_of([0.25] * 5)
    # The means of up to three evaluations are 0.1, 0.1, 0.1, 0.4, 0.7: 0.25 lies in the middle between the third and
    # fourth of five.
    assert share_of_steps_to(course_of([0.1, 0.1, 0.1, 1.0, 1.0]), base) == pytest.approx(2.5 / 4)
    assert share_of_steps_to(base, base) == 0
    assert share_of_steps_to(course_of([0.1] * 5), base) is None


def test_differences_are_paired_by_seed() -> None:
    ends = {0: (0.2, 0.3), 1: (0.5, 0.55), 2: (0.4, 0.6)}
    courses = [
        course_of([end], arm=arm, seed=seed)
        for seed, both in ends.items()
        for arm, end in zip((BASE, "pass"), both, strict=True)
    ]
    found = difference(arms_of(courses), "pass", mean_accuracy)
    bases, others = zip(*ends.values(), strict=True)
    expected = ttest_rel(others, bases).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((0.35 / 3, expected.low, expected.high))


def test_the_tables_show_every_seed_and_every_arm() -> None:
    courses = [
        course_of([0.1, 0.2 + gain], arm=arm, seed=seed)
        for seed in (3, 4)
        for arm, gain in ((BASE, 0.0), ("pass", 0.1), ("bots-r2", -0.1))
    ]
    lines = tables(courses).splitlines()
    assert lines[0] == "| seed | accuracy before | shuffle | pass | bots-r2 |"
    assert lines[2] == f"| 3 | 0.100 | {0.3 / 2:.4f} | {0.4 / 2:.4f} | {0.2 / 2:.4f} |"
    assert "| seeds in which the mean over the course is higher | 2 of 2 | 0 of 2 |" in lines
    assert any(line.startswith("| steps to shuffle's accuracy") and line.endswith("| 2 of 2 never |") for line in lines)


def test_a_seed_that_an_arm_lacks_is_left_empty() -> None:
    courses = [course_of([0.1] * 2, seed=0), course_of([0.1] * 2, seed=1), course_of([0.3] * 2, arm="pass")]
    lines = tables(courses).splitlines()
    assert lines[3] == "| 1 | 0.100 | 0.1000 |  |"
    assert "| seeds in which the mean over the course is higher | 1 of 1 |" in lines


def test_the_registered_arms_are_known_and_begin_with_shuffle() -> None:
    assert REGISTERED[0] == BASE
    assert set(REGISTERED) <= set(ARMS)


def test_all_plans_keep_a_third_of_the_pool_nearly_hopeless() -> None:
    assert Plan().pool[-1] / sum(Plan().pool) == pytest.approx(0.29, abs=0.005)
    assert len(Plan().pool) == len(SMALL.pool) == len(Plan().lessons.shares) == 7
