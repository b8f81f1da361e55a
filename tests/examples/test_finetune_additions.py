"""The additions of the finetuning example."""

import random

import pytest

from examples.finetune.additions import DIGITS, Additions, addition

KIND = Additions()


def test_numbers_stand_backwards_and_filled_up() -> None:
    problem = addition(120, 345, "3")
    assert problem.prompt == "0210000+5430000="
    assert problem.answer == "564"


@pytest.mark.parametrize("group", KIND.groups)
def test_both_numbers_of_a_problem_have_its_level_of_digits(group: str) -> None:
    problem = KIND.drawn(random.Random(group), group)
    first, second = problem.id.split("+")
    assert len(first) == len(second) == int(group) <= DIGITS
    assert int(problem.answer[::-1]) == int(first) + int(second)


def test_the_same_seed_gives_the_same_problems() -> None:
    first, again, other = (KIND.problems(seed, [5] * DIGITS, 5) for seed in (3, 3, 4))
    assert first == again
    assert first != other
