"""One training run: TRL's GRPOTrainer on the tasks that one strategy of the service chooses."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import LlamaForCausalLM, PrinterCallback, TrainerCallback
from trl import GRPOConfig

from bots_client import ResilientClient, Selector
from bots_client.integrations.trl import SelectedGRPOTrainer
from examples.grpo_cpu.course import Course, Evaluation
from examples.grpo_cpu.model import ANSWER_TOKENS, new_tokenizer, solved
from examples.grpo_cpu.plan import Plan
from examples.grpo_cpu.tasks import LEVELS, Problem, is_solved, problems_of

FLUSH_S = 60.0  # at the end, for reports that the service has not taken yet


@dataclass(slots=True)
class Verifier:
    """The reward function; keeps count of what it saw in each step.

    rollouts: of each task, in a row.
    solved: completions that were right; effective: tasks with some right and some wrong ones.
    """

    rollouts: int
    solved: list[int] = field(default_factory=list)
    effective: list[int] = field(default_factory=list)
    __name__ = "verifier"  # a trainer asks for it

    def __call__(self, completions: list[str], answer: list[str], **_columns: object) -> list[float]:
        """Return 1 for each right completion, else 0."""
        right = [is_solved(*pair) for pair in zip(completions, answer, strict=True)]
        groups = [sum(right[first : first + self.rollouts]) for first in range(0, len(right), self.rollouts)]
        self.solved.append(sum(groups))
        self.effective.append(sum(0 < group < self.rollouts for group in groups))
        return [float(one) for one in right]


class Watch(TrainerCallback):
    """Evaluates now and then, and keeps the time of training without that of evaluations."""

    def __init__(self, held_out: list[Problem], plan: Plan, seed: int, on_step: Callable[[int], object]) -> None:
        self.seconds = 0.0
        self.evaluations: list[Evaluation] = []
        self._held_out, self._plan, self._seed, self._on_step = held_out, plan, seed, on_step
        self._resumed_at = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Evaluate the model as it comes."""
        self._evaluate(kwargs["model"], 0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Stop the time, and evaluate if it is time for it."""
        self.seconds += time.perf_counter() - self._resumed_at
        self._on_step(state.global_step)
        if state.global_step % self._plan.evaluate_every == 0 or state.global_step == self._plan.steps:
            self._evaluate(kwargs["model"], state.global_step)
        self._resumed_at = time.perf_counter()

    def _evaluate(self, model: LlamaForCausalLM, step: int) -> None:
        attempts = self._plan.held_out_attempts
        counts = solved(model, self._held_out, attempts=attempts, seed=self._seed)
        by_level = []
        for level in LEVELS:
            own = [count for problem, count in zip(self._held_out, counts, strict=True) if problem.level == level]
            by_level.append(sum(own) / (len(own) * attempts))
        self.evaluations.append(Evaluation(step, self.seconds, sum(by_level) / len(by_level), by_level))
        self._resumed_at = time.perf_counter()


def train(
    plan: Plan, seed: int, arm: str, *, url: str, dataset: str, folder: Path, on_step: Callable[[int], object]
) -> Course:
    """Train from the weak model; return the result.

    Args:
        plan: how long, on how many tasks.
        seed: of the pool and of every draw.
        arm: the run's name.
        url: of the service.
        dataset: the pool's name there.
        folder: where the weak model lies.
        on_step: called with the number of steps so far.
    """
    pool, held_out = problems_of(seed, per_level=plan.tasks_per_level, held_out_per_level=plan.held_out_per_level)
    rows = [{"task_id": problem.id, "prompt": problem.prompt, "answer": problem.answer} for problem in pool]
    verifier, watch = Verifier(plan.rollouts), Watch(held_out, plan, seed, on_step)
    with ResilientClient(url, spool=folder / "spool") as client:
        trainer = SelectedGRPOTrainer(
            model=LlamaForCausalLM.from_pretrained(folder / "weak"),
            reward_funcs=verifier,
            args=configuration(plan, seed, folder / arm),
            train_dataset=Dataset.from_list(rows),
            processing_class=new_tokenizer(),
            selector=Selector(client, dataset, arm, ids=[problem.id for problem in pool]),
            callbacks=[watch],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        kept, health = client.flush(FLUSH_S), client.health
    return Course(
        seed=seed,
        arm=arm,
        evaluations=watch.evaluations,
        solved=verifier.solved,
        effective=verifier.effective,
        seconds=watch.seconds,
        select_seconds=health.select_seconds,
        report_seconds=health.report_seconds,
        local_selects=health.local_selects,
        kept=kept,
    )


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
        warmup_steps=5,
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
