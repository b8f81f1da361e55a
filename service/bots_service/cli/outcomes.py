"""Outcomes from the command line and from JSON. Only `bots report` imports this module: it loads the client."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import typer

from bots_client import InvalidRequestError, Outcome
from bots_service.cli.failures import CommandError

FORMS = "TASK=SUCCESSES/TRIALS, TASK=REWARD,REWARD,..., TASK=SUCCESSES/TRIALS:REWARD,REWARD,... or TASK=aborted"
FLAGS = {":effective": True, ":ineffective": False}


def outcome_of(text: str) -> Outcome:
    """Return the outcome in an argument.

    Counts are `math-17=7/16`, rewards are `math-4=0,1,0.5`, both are `math-5=1/3:1.2,0.2,0`. A task whose rollouts did
    not finish is `math-9=aborted`. `:effective` or `:ineffective` at the end says whether the group gives a gradient.

    Raises:
        typer.BadParameter: the argument has none of these forms.
    """
    task, equals, result = text.rpartition("=")  # a task's id may hold an equals sign, its result can't
    flag = next((flag for flag in FLAGS if result.endswith(flag)), "")
    try:
        if not (equals and task):
            raise ValueError(text)
        if result == "aborted":
            return Outcome.aborted(task)
        return _parsed(task, result.removesuffix(flag), FLAGS.get(flag))
    except (ValueError, InvalidRequestError) as error:
        raise typer.BadParameter(f"{text!r} is not one of {FORMS}", param_hint="OUTCOME") from error


def _parsed(task: str, result: str, effective: bool | None) -> Outcome:
    first, colon, second = result.partition(":")
    successes, slash, trials = first.partition("/")
    if not slash:
        return Outcome.rewards(task, _numbers(result), effective=effective)
    rewards = _numbers(second) if colon else None
    return Outcome.counts(task, float(successes), float(trials), rewards=rewards, effective=effective)


def _numbers(text: str) -> list[float]:
    numbers = [float(number) for number in text.split(",")]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(text)
    return numbers


def read_report(file: str) -> tuple[list[Outcome], str | None]:
    """Return the outcomes in a JSON file ("-": stdin), and its `selection_id` if it has one.

    Raises:
        CommandError: the file is not JSON of this form.
    """
    try:
        content = json.loads(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
    except ValueError as error:
        raise CommandError(f"{file}: not JSON: {error}") from error
    selection = content.get("selection_id") if isinstance(content, dict) else None
    rows = content.get("outcomes") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not (selection is None or isinstance(selection, str)):
        raise CommandError(f'{file}: expected a list of outcomes, or {{"selection_id": "...", "outcomes": [...]}}')
    return [_outcome_in(file, place, row) for place, row in enumerate(rows, 1)], selection


def _outcome_in(file: str, place: int, row: Any) -> Outcome:
    try:
        cost = {"tokens": row.get("tokens"), "seconds": row.get("seconds")}
        if row.get("status") == "aborted":
            return Outcome.aborted(row["task"], **cost)
        successes, trials, rewards, effective = map(row.get, ("successes", "trials", "rewards", "effective"))
        about = {"effective": effective, "group_size": row.get("group_size"), **cost}
        if rewards is not None and successes is trials is None:
            return Outcome.rewards(row["task"], rewards, **about)
        return Outcome.counts(row["task"], successes, trials, rewards=rewards, **about)
    except (AttributeError, KeyError, TypeError, InvalidRequestError) as error:
        forms = "a task with successes and trials, with rewards, with both, or with the status aborted"
        raise CommandError(f"{file}: outcome {place} is not {forms}: {json.dumps(row)[:100]}") from error
