"""What the finetuning run makes of its runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import permutation_test, ttest_rel

from examples.finetune.course import Course, Record, finished_runs, records_of
from examples.finetune.intervals import sign_flip_p
from examples.finetune.measures import (
    arms_of,
    charged,
    difference,
    differences,
    distinct_tasks,
    effective_ratio,
    excess_log_loss,
    final_accuracy,
    mean_accuracy,
    mean_slope,
    most_visits,
    share_of_steps_to,
    steps_to,
)
from examples.finetune.plan import BASE, SMALL, Plan
from examples.finetune.table import tables, together


def course_of(accuracies: list[float], *, arm: str = BASE, seed: int = 0, references: int = 0) -> Course:
    """Return a run of 8 steps with 2 tasks each, of which fewer and fewer are effective."""
    evaluations = len(accuracies)
    return Course(
        seed=seed,
        arm=arm,
        accuracies=accuracies,
        by_group=[[accuracy] * 7 for accuracy in accuracies],
        pool_accuracies=accuracies,
        uniform_ratios=[0.4] * evaluations,
        slopes=[None, *[0.5 + 0.1 * place for place in range(evaluations - 1)]],
        log_losses=[0.7] * evaluations,
        least_losses=[0.4] * evaluations,
        solved=[8] * 8,
        effective=[2, 2, 2, 1, 1, 1, 0, 0],
        visits=[9, 0, 4, 3],
        reference_rollouts=references,
        seconds=0.4,
        cpu_seconds=0.3,
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


def test_a_line_that_was_not_written_to_its_end_is_taken_away(tmp_path: Path) -> None:
    file, record = tmp_path / "results.jsonl", record_of(course_of([0.1, 0.2]))
    line = record.as_line()
    for torn in ("", line[:1], line[: len(line) // 2], line[:-1]):
        file.write_text(line + torn)
        assert finished_runs(file, SMALL) == [record]
        assert file.read_text() == line
    assert finished_runs(tmp_path / "none.jsonl", SMALL) == []


def test_runs_of_another_plan_are_not_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text(record_of(course_of([0.1])).as_line())
    with pytest.raises(ValueError, match="has runs of another plan"):
        finished_runs(file, replace(SMALL, steps=SMALL.steps + 1))


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


def test_calibration_is_of_all_evaluations_that_have_it() -> None:
    course = course_of([0.1, 0.1, 0.1])
    assert mean_slope(course) == pytest.approx((0.5 + 0.6) / 2)
    assert excess_log_loss(course) == pytest.approx(0.3)


def test_steps_to_an_accuracy_are_read_between_evaluations() -> None:
    base = course_of([0.25] * 5)
    # The means of up to three evaluations are 0.1, 0.1, 0.1, 0.4, 0.7: 0.25 lies in the middle between the third and
    # fourth of five.
    assert share_of_steps_to(course_of([0.1, 0.1, 0.1, 1.0, 1.0]), base) == pytest.approx(2.5 / 4)
    assert share_of_steps_to(base, base) == 0
    assert share_of_steps_to(course_of([0.1] * 5), base) is None


def test_a_run_that_never_gets_there_counts_as_the_whole_course() -> None:
    base = course_of([0.25] * 5)
    assert steps_to(course_of([0.1] * 5), base) == 1
    assert steps_to(course_of([0.1, 0.1, 0.1, 1.0, 1.0]), base) == pytest.approx(2.5 / 4)


def test_references_that_count_move_the_course_to_later_steps() -> None:
    # 8 steps of 16 rollouts, evaluated 4 times after the start: 48 rollouts are one evaluation and a half.
    accuracies = [0.1, 0.2, 0.4, 0.5, 0.7]
    found = charged(course_of(accuracies, references=48), 16)
    assert found.accuracies == pytest.approx([0.1, 0.1, 0.15, 0.3, 0.45])
    assert charged(course_of(accuracies), 16).accuracies == pytest.approx(accuracies)
    assert charged(course_of(accuracies, references=10_000), 16).accuracies == pytest.approx([0.1] * 5)


@pytest.mark.parametrize(
    "values", [[0.01, 0.02, -0.005, 0.004], [0.3, 0.1, 0.2, 0.25, 0.4], [-1.0, 1.0, 2.0], [0.5, 0.2]]
)
def test_the_sign_flip_p_is_that_of_all_patterns(values: list[float]) -> None:
    expected = permutation_test(
        (np.array(values), np.zeros(len(values))),
        lambda first, second: np.mean(first - second),
        permutation_type="samples",
        vectorized=False,
        n_resamples=2**16,
    )
    assert sign_flip_p(values) == pytest.approx(expected.pvalue)


def test_a_mean_of_zero_says_nothing() -> None:
    assert sign_flip_p([0.25, -0.25]) == sign_flip_p([0.0, 0.0, 0.0]) == 1


def test_many_seeds_are_as_cheap() -> None:
    gains = [0.001 * (place + 1) for place in range(32)]
    # One loss as small as the least gain: it, the same with all signs turned, and the two patterns without a loss.
    assert sign_flip_p([-gains[0], *gains[1:]]) == 4 / 2**32


def test_sixteen_seeds_of_one_sign_have_the_least_p_there_is() -> None:
    assert sign_flip_p([0.001 * (place + 1) for place in range(16)]) == 2 / 2**16


def test_differences_are_paired_by_seed() -> None:
    ends = {0: (0.2, 0.3), 1: (0.5, 0.55), 2: (0.4, 0.6)}
    courses = [
        course_of([end], arm=arm, seed=seed)
        for seed, both in ends.items()
        for arm, end in zip((BASE, "pass"), both, strict=True)
    ]
    arms = arms_of([*courses, course_of([0.9], arm="pass", seed=7)])  # a seed that shuffle lacks
    found = difference(arms, "pass", mean_accuracy)
    bases, others = zip(*ends.values(), strict=True)
    expected = ttest_rel(others, bases).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((0.35 / 3, expected.low, expected.high))
    assert differences(arms, "pass", mean_accuracy) == pytest.approx([0.1, 0.05, 0.2])


def test_the_tables_show_every_seed_and_every_arm() -> None:
    courses = [
        course_of([0.1, 0.2 + gain], arm=arm, seed=seed, references=16 * (arm == "bots-r2"))
        for seed in (4, 3)
        for arm, gain in ((BASE, 0.0), ("pass", 0.1), ("bots-r2", -0.1))
    ]
    lines = tables(courses, SMALL).splitlines()
    first = lines.index("| seed | before | `shuffle` | `pass` | `bots-r2` |")
    assert lines[first + 2] == f"| 3 | 0.100 | {0.3 / 2:.4f} | {0.4 / 2:.4f} | {0.2 / 2:.4f} |"
    # Both seeds gain 0.05: of the four patterns of signs two are as far from 0.
    gained = "+0.0500 (+0.0500 to +0.0500) | 0.5000 | 2 of 2 | +0.1000 (+0.1000 to +0.1000)"
    assert any(line.startswith(f"| `pass` | 2 | {gained} |") for line in lines)
    assert "| `bots-r2` | 2 | 1.00 | 1.00 | 2 |" in lines
    # 16 rollouts are an eighth of a step with 128 of them.
    assert any(line.startswith("| `bots-r2` | 16 rollouts, 0 steps |") for line in lines)
    assert not any(line.startswith("| `pass` | 16 rollouts") for line in lines)


def test_seeds_of_two_comparisons_are_taken_together() -> None:
    ends = [{0: (0.2, 0.3), 1: (0.5, 0.55)}, {2: (0.4, 0.6), 3: (0.4, 0.35)}]
    comparisons = [
        arms_of(
            course_of([end], arm=arm, seed=seed)
            for seed, both in some.items()
            for arm, end in zip((BASE, "pass"), both, strict=True)
        )
        for some in ends
    ]
    gains = [0.1, 0.05, 0.2, -0.05]
    found = ttest_rel(gains, [0.0] * 4).confidence_interval(0.95)
    *_, row = together(comparisons, ["pass"])
    assert (
        row == f"| `pass` | 4 | +0.0750 ({found.low:+.4f} to {found.high:+.4f}) | {sign_flip_p(gains):.4f} | 3 of 4 |"
    )


def test_the_second_comparison_is_with_the_paper_s_belief() -> None:
    ends = {BASE: 0.2, "bots-r2": 0.3, "pass-r2": 0.4}
    lines = tables([course_of([end], arm=arm) for arm, end in ends.items()], SMALL).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("| minus `bots-r2` |"))
    assert lines[first + 2].startswith(f"| `pass-r2` | 1 | {0.4 - 0.3:+.4f} | 1.0000 | 1 of 1 |")
    assert lines[first + 3] == ""


def test_a_seed_that_an_arm_lacks_is_left_empty() -> None:
    courses = [course_of([0.1] * 2, seed=0), course_of([0.1] * 2, seed=1), course_of([0.3] * 2, arm="pass")]
    lines = tables(courses, SMALL).splitlines()
    assert "| 1 | 0.100 | 0.1000 |  |" in lines
    assert any(line.startswith("| `pass` | 1 | +0.2000 | 1.0000 | 1 of 1 |") for line in lines)
