"""Additions of numbers with up to seven digits: tasks of graded difficulty, and the program that checks answers.

Numbers stand with their last digit first, and are filled with zeros: 12 + 345 is "2100000+5430000=", its answer "753".
So a model can add from left to right, and what it learns of short numbers it can use for long ones.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

DIGITS = 7
LEVELS = range(1, DIGITS + 1)
SHORT = 60  # problems of one digit in the pool at most: there are only 100 in all


@dataclass(frozen=True, slots=True)
class Problem:
    """An addition; both numbers have as many digits as its level says."""

    level: int
    first: int
    second: int

    @property
    def id(self) -> str:
        """Its name in the pool."""
        return f"{self.first}+{self.second}"

    @property
    def prompt(self) -> str:
        """What the model reads."""
        return f"{backwards(self.first):0<{DIGITS}}+{backwards(self.second):0<{DIGITS}}="

    @property
    def answer(self) -> str:
        """What the model should write."""
        return backwards(self.first + self.second)


def backwards(number: int) -> str:
    """Return a number's digits, the last one first."""
    return str(number)[::-1]


def is_solved(completion: str, answer: str) -> bool:
    """Check a completion; the reward is 1 or 0."""
    return completion == answer


def drawn(rng: random.Random, level: int, *, but: Collection[Problem] = ()) -> Problem:
    """Return a random problem of a level that is not among others."""
    lowest = 10 ** (level - 1) if level > 1 else 0
    while True:
        problem = Problem(level, rng.randrange(lowest, 10**level), rng.randrange(lowest, 10**level))
        if problem not in but:
            return problem


def problems_of(seed: int, *, per_level: int, held_out_per_level: int) -> tuple[list[Problem], list[Problem]]:
    """Return a pool and the held-out problems of the same levels; no problem is in both, or twice."""
    sizes = {level: min(per_level, SHORT) if level == 1 else per_level for level in LEVELS}
    return problems_of_sizes(seed, sizes, held_out_per_level=held_out_per_level)


def problems_of_sizes(
    seed: int, sizes: Mapping[int, int], *, held_out_per_level: int
) -> tuple[list[Problem], list[Problem]]:
    """Return a pool with so many problems of each level, and held-out ones; no problem is in both, or twice."""
    rng = random.Random(seed)
    taken: set[Problem] = set()

    def some(level: int, count: int) -> list[Problem]:
        problems = []
        for _ in range(count):
            problems.append(drawn(rng, level, but=taken))
            taken.add(problems[-1])
        return problems

    held_out = [problem for level in LEVELS for problem in some(level, held_out_per_level)]
    return [problem for level, size in sizes.items() for problem in some(level, size)], held_out
