"""The example's own loop and TRL's, on the same seeds."""

from dataclasses import replace

import pytest
from scipy.stats import ttest_rel

from examples.finetune.course import Record
from examples.finetune.loops import loops_table
from examples.finetune.plan import BASE, COMPARISONS, Plan
from tests.examples.test_finetune_results import course_of

OWN, TRL = COMPARISONS["additions"].plan, replace(COMPARISONS["trl"].plan, steps=40)


def records(plan: Plan, finals: dict[int, tuple[float, float]], *, evaluations: int) -> list[Record]:
    return [
        Record("abc", {}, plan, course_of([0.5, value, value, *[0.9] * (evaluations - 3)], arm=arm, seed=seed))
        for seed, pair in finals.items()
        for arm, value in zip((BASE, "pass-r2"), pair, strict=True)
    ]


def test_the_longer_runs_are_cut_to_the_steps_of_the_shorter_ones() -> None:
    own = records(OWN, {1: (0.6, 0.63), 2: (0.5, 0.56), 3: (0.1, 0.2)}, evaluations=OWN.evaluations)
    trl = records(TRL, {1: (0.6, 0.66), 2: (0.7, 0.64)}, evaluations=TRL.evaluations)

    text = loops_table(own, trl).splitlines()

    mean = (0.5 + 0.6 + 0.6) / 3
    other = (0.5 + 0.63 + 0.63) / 3
    assert f"| torch | 1 | {mean:.4f} | {other:.4f} | {other - mean:+.4f} |  |" in text
    found = ttest_rel([0.02, 0.04], [0, 0]).confidence_interval(0.95)
    assert f"| torch | all |  |  | +0.0300 ({found.low:+.4f} to {found.high:+.4f}) | 0.5000 |" in text
    assert not any(row.startswith("| torch | 3 |") for row in text)
    assert text[-1].endswith("| 1.0000 |")  # one seed above, one as far below


def test_loops_that_were_not_evaluated_as_often_are_refused() -> None:
    own = records(replace(OWN, evaluate_every=10), {1: (0.6, 0.63)}, evaluations=41)
    trl = records(TRL, {1: (0.6, 0.66)}, evaluations=TRL.evaluations)
    with pytest.raises(ValueError, match="not evaluated as often"):
        loops_table(own, trl)
