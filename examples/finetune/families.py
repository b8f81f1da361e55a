"""Eight families of small problems: seven of unequal difficulty, and one that nobody can solve.

A prompt is the family's letter, a question filled up to 14 characters with dots, and "=": the problem of reversing
123 is "r123...........=", its answer "321". In a pool, a tenth of the tasks of every family that can be solved has a
wrong answer for the right one, as pools that people collect have; held-out problems all have the right one.
"""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from examples.finetune.tasks import DIGITS, PROMPT_CHARACTERS, Problem, mislabelled, noise, some_of

QUESTION_CHARACTERS = PROMPT_CHARACTERS - 2  # without the letter and "="
LONGEST = 6  # digits of a number to calculate with
MISLABELLED = 10  # one of so many tasks of a family

Draw = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class Family:
    """Problems of one sort.

    letter: the first of each prompt.
    question: draws what stands between the letter and the dots; answer: what is right then.
    solvable: whether anything can be learned of it.
    """

    letter: str
    question: Draw
    answer: Callable[[str], str]
    solvable: bool = True


def digits_of(least: int, most: int) -> Draw:
    """Return what draws so many digits."""
    return lambda rng: "".join(rng.choices(DIGITS, k=rng.randint(least, most)))


def calculation(sign: str) -> Draw:
    """Return what draws two numbers of as many digits, the larger one first; see `backwards`."""

    def draw(rng: random.Random) -> str:
        digits = rng.randint(1, LONGEST)
        lowest = 10 ** (digits - 1) if digits > 1 else 0
        smaller, larger = sorted(rng.randrange(lowest, 10**digits) for _ in range(2))
        return sign.join(f"{backwards(number):0<{LONGEST}}" for number in (larger, smaller))

    return draw


def backwards(number: int) -> str:
    """Return a number's digits, the last one first, so that a model can calculate from left to right."""
    return str(number)[::-1]


def numbers_of(question: str, sign: str) -> tuple[int, int]:
    """Return the two numbers of a calculation."""
    larger, smaller = question.split(sign)
    return int(larger[::-1]), int(smaller[::-1])


FAMILIES = {
    "copy": Family("c", digits_of(2, 8), str),
    "reverse": Family("r", digits_of(2, 8), lambda digits: digits[::-1]),
    "sort": Family("s", digits_of(2, 8), lambda digits: "".join(sorted(digits))),
    "largest": Family("l", digits_of(3, 12), max),
    "modulo": Family("m", digits_of(2, 6), lambda digits: str(sum(map(int, digits)) % 10)),
    "add": Family("a", calculation("+"), lambda question: backwards(sum(numbers_of(question, "+")))),
    "subtract": Family("d", calculation("-"), lambda question: backwards(int.__sub__(*numbers_of(question, "-")))),
    "noise": Family("x", digits_of(8, 8), lambda question: noise(question, 6), solvable=False),
}


class Families:
    """The kind; a group is a family."""

    alphabet = f"{DIGITS}+-.={''.join(family.letter for family in FAMILIES.values())}"
    groups = tuple(FAMILIES)

    def drawn(self, rng: random.Random, group: str, *, but: Collection[str] = ()) -> Problem:
        """Return a random problem of a family, labelled right, whose id is not among others."""
        family = FAMILIES[group]
        while True:
            question = family.question(rng)
            name = f"{family.letter}{question}"
            if name not in but:
                return Problem(name, f"{name:.<{QUESTION_CHARACTERS + 1}}=", family.answer(question), group)

    def problems(self, seed: int, sizes: Sequence[int], held_out: int) -> tuple[list[Problem], list[Problem]]:
        """Return a pool and held-out problems, none of the family that nobody can solve; no problem comes twice."""
        rng, taken = random.Random(seed), set[str]()

        def draw(group: str, but: Collection[str]) -> Problem:
            return self.drawn(rng, group, but=but)

        solvable = [group for group in self.groups if FAMILIES[group].solvable]
        others = [problem for group in solvable for problem in some_of(draw, group, held_out, taken)]
        pool = []
        for group, size in zip(self.groups, sizes, strict=True):
            own = some_of(draw, group, size, taken)
            wrong = size // MISLABELLED if group in solvable else 0
            pool += [*(mislabelled(rng, problem) for problem in own[:wrong]), *own[wrong:]]
        return pool, others

    def tags(self, problem: Problem) -> list[str]:
        """Return the family."""
        return [problem.group]


def is_mislabelled(problem: Problem) -> bool:
    """Tell whether a problem of a family has a wrong answer for the right one."""
    family = FAMILIES[problem.group]
    return problem.answer != family.answer(problem.id[1:])
