"""What is run: sizes and rates, the same for every seed and both ways of choosing."""

from dataclasses import dataclass

ARMS = {"uniform": "uniform", "bots": "thompson"}  # the run's name: its strategy


@dataclass(frozen=True, slots=True)
class Plan:
    """One comparison. `docs/trainers/grpo_cpu.md` says how the values were found.

    steps: of GRPO, each with tasks_per_step tasks of rollouts rollouts.
    learning_rate: of GRPO.
    warm_up_steps: supervised steps at most, until the model begins to add; falling_steps: more, with a falling
        learning rate, for each of the two reference models.
    tasks_per_level: in the pool; held_out_per_level: tasks that only evaluations see.
    attempts: rollouts by which each reference model's pass rates are measured.
    evaluate_every: steps between two evaluations; held_out_attempts: rollouts of each held-out task in each of them.
    """

    steps: int = 800
    tasks_per_step: int = 16
    rollouts: int = 8
    learning_rate: float = 1e-4
    warm_up_steps: int = 1500
    falling_steps: int = 100
    tasks_per_level: int = 150
    held_out_per_level: int = 40
    attempts: int = 16
    evaluate_every: int = 20
    held_out_attempts: int = 4


# Shows that all parts work together, in well below five minutes; nothing is learned in so few steps.
SMALL = Plan(
    steps=40,
    warm_up_steps=100,
    falling_steps=10,
    tasks_per_level=12,
    held_out_per_level=4,
    attempts=4,
    evaluate_every=20,
)
