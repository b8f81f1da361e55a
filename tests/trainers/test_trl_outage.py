"""A training run by TRL whose service is killed on the way, and comes back on the same database."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from datasets import Dataset

from bots_client import Client, JournalEntry, ResilientClient, Selector
from bots_client.integrations.trl import SelectedGRPOTrainer
from examples.trl_grpo import GENERATIONS, config
from tests.serving import ServiceProcess, running_service
from tests.sizes import size
from tests.trainers import tiny

STEPS = size(16, 600)
KILLED_AT, BACK_AT = 4, size(10, 300)
TASKS = 8  # of a step
FLUSH_S = 60.0


@dataclass
class Crash:
    """The reward function, in which the service is killed and started; keeps what it saw.

    steps: of each step, how many tasks were effective and how many rollouts succeeded.
    """

    service: ServiceProcess
    steps: list[tuple[int, int]] = field(default_factory=list)
    __name__ = "crash"  # a trainer asks for it

    def __call__(self, completions: list[str], wanted: list[str], **_columns: object) -> list[float]:
        rewards = tiny.begins_well(completions, wanted)
        counts = [sum(rewards[first : first + GENERATIONS]) for first in range(0, len(rewards), GENERATIONS)]
        self.steps.append((sum(0 < count < GENERATIONS for count in counts), int(sum(counts))))
        if len(self.steps) == KILLED_AT:
            self.service.kill()
        if len(self.steps) == BACK_AT:
            self.service.start()
        return rewards


@dataclass(frozen=True)
class Trained:
    """A finished run: what the trainer saw, its client's health at the end, and the service's journal."""

    steps: list[tuple[int, int]]
    local_selects: int
    kept: int
    client: Client

    @property
    def reports(self) -> list[JournalEntry]:
        return [entry for entry in self.client.journal("letters") if entry.kind == "report"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("outage")
    with running_service(folder / "service") as service, Client(service.url) as direct:
        direct.create_dataset("letters", tiny.TASKS)
        yield train(service, direct, folder)


def train(service: ServiceProcess, direct: Client, folder: Path) -> Trained:
    crash = Crash(service)
    with ResilientClient(service.url, spool=folder / "spool") as client:
        trainer = SelectedGRPOTrainer(
            model=tiny.model(),
            reward_funcs=crash,
            args=config(str(folder / "out"), max_steps=STEPS),
            train_dataset=Dataset.from_list(tiny.ROWS),
            processing_class=tiny.tokenizer(),
            selector=Selector(client, "letters", ids=tiny.IDS),
        )
        trainer.train()
        kept = client.flush(FLUSH_S)
        return Trained(crash.steps, client.health.local_selects, kept, direct)


def test_training_goes_on_with_tasks_that_the_client_selects(trained: Trained) -> None:
    assert len(trained.steps) == STEPS
    assert trained.local_selects > 0


def test_every_report_is_in_the_journal_once(trained: Trained) -> None:
    # A step may come in two entries: a task chosen while the service was away may be in flight from before, too.
    assert trained.kept == 0
    assert sum(entry.closed is True for entry in trained.reports) == STEPS
    assert sum(entry.tasks or 0 for entry in trained.reports) == STEPS * TASKS
    assert sum(entry.rollouts or 0 for entry in trained.reports) == STEPS * TASKS * GENERATIONS


def test_every_step_counts_as_it_was(trained: Trained) -> None:
    history = trained.client.history("letters")
    seen = [(step.reported, step.effective, round((step.mean_pass_rate or 0.0) * step.rollouts)) for step in history]
    assert Counter(seen) == Counter((TASKS, *step) for step in trained.steps)
