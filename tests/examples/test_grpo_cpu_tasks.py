"""The tasks of the finetuning example."""

import random

import pytest

from examples.grpo_cpu.tasks import DIGITS, LEVELS, Problem, drawn, is_solved, problems_of


def test_numbers_stand_backwards_and_filled_up() -> None:
    problem = Problem(3, 120, 345)
    assert problem.prompt == "0210000+5430000="
    assert problem.answer == "564"


@pytest.mark.parametrize("level", LEVELS)
def test_both_numbers_of_a_problem_have_its_level_of_digits(level: int) -> None:
    problem = drawn(random.Random(level), level)
    assert [len(str(number)) for number in (problem.first, problem.second)] == [level, level]
    assert len(problem.prompt) == 2 * DIGITS + 2


def test_no_problem_is_held_out_and_in_the_pool_or_twice_anywhere() -> None:
    pool, held_out = problems_of(0, per_level=150, held_out_per_level=40)
    assert len(pool) == 60 + 6 * 150
    assert len(held_out) == 7 * 40
    assert len({problem.id for problem in [*pool, *held_out]}) == len(pool) + len(held_out)


def test_the_same_seed_gives_the_same_problems() -> None:
    first, again, other = (problems_of(seed, per_level=5, held_out_per_level=5) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("completion", ["", "56", "5640", "564 ", "465"])
def test_only_the_whole_answer_counts(completion: str) -> None:
    assert not is_solved(completion, "564")
    assert is_solved("564", "564")
