"""The result of one training run, as plain values, and files of them: one run a line."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from examples.finetune.plan import Lessons, ModelConfig, Plan

REGISTERED = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One run.

    Of each evaluation, from step 0 to the last:
    accuracies: the mean probability that a sampled answer to a held-out task is right, in [0, 1]; by_group: the same of
        each group that has held-out tasks.
    Of each look at the pool, from step 0 to the last:
    pool_accuracies: the same of the pool's tasks, with the answers that training takes for right.
    uniform_ratios: the effective task ratio to expect of uniform choice.
    slopes, log_losses, least_losses: of the belief about the pool's tasks; see `Calibration`. A slope is None where
        the belief is the same for all tasks.

    solved: rollouts that succeeded in each step; effective: tasks with some rollouts that did and some that didn't.
    visits: how often each task of the pool was chosen.
    reference_rollouts: what the references cost.
    seconds: of all steps and evaluations, in lockstep a run's part of them; cpu_seconds: those of the training's own
        process; service_seconds: how long the service's answers took.
    """

    seed: int
    arm: str
    accuracies: list[float]
    by_group: list[list[float]]
    pool_accuracies: list[float]
    uniform_ratios: list[float]
    slopes: list[float | None]
    log_losses: list[float]
    least_losses: list[float]
    solved: list[int]
    effective: list[int]
    visits: list[int]
    reference_rollouts: int
    seconds: float
    cpu_seconds: float
    service_seconds: float


@dataclass(frozen=True, slots=True)
class Record:
    """A run with what it was made by.

    commit: of this repository, with "+" if files differed from it.
    machine: what it ran on.
    """

    commit: str
    machine: dict[str, Any]
    plan: Plan
    course: Course

    def as_line(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":")) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "Record":
        """Return what `as_line` made the line of."""
        values = json.loads(line)
        return cls(values["commit"], values["machine"], plan_of(values["plan"]), Course(**values["course"]))


def plan_of(values: dict[str, Any]) -> Plan:
    """Return a plan from its JSON values; where they name no model, it was the default one."""
    lessons = Lessons(**{**values["lessons"], "shares": tuple(values["lessons"]["shares"])})
    model = ModelConfig(**values.get("model", {}))
    return Plan(**{**values, "lessons": lessons, "model": model, "pool": tuple(values["pool"])})


def records_of(files: Iterable[Path]) -> list[Record]:
    """Return the runs in files.

    Raises:
        ValueError: runs of different plans, or two of one seed and arm: they can't be compared.
    """
    records = [Record.from_line(line) for file in files for line in file.read_text("utf-8").splitlines()]
    if any(record.plan != records[0].plan for record in records):
        raise ValueError("the runs have different plans")
    names = [(record.course.seed, record.course.arm) for record in records]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"more than one run of {', '.join(f'seed {seed}, {arm}' for seed, arm in sorted(twice))}")
    return records


def registered_runs(name: str) -> list[Record]:
    """Return the runs of a registered comparison, which the repository keeps."""
    (file,) = REGISTERED.glob(f"*-{name}.jsonl")
    return records_of([file])


def finished_runs(file: Path, plan: Plan) -> list[Record]:
    """Return the runs that a file has from before; a line that was not written to its end is taken away.

    Raises:
        ValueError: they are of another plan.
    """
    if not file.exists():
        return []
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        file.write_bytes(whole)
    records = records_of([file])
    if records and records[0].plan != plan:
        raise ValueError(f"{file} has runs of another plan")
    return records
