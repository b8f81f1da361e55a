"""What the finetuning run makes of its runs: measures, tables, groups and loops."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import bernoulli, permutation_test

from examples.finetune.calibration import calibration_of
from examples.finetune.course import Course, Record, finished_runs, records_of
from examples.finetune.intervals import sign_flip_p
from examples.finetune.measures import arms_of, charged, last_tenth, share_of_steps_to
from examples.finetune.plan import BASE, Plan
from examples.finetune.table import field_units

SMALL = Plan().made_small()


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


def test_steps_to_an_accuracy_are_read_between_evaluations() -> None:
    base = course_of([0.25] * 5)
    # The means of up to three evaluations are 0.1, 0.1, 0.1, 0.4, 0.7: 0.25 lies in the middle between the third and
    # fourth of five.
    assert share_of_steps_to(course_of([0.1, 0.1, 0.1, 1.0, 1.0]), base) == pytest.approx(2.5 / 4)
    assert share_of_steps_to(base, base) == 0
    assert share_of_steps_to(course_of([0.1] * 5), base) is None


def test_gains_are_told_in_steps_and_shares_of_what_shuffle_gains() -> None:
    # Smoothed, shuffle gains 0, 0.05, 0.1, 0.2, 0.3, the other twice that; three quarters of 0.3 are 0.225.
    base = course_of([0.1, 0.2, 0.3, 0.4, 0.5])
    other = course_of([0.1, 0.3, 0.5, 0.7, 0.9], arm="pass", references=48)
    assert share_of_steps_to(base, base, 0.75) == pytest.approx(3.25 / 4)
    assert share_of_steps_to(other, base, 0.75) == pytest.approx(2.125 / 4)
    assert last_tenth(other) == 0.9
    assert last_tenth(course_of([0.0] * 38 + [0.1, 0.2, 0.3, 0.4])) == pytest.approx(0.25)
    plan = Plan(steps=8, tasks_per_step=2, evaluate_every=2)
    rows = [row.strip("| ").split(" | ") for row in field_units(arms_of([base, other]), plan)][2:]
    assert [row[0] for row in rows] == ["`shuffle`", "`pass`", "`pass`, references counted"]
    assert rows[0][3:] == ["6", "7", "1.00", "1.00"]
    assert rows[1][3:] == ["4", "5", "2.00", "2.00"]
    assert rows[2][2:] == ["6", "7", "8", "0.90", "1.25"]


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


TRUTH = expit(np.random.default_rng(1).normal(0, 2, 300))


def test_the_truth_is_calibrated() -> None:
    found = calibration_of(TRUTH, TRUTH)
    assert found.slope == pytest.approx(1)
    assert found.log_loss == pytest.approx(found.least)
    assert found.least == pytest.approx(np.mean([bernoulli(p).entropy() for p in TRUTH]))


@pytest.mark.parametrize(("factor", "slope"), [(2.0, 0.5), (0.5, 2.0)])
def test_a_belief_that_is_too_sure_has_a_slope_below_one(factor: float, slope: float) -> None:
    believed = expit(factor * logit(TRUTH) + 0.3)
    found = calibration_of(believed, TRUTH)
    assert found.slope == pytest.approx(slope)
    expected = -np.mean(TRUTH * np.log(believed) + (1 - TRUTH) * np.log(1 - believed))
    assert found.log_loss == pytest.approx(expected)
    assert found.log_loss > found.least
