"""What a kind of belief owes the rest of the service."""

from typing import Protocol

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.pool import Pool


class Belief(Protocol):
    """How likely the model in training is to solve each task of a pool, as Beta distributions.

    Tasks without evidence of their own share the belief of their profile: they are exchangeable.
    """

    @property
    def apart(self) -> Tasks:
        """Sorted tasks with evidence of their own; all others follow their profile."""
        ...

    def of_profiles(self, pool: Pool) -> tuple[Floats, Floats]:
        """Return alpha and beta, each [G], of the tasks of each profile that have no evidence of their own."""
        ...

    def of_apart(self, pool: Pool) -> tuple[Floats, Floats]:
        """Return alpha and beta, each [T], of the tasks apart."""
        ...

    def of_tasks(self, pool: Pool, tasks: Tasks) -> tuple[Floats, Floats]:
        """Return alpha and beta, each [n], of the given tasks."""
        ...
