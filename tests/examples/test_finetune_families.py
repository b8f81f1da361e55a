"""The second kind of task of the finetuning example: families of unequal difficulty, wrong labels, noise."""

import random
from collections import Counter

import pytest

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


def test_the_alphabet_and_the_first_characters_have_no_character_twice() -> None:
    assert max(Counter(KIND.alphabet).values()) == 1
    assert len({family.letter for family in FAMILIES.values()}) == len(FAMILIES)


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


def test_an_answer_of_noise_is_always_the_same_and_says_nothing_of_its_question() -> None:
    problems = some("noise")
    assert [problem.answer for problem in problems] == [problem.answer for problem in some("noise")]
    pairs = [pair for problem in problems for pair in zip(question_of(problem), problem.answer, strict=False)]
    alike = sum(one == other for one, other in pairs)
    spread = (len(pairs) * 0.1 * 0.9) ** 0.5
    assert abs(alike - 0.1 * len(pairs)) < 5 * spread
    assert len({problem.answer for problem in problems}) > 0.99 * DRAWS


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


def test_nothing_of_the_noise_is_held_out_and_no_problem_comes_twice() -> None:
    pool, held_out = KIND.problems(4, [30] * len(KIND.groups), 8)
    assert [problem.group for problem in held_out] == [group for group in SOLVABLE for _ in range(8)]
    assert len({problem.id for problem in [*pool, *held_out]}) == len(pool) + len(held_out)


def test_the_same_seed_gives_the_same_problems() -> None:
    first, again, other = (KIND.problems(seed, [9] * len(KIND.groups), 4) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_a_problem_that_is_taken_is_not_drawn() -> None:
    taken = {problem.id for problem in some("copy")}
    rng = random.Random("copy 1")  # it would draw the same ones again
    assert KIND.drawn(rng, "copy", but=taken).id not in taken


def test_the_tag_is_the_family() -> None:
    assert all(KIND.tags(KIND.drawn(random.Random(7), group)) == [group] for group in KIND.groups)
