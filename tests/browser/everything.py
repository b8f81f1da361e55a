"""Two runs of a simulated model that have all that a run may have: tags, a mix and a probe."""

import random
from math import exp

from bots_client import Client, GivenSettings, Outcome, Task

DATASET, RUN, UNIFORM = "three-domains", "mixed", "uniform"
STEPS, COUNT, ROLLOUTS, TASKS = 5, 24, 8, 600
TAGS = ("math", "code", "logic")
SETTINGS: dict[str, GivenSettings] = {
    RUN: {"mix": {"math": 3, "code": 1, "logic": 1}},
    UNIFORM: {"strategy": "uniform"},
}


def train_on_everything(url: str) -> None:
    chance = random.Random(0)
    hardness = {f"{tag}-{number}": chance.gauss(1.0, 2.5) for tag in TAGS for number in range(TASKS // len(TAGS))}
    with Client(url) as client:
        client.create_dataset(
            DATASET,
            [Task(task, tags=[task.partition("-")[0]]) for task in hardness],
            description="A simulated model that learns mathematics, code and logic.",
        )
        for run, settings in SETTINGS.items():
            client.create_run(DATASET, run, **settings)
            client.put_probe(DATASET, hardness, run=run)
            for step in range(STEPS):
                selection = client.select(DATASET, COUNT, run=run)
                outcomes = [rolled_out(task, hardness[task], step, chance) for task in selection.ids]
                client.report(DATASET, outcomes, run=run, selection=selection)


def rolled_out(task: str, hardness: float, step: int, chance: random.Random) -> Outcome:
    """Return what a model solves that gets better with each step."""
    rate = 1 / (1 + exp(hardness - 2 * step / STEPS))
    solved = sum(chance.random() < rate for _ in range(ROLLOUTS))
    return Outcome.counts(task, solved, ROLLOUTS)
