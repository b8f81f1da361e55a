"""One reward for a rollout that its trainer split into several samples."""

import logging
from collections.abc import Callable, Sequence

from bots_client._inputs import reward_of
from bots_client._resilience.connection import Reminder
from bots_client.integrations.rewards import counted

EQUAL = 1e-9  # rewards that differ by no more are equal; the service's value
WAYS: dict[str, Callable[[Sequence[float]], float]] = {"sum": sum, "last": lambda values: values[-1], "max": max}

logger = logging.getLogger("bots_client")


class SplitRollouts:
    """Makes one reward of those of a rollout's samples, such as its sub-agents' or the parts around a compaction.

    Args:
        rollout_reward: "sum", for rewards that are divided among the samples, "last" or "max". None: equal ones are
            one; where they differ the last one counts, and this is logged.
        option: what the trainer's configuration calls it, for messages.

    Raises:
        ValueError: rollout_reward is none of these.
    """

    def __init__(self, rollout_reward: str | None, *, option: str) -> None:
        if rollout_reward not in (None, *WAYS):
            raise ValueError(f"{option} is {rollout_reward!r}; pass {', '.join(WAYS)}, or leave it out")
        self._way = rollout_reward
        self._option = option
        self._said = Reminder()

    def reward(self, samples: Sequence[object]) -> float | None:
        """Return the reward of a rollout; None if a sample has none, so that the rollout is left out.

        Raises:
            ValueError: a reward is not a number.
        """
        values = [value for value in map(reward_of, samples) if value is not None]
        if not values or len(values) < len(samples):
            return None
        if self._way is None and max(values) - min(values) > EQUAL and self._said.is_due(self._option):
            logger.warning(
                "the samples of a rollout have different rewards, such as %s: the last one counts; set %s to %s to say"
                " which it is",
                ", ".join(f"{value:g}" for value in values[:8]),
                self._option,
                " or ".join(WAYS),
            )
        return WAYS[self._way or "last"](values)

    def measured(
        self, rewards: Sequence[Sequence[object]], successes: Sequence[Sequence[object]] | None
    ) -> tuple[list[float | None], float | None]:
        """Return the reward of each rollout of a group, None for one that is left out, and the number of successes.

        Args:
            rewards: of the samples of each rollout.
            successes: the same; None: the rewards say how far the task was solved, and no number is returned.
        """
        of_rollouts = [self.reward(samples) for samples in rewards]
        if successes is None:
            return of_rollouts, None
        return counted(zip(of_rollouts, map(self.success, successes), strict=True))

    def success(self, samples: Sequence[object]) -> float | None:
        """Return the success of a rollout, in [0, 1]: the samples have it whole, or in parts."""
        success = self.reward(samples)
        return success if success is None or self._way != "sum" else min(1.0, success)
