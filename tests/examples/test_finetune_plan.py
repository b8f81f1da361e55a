"""What the finetuning command runs, in which order, and what it says before it trains."""

from pathlib import Path

import pytest

from examples.finetune.__main__ import seeds_named
from examples.finetune.jobs import Job, runs_of
from examples.finetune.kinds import KINDS
from examples.finetune.plan import ARMS, BASE, COMPARISONS


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_registered_arms_are_known_and_begin_with_shuffle(name: str) -> None:
    comparison = COMPARISONS[name]
    assert next(iter(comparison.seeds)) == BASE
    assert set(comparison.seeds) <= set(ARMS)
    assert all(set(seeds) <= set(comparison.seeds[BASE]) for seeds in comparison.seeds.values())


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_small_plan_has_the_groups_of_the_full_one(name: str) -> None:
    comparison = COMPARISONS[name]
    groups = KINDS[comparison.plan.kind].groups
    assert comparison.small.kind == comparison.plan.kind
    assert len(comparison.plan.pool) == len(comparison.small.pool) == len(comparison.plan.lessons.shares) == len(groups)


def test_the_main_arms_run_first_seed_by_seed() -> None:
    runs = runs_of(COMPARISONS["additions"], None, list(COMPARISONS["additions"].seeds))
    assert len(runs) == len(set(runs)) == 3 * 16 + 5 * 8 + 3
    assert runs[:4] == [Job(20, BASE), Job(20, "bots-r2"), Job(20, "pass-r2"), Job(21, BASE)]
    assert {run.arm for run in runs[:48]} == set(COMPARISONS["additions"].main)
    assert [run.seed for run in runs[48:]] == sorted(run.seed for run in runs[48:])


def test_seeds_that_are_named_run_with_every_arm_that_is_named() -> None:
    runs = runs_of(COMPARISONS["additions"], [3, 4], ["oracle", BASE])
    assert runs == [Job(3, BASE), Job(4, BASE), Job(3, "oracle"), Job(4, "oracle")]


@pytest.mark.parametrize(("text", "seeds"), [("", []), ("7", [7]), ("20-23", [20, 21, 22, 23]), ("1,4-5,4", [1, 4, 5])])
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert seeds_named(text) == seeds


ROOT = Path(__file__).parents[2]
