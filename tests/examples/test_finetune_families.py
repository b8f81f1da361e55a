"""The tasks of the finetuning example: additions, families of unequal difficulty, and a pool as real ones are."""

import random
from collections.abc import Callable

import pytest

from examples.finetune.additions import DIGITS, Additions, Real, addition
from examples.finetune.families import FAMILIES, Families, is_mislabelled
from examples.finetune.plan import COMPARISONS
from examples.finetune.tasks import ANSWER_CHARACTERS, PROMPT_CHARACTERS

KIND = Families()
DRAWS = 300


def number_of(digits: str) -> int:
    """Return a number whose last digit comes first."""
    return int(digits[::-1])


def calculated(sign: str, factor: int) -> Callable[[str], str]:
    """Return how two numbers on both sides of a sign are added or subtracted."""

    def answer(question: str) -> str:
        first, second = map(number_of, question.split(sign))
        assert first >= second
        return str(first + factor * second)[::-1]

    return answer


ANSWERS: dict[str, Callable[[str], str]] = {
    "copy": str,
    "reverse": lambda question: question[::-1],
    "sort": lambda question: "".join(sorted(question)),
    "largest": max,
    "modulo": lambda question: str(sum(map(int, question)) % 10),
    "add": calculated("+", 1),
    "subtract": calculated("-", -1),
}


@pytest.mark.parametrize("group", KIND.groups)
def test_a_family_s_answers_follow_its_rule_and_have_the_model_s_length_and_characters(group: str) -> None:
    assert FAMILIES[group].solvable == (group in ANSWERS)
    rng = random.Random(group)
    for problem in (KIND.drawn(rng, group) for _ in range(DRAWS)):
        question = problem.prompt[1:-1].rstrip(".")  # between the letter and the dots
        assert len(problem.prompt) == PROMPT_CHARACTERS
        assert 1 <= len(problem.answer) <= ANSWER_CHARACTERS
        assert set(problem.prompt + problem.answer) <= set(KIND.alphabet)
        assert problem.id == FAMILIES[group].letter + question
        assert group not in ANSWERS or problem.answer == ANSWERS[group](question)


def test_a_tenth_of_every_family_that_can_be_solved_has_a_wrong_digit() -> None:
    sizes = range(20, 20 + len(KIND.groups))
    pool, held_out = KIND.problems(3, sizes, 5)
    for group, size in zip(KIND.groups, sizes, strict=True):
        own = [problem for problem in pool if problem.group == group]
        wrong = [problem for problem in own if is_mislabelled(problem)]
        assert len(own) == size
        assert len(wrong) == (size // 10 if group in ANSWERS else 0)
        for problem in wrong:
            right = FAMILIES[group].answer(problem.prompt[1:-1].rstrip("."))
            assert sum(one != other for one, other in zip(problem.answer, right, strict=True)) == 1
    assert not any(map(is_mislabelled, held_out))


def test_a_third_of_a_real_pool_has_an_answer_that_does_not_follow_and_only_graded_problems_are_held_out() -> None:
    plan = COMPARISONS["real"].plan
    pool, held_out = Real().problems(3, plan.pool, 5)
    sums = [sum(map(int, problem.id.replace("*", "+").split("+"))) for problem in pool]
    impossible = [problem for problem, right in zip(pool, sums, strict=True) if number_of(problem.answer) != right]
    assert len(impossible) == len(pool) / 3 == sum(problem.group in {"wrong", "noise"} for problem in pool)
    assert sum("*" in problem.id for problem in impossible) == 0.9 * len(impossible)
    assert {tag for problem in impossible for tag in Real().tags(problem)} == {
        f"{digits} digits" for digits in range(3, 8)
    }
    assert [problem.group for problem in held_out] == [str(digits) for digits in range(3, 8) for _ in range(5)]
    assert all(set(problem.prompt + problem.answer) <= set(Real.alphabet) for problem in pool)


@pytest.mark.parametrize("group", Additions().groups)
def test_both_numbers_of_a_problem_have_its_level_of_digits(group: str) -> None:
    problem = Additions().drawn(random.Random(group), group)
    first, second = problem.id.split("+")
    assert len(first) == len(second) == int(group) <= DIGITS
    assert number_of(problem.answer) == int(first) + int(second)
    assert addition(120, 345, "3").prompt == "0210000+5430000="  # backwards and filled up


def test_the_same_seed_gives_the_same_problems() -> None:
    first, again, other = (Additions().problems(seed, [5] * DIGITS, 5) for seed in (3, 3, 4))
    assert first == again
    assert first != other
