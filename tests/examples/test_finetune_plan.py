"""What the finetuning command runs, and in which order."""

import pytest
import typer

from examples.finetune.__main__ import arms_named, seeds_named
from examples.finetune.jobs import Job, runs_of, with_warm_ups
from examples.finetune.kinds import KINDS, problems_of
from examples.finetune.plan import ARMS, BASE, COMPARISONS, SMALL, Plan
from examples.finetune.tasks import ANSWER_CHARACTERS, PROMPT_CHARACTERS


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


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_problem_fits_the_model(name: str) -> None:
    plan = COMPARISONS[name].small
    pool, held_out = problems_of(plan, 3)
    alphabet = set(KINDS[plan.kind].alphabet)
    for problem in (*pool, *held_out):
        assert len(problem.prompt) == PROMPT_CHARACTERS
        assert 1 <= len(problem.answer) <= ANSWER_CHARACTERS
        assert set(problem.prompt + problem.answer) <= alphabet
    assert len({problem.id for problem in (*pool, *held_out)}) == len(pool) + len(held_out)


def test_a_third_of_the_additions_is_nearly_hopeless() -> None:
    assert Plan().pool[-1] / sum(Plan().pool) == pytest.approx(0.29, abs=0.005)


def test_references_cost_what_two_models_try() -> None:
    assert Plan().reference_rollouts == 30_720 == 240 * Plan().tasks_per_step * Plan().rollouts


def test_the_main_arms_run_first_seed_by_seed() -> None:
    runs = runs_of(COMPARISONS["additions"], None, list(COMPARISONS["additions"].seeds))
    assert len(runs) == len(set(runs)) == 3 * 16 + 5 * 8 + 3
    assert runs[:4] == [Job(20, BASE), Job(20, "bots-r2"), Job(20, "pass-r2"), Job(21, BASE)]
    assert {run.arm for run in runs[:48]} == set(COMPARISONS["additions"].main)
    assert [run.seed for run in runs[48:]] == sorted(run.seed for run in runs[48:])


def test_seeds_that_are_named_run_with_every_arm_that_is_named() -> None:
    runs = runs_of(COMPARISONS["additions"], [3, 4], ["oracle", BASE])
    assert runs == [Job(3, BASE), Job(4, BASE), Job(3, "oracle"), Job(4, "oracle")]


def test_a_warm_up_comes_just_before_a_seed_s_first_run() -> None:
    runs = [Job(3, BASE), Job(4, BASE), Job(3, "oracle")]
    assert with_warm_ups(runs) == [Job(3), runs[0], Job(4), runs[1], runs[2]]


@pytest.mark.parametrize(("text", "seeds"), [("", []), ("7", [7]), ("20-23", [20, 21, 22, 23]), ("1,4-5,4", [1, 4, 5])])
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert seeds_named(text) == seeds


@pytest.mark.parametrize("text", ["a", "3-", "-3", "1-b", "2,x"])
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        seeds_named(text)


def test_arms_are_those_of_the_plan() -> None:
    assert arms_named("", ["shuffle", "pass"]) == ["shuffle", "pass"]
    assert arms_named(" pass,pass", ["shuffle", "pass"]) == ["pass"]
    with pytest.raises(typer.BadParameter, match="nearest"):
        arms_named("nearest", ["shuffle", "pass"])


def test_small_runs_have_all_parts() -> None:
    assert SMALL.evaluations > 2
    assert SMALL.reference_rollouts > 0
