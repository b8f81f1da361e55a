"""What a model is asked: problems of one kind, in groups of unequal difficulty.

Every prompt has 16 characters, and every answer at most 8, so that no prompt needs filling.
"""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

PROMPT_CHARACTERS, ANSWER_CHARACTERS = 16, 8
DIGITS = "0123456789"


@dataclass(frozen=True, slots=True)
class Problem:
    """A question that has one right answer.

    id: its name in the pool; no two problems of a kind share one.
    prompt: what the model reads; answer: what it should write.
    group: the level or family it belongs to.
    """

    id: str
    prompt: str
    answer: str
    group: str


class Kind(Protocol):
    """A kind of task."""

    @property
    def alphabet(self) -> str:
        """Every character of prompts and answers, once."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The levels or families."""

    def drawn(self, rng: random.Random, group: str, *, but: Collection[str] = ()) -> Problem:
        """Return a random problem of a group, labelled right, whose id is not among others."""

    def problems(self, seed: int, sizes: Sequence[int], held_out: int) -> tuple[list[Problem], list[Problem]]:
        """Return a pool and held-out problems; no problem is in both, or twice.

        Args:
            seed: of every draw.
            sizes: how many problems of each group the pool has.
            held_out: how many of each group are held out. They come group by group.
        """

    def tags(self, problem: Problem) -> list[str]:
        """Return what a user could say of a problem without trying it."""


def some_of(draw: Callable[[str, Collection[str]], Problem], group: str, count: int, taken: set[str]) -> list[Problem]:
    """Return so many problems of a group whose ids are not taken yet, and take them."""
    found = []
    for _ in range(count):
        found.append(draw(group, taken))
        taken.add(found[-1].id)
    return found


def mislabelled(rng: random.Random, problem: Problem) -> Problem:
    """Return a problem with one digit of its answer replaced by another."""
    place = rng.randrange(len(problem.answer))
    other = rng.choice([digit for digit in DIGITS if digit != problem.answer[place]])
    return replace(problem, answer=f"{problem.answer[:place]}{other}{problem.answer[place + 1 :]}")


def noise(question: str, length: int) -> str:
    """Return an answer that says nothing of its question: digits from a generator with the question as its seed."""
    return "".join(random.Random(f"noise {question}").choices(DIGITS, k=length))
