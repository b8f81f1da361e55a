"""One training run by TRL's GRPOTrainer, from the same warm-up, on the same tasks, with the same exact evaluation."""

import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import LlamaForCausalLM, PrinterCallback, TrainerCallback, logging
from trl import GRPOConfig

from bots_client import Client, ResilientClient, Selection, Selector
from bots_client.integrations.trl import SelectedGRPOTrainer
from examples.finetune.choosers import Choice, ServiceChooser
from examples.finetune.course import Course
from examples.finetune.kinds import problems_of
from examples.finetune.llama import as_llama, copy_back, tokenizer_of
from examples.finetune.model import ANSWER_TOKENS, Model, encoded
from examples.finetune.notes import Notes
from examples.finetune.plan import Plan
from examples.finetune.tasks import Problem
from examples.finetune.train import Stopwatch, evaluate
from examples.finetune.warm_up import warmed_up

PATIENCE_S = 120.0  # for the service: a busy machine


class NotingSelector(Selector):
    """Remembers what was believed of each task when it was selected last: mean, and P(effective).

    It raises where others would choose tasks without the service: the course would be another one.
    """

    def __init__(self, client: ResilientClient, dataset: str, run: str, *, ids: list[str]) -> None:
        super().__init__(client, dataset, run, ids=ids)
        self.believed: dict[str, tuple[float | None, float | None]] = {}

    def next(self, count: int | None = None, *, key: str | None = None, **wishes: Any) -> Selection:
        """Select tasks."""
        selection = super().next(count, key=key, **wishes)
        if selection.is_local:
            raise RuntimeError(self.client.health.last_error)
        self.believed.update({task.id: (task.mean, task.effective) for task in selection.tasks})
        return selection


@dataclass(frozen=True, slots=True)
class Verifier:
    """The reward function; notes what it sees in each step.

    selector: knows what was believed of the tasks.
    places: of the pool's tasks, by id.
    rollouts: of each task, in a row.
    """

    selector: NotingSelector
    places: dict[str, int]
    rollouts: int
    notes: Notes
    __name__ = "verifier"  # a trainer asks for it

    def __call__(
        self, completions: list[str], answer: list[str], task_id: list[str], **_columns: object
    ) -> list[float]:
        """Return 1 for each right completion, else 0."""
        right = [written == wanted for written, wanted in zip(completions, answer, strict=True)]
        solved = [sum(right[first : first + self.rollouts]) for first in range(0, len(right), self.rollouts)]
        tasks = task_id[:: self.rollouts]
        means, chances = np.array([self.selector.believed[task] for task in tasks], float).T
        self.notes.step(Choice([self.places[task] for task in tasks], means, chances), solved)
        return [float(one) for one in right]


class Watch(TrainerCallback):
    """Evaluates now and then, and keeps the time of training without that of evaluations."""

    def __init__(
        self,
        plan: Plan,
        evaluate_it: Callable[[LlamaForCausalLM], None],
        on_step: Callable[[int], object],
    ) -> None:
        self.stopwatch = Stopwatch()
        self._plan, self._evaluate, self._on_step = plan, evaluate_it, on_step
        self._training = ExitStack()  # holds the running stopwatch

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Evaluate the model as it comes, then start the time."""
        self._evaluate(kwargs["model"])
        self._training.enter_context(self.stopwatch)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Stop the time, and evaluate if it is time for it."""
        self._training.close()
        self._on_step(state.global_step)
        if state.global_step % self._plan.evaluate_every == 0:
            self._evaluate(kwargs["model"])
        self._training.enter_context(self.stopwatch)


def train(
    plan: Plan,
    seed: int,
    arm: str,
    *,
    client: Client,
    dataset: str,
    folder: Path,
    on_step: Callable[[int], object],
) -> tuple[Course, Notes]:
    """Train from the seed's warm-up; return the result, and the notes it was made of.

    Args:
        plan: how long, on how many tasks; its steps are a multiple of those between evaluations.
        seed: of the pool, the warm-up and every draw of a completion.
        arm: name of the run in the service, which exists.
        client: of the service.
        dataset: the pool's name there.
        folder: where warm-ups are kept.
        on_step: called with the number of steps so far.
    """
    be_quiet()
    pool, held_out = problems_of(plan, seed)
    model, notes = warmed_up(seed, plan, folder)["start"], Notes(plan, seed, arm)
    watch = Watch(
        plan, evaluation_of(model, pool, held_out, ServiceChooser(client, dataset, arm, pool), notes), on_step
    )
    with patient(client.url, folder / "spool") as resilient:
        selector = NotingSelector(resilient, dataset, arm, ids=[problem.id for problem in pool])
        places = {problem.id: place for place, problem in enumerate(pool)}
        trainer = SelectedGRPOTrainer(
            model=as_llama(model),
            reward_funcs=Verifier(selector, places, plan.rollouts, notes),
            args=configuration(plan, seed, folder / "trl"),
            train_dataset=rows_of(pool),
            processing_class=tokenizer_of(model),
            selector=selector,
            callbacks=[watch],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        health = resilient.health
    times = {"seconds": watch.stopwatch.seconds, "cpu_seconds": watch.stopwatch.cpu_seconds}
    return notes.course(**times, service_seconds=health.select_seconds + health.report_seconds), notes


def evaluation_of(
    model: Model, pool: list[Problem], held_out: list[Problem], service: ServiceChooser, notes: Notes
) -> Callable[[LlamaForCausalLM], None]:
    """Return what notes an evaluation of a model of transformers; the plain one takes its weights for that."""
    tasks, questions = encoded(model, pool), encoded(model, held_out)

    def evaluated(llama: LlamaForCausalLM) -> None:
        copy_back(llama, model)
        evaluate(model, questions, tasks, service, notes)

    return evaluated


def rows_of(pool: list[Problem]) -> Dataset:
    """Return the pool as the trainer reads it."""
    return Dataset.from_list(
        [{"task_id": problem.id, "prompt": problem.prompt, "answer": problem.answer} for problem in pool]
    )


def patient(url: str, spool: Path) -> ResilientClient:
    """Return a client that waits for the service."""
    return ResilientClient(url, select_deadline_s=PATIENCE_S, report_deadline_s=PATIENCE_S, spool=spool)


def be_quiet() -> None:
    """Let transformers ask no hub, as all is made here, and print nothing."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore", FutureWarning)  # TRL's calls of transformers, not ours to mend
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def configuration(plan: Plan, seed: int, folder: Path) -> GRPOConfig:
    """Return TRL's settings: one update for each batch of rollouts, no reference penalty, nothing saved or logged."""
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=plan.steps,
        per_device_train_batch_size=plan.tasks_per_step * plan.rollouts,
        num_generations=plan.rollouts,
        max_completion_length=ANSWER_TOKENS,
        learning_rate=plan.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=plan.rising,
        beta=0.0,
        seed=seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
