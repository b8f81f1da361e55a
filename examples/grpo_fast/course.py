"""The result of one training run, as plain values, and files of them: one run a line."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from examples.grpo_fast.plan import Lessons, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One run.

    accuracies: of each evaluation, from step 0 to the last: the mean probability that a sampled answer to a held-out
        task is right, in [0, 1]; by_level: the same of each level.
    pool_accuracies: the same of the pool's tasks, before the first step and after the last.
    uniform_ratios: the effective task ratio to expect of uniform choice, before the first step and after the last.
    solved: rollouts that succeeded in each step; effective: tasks with some rollouts that did and some that didn't.
    visits: how often each task of the pool was chosen.
    seconds: of all steps, without evaluations; service_seconds: of those, spent waiting for the service.
    """

    seed: int
    arm: str
    accuracies: list[float]
    by_level: list[list[float]]
    pool_accuracies: list[float]
    uniform_ratios: list[float]
    solved: list[int]
    effective: list[int]
    visits: list[int]
    seconds: float
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
    """Return a plan from its JSON values."""
    lessons = Lessons(**{**values["lessons"], "shares": tuple(values["lessons"]["shares"])})
    return Plan(**{**values, "lessons": lessons, "pool": tuple(values["pool"])})


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
