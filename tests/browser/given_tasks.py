"""A dataset with predictions."""

import random

from bots_client import Client, Outcome, Task

PREDICTED = "predicted"
PREDICTORS = {"embedding": 0.3, "small-model": 0.1}  # by name: how far off they are, as a standard deviation
TASKS, ROLLOUTS, STEPS, COUNT = 240, 8, 40, 16


def train_with_predictions(url: str, steps: int = STEPS) -> None:
    """Create a dataset, put predictions of half and of all tasks, and train its run."""
    chance = random.Random(0)
    rates = {f"task-{number}": chance.random() for number in range(TASKS)}
    with Client(url) as client:
        client.create_dataset(
            PREDICTED, [Task(task) for task in rates], description="Two predictors, one of them good."
        )
        for covered, (name, off) in zip((TASKS // 2, TASKS), PREDICTORS.items(), strict=True):
            guesses = {task: min(max(chance.gauss(rate, off), 0), 1) for task, rate in list(rates.items())[:covered]}
            client.put_predictions(PREDICTED, name, guesses)
        for _ in range(steps):
            selection = client.select(PREDICTED, COUNT)
            outcomes = [Outcome.counts(task, solved(rates[task], chance), ROLLOUTS) for task in selection.ids]
            client.report(PREDICTED, outcomes, selection=selection)


def solved(rate: float, chance: random.Random) -> int:
    """Return how many of a task's rollouts succeed."""
    return sum(chance.random() < rate for _ in range(ROLLOUTS))
