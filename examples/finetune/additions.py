"""Additions of numbers with up to seven digits: tasks of graded difficulty.

Numbers stand with their last digit first, and are filled with zeros: 12 + 345 is "2100000+5430000=", its answer "753".
So a model can add from left to right, and what it learns of short numbers it can use for long ones.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from examples.finetune.tasks import Problem, mislabelled, noise, some_of

DIGITS = 7
GRADED = range(3, DIGITS + 1)  # digits of the problems that a model of `Real` learns in its course


class Additions:
    """The kind; a group is a number of digits, which both numbers of a problem have."""

    alphabet = "0123456789+="
    groups = tuple(str(digits) for digits in range(1, DIGITS + 1))

    def drawn(self, rng: random.Random, group: str, *, but: Collection[str] = ()) -> Problem:
        """Return a random problem of a group whose id is not among others."""
        digits = int(group)
        lowest = 10 ** (digits - 1) if digits > 1 else 0
        while True:
            problem = addition(rng.randrange(lowest, 10**digits), rng.randrange(lowest, 10**digits), group)
            if problem.id not in but:
                return problem

    def problems(self, seed: int, sizes: Sequence[int], held_out: int) -> tuple[list[Problem], list[Problem]]:
        """Return a pool and held-out problems; no problem is in both, or twice."""
        rng, taken = random.Random(seed), set[str]()

        def draw(group: str, but: Collection[str]) -> Problem:
            return self.drawn(rng, group, but=but)

        others = [problem for group in self.groups for problem in some_of(draw, group, held_out, taken)]
        of_groups = zip(self.groups, sizes, strict=True)
        return [problem for group, size in of_groups for problem in some_of(draw, group, size, taken)], others

    def tags(self, problem: Problem) -> list[str]:
        """Return the number of digits."""
        return [f"{problem.group} digits"]


class Real(Additions):
    """A pool as real ones are: additions that are solved already, graded ones, and tasks that nobody can solve.

    These are "wrong", additions with a wrong digit in the answer, and "noise", a sign that no lesson explains. Only the
    graded ones are held out. Tags are the number of digits, of which impossible tasks have as many as graded ones.
    """

    alphabet = Additions.alphabet + "*"
    groups = (*Additions.groups, "wrong", "noise")

    def drawn(self, rng: random.Random, group: str, *, but: Collection[str] = ()) -> Problem:
        """Return a random problem of a group whose id is not among others."""
        if group in Additions.groups:
            return super().drawn(rng, group, but=but)
        problem = super().drawn(rng, str(rng.choice(GRADED)), but=but)
        if group == "wrong":
            return replace(mislabelled(rng, problem), group=group)
        name = problem.id.replace("+", "*")
        prompt = problem.prompt.replace("+", "*")
        return Problem(name, prompt, noise(name, len(problem.answer)), group)

    def problems(self, seed: int, sizes: Sequence[int], held_out: int) -> tuple[list[Problem], list[Problem]]:
        """Return a pool and held-out problems, graded ones; no problem is in both, or twice."""
        pool, others = super().problems(seed, sizes, held_out)
        return pool, [problem for problem in others if problem.group in map(str, GRADED)]

    def tags(self, problem: Problem) -> list[str]:
        """Return the number of digits."""
        return [f"{len(problem.id.replace('*', '+').partition('+')[0])} digits"]


def addition(first: int, second: int, group: str) -> Problem:
    """Return the problem of adding two numbers."""
    prompt = f"{backwards(first):0<{DIGITS}}+{backwards(second):0<{DIGITS}}="
    return Problem(f"{first}+{second}", prompt, backwards(first + second), group)


def backwards(number: int) -> str:
    """Return a number's digits, the last one first."""
    return str(number)[::-1]
