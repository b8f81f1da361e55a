"""The tasks of the finetuning example: additions, and families of unequal difficulty, with wrong labels and noise."""

import random
from collections import Counter

import pytest

from examples.finetune.additions import DIGITS, Additions, addition
from examples.finetune.families import FAMILIES, Families, is_mislabelled
from examples.finetune.tasks import ANSWER_CHARACTERS, PROMPT_CHARACTERS, Problem

KIND = Families()
SOLVABLE = [group for group in KIND.groups if FAMILIES[group].solvable]
DRAWS = 300


def some(group: str, seed: int = 1) -> list[Problem]:
    rng = random.Random(f"{group} {seed}")
    return [KIND.drawn(rng, group) for _ in range(DRAWS)]


def question_of(problem: Problem) -> str:
    """Return what stands between the letter and the dots."""
    return problem.prompt[1:-1].rstrip(".")


def number_of(digits: str) -> int:
    """Return a number whose last digit comes first."""
    return sum(int(digit) * 10**place for place, digit in enumerate(digits))


@pytest.mark.parametrize("group", KIND.groups)
def test_prompts_and_answers_have_the_model_s_length_and_characters(group: str) -> None:
    for problem in some(group):
        assert len(problem.prompt) == PROMPT_CHARACTERS
        assert 1 <= len(problem.answer) <= ANSWER_CHARACTERS
        assert set(problem.prompt + problem.answer) <= set(KIND.alphabet)
        assert problem.id == FAMILIES[group].letter + question_of(problem)


def test_lists_of_digits_are_copied_reversed_and_sorted() -> None:
    assert all(problem.answer == question_of(problem) for problem in some("copy"))
    assert all(list(problem.answer) == list(reversed(question_of(problem))) for problem in some("reverse"))
    for problem in some("sort"):
        assert Counter(problem.answer) == Counter(question_of(problem))
        assert all(one <= other for one, other in zip(problem.answer, problem.answer[1:], strict=False))


def test_the_largest_digit_and_the_sum_modulo_10_have_one_character() -> None:
    for problem in some("largest"):
        assert all(digit <= problem.answer for digit in question_of(problem))
        assert problem.answer in question_of(problem)
    for problem in some("modulo"):
        total = sum(int(digit) for digit in question_of(problem))
        assert (total - int(problem.answer)) % 10 == 0


@pytest.mark.parametrize(("group", "sign", "factor"), [("add", "+", 1), ("subtract", "-", -1)])
def test_numbers_are_calculated_with_from_their_last_digit(group: str, sign: str, factor: int) -> None:
    for problem in some(group):
        first, second = map(number_of, question_of(problem).split(sign))
        assert first >= second
        assert number_of(problem.answer) == first + factor * second
        assert problem.answer == "0" or not problem.answer.endswith("0")


def test_a_tenth_of_every_family_that_can_be_solved_has_a_wrong_digit() -> None:
    sizes = range(20, 20 + len(KIND.groups))
    pool, held_out = KIND.problems(3, sizes, 5)
    for group, size in zip(KIND.groups, sizes, strict=True):
        own = [problem for problem in pool if problem.group == group]
        wrong = [problem for problem in own if is_mislabelled(problem)]
        assert len(own) == size
        assert len(wrong) == (size // 10 if group in SOLVABLE else 0)
        for problem in wrong:
            right = FAMILIES[group].answer(question_of(problem))
            assert sum(one != other for one, other in zip(problem.answer, right, strict=True)) == 1
    assert not any(map(is_mislabelled, held_out))


ADDITIONS = Additions()


def test_numbers_stand_backwards_and_filled_up() -> None:
    problem = addition(120, 345, "3")
    assert problem.prompt == "0210000+5430000="
    assert problem.answer == "564"


@pytest.mark.parametrize("group", ADDITIONS.groups)
def test_both_numbers_of_a_problem_have_its_level_of_digits(group: str) -> None:
    problem = ADDITIONS.drawn(random.Random(group), group)
    first, second = problem.id.split("+")
    assert len(first) == len(second) == int(group) <= DIGITS
    assert int(problem.answer[::-1]) == int(first) + int(second)


def test_the_same_seed_gives_the_same_problems() -> None:
    first, again, other = (ADDITIONS.problems(seed, [5] * DIGITS, 5) for seed in (3, 3, 4))
    assert first == again
    assert first != other
